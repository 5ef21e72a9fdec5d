/**
 * The records that a caller names: by values, by entities, and by requests, which are identified as in the proxy.
 */

import { percentEncode } from '../../core/formats/percent-encoding.ts'
import type { HeaderList } from '../../core/header-list.ts'
import { explain } from '../../core/request/explain.ts'
import { fingerprint } from '../../core/request/fingerprint.ts'
import { fingerprintOfName, recordKey, type Scope } from '../../core/request/identity.ts'
import { type PrincipalRules, principalFrom } from '../../core/request/principal.ts'
import type { Intent } from '../../core/reservations/reservations.ts'
import type { ProtectedRoute, Route } from '../../core/routes/route.ts'
import type { Problem } from '../message/problems.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import { routeFor } from '../request/described-route.ts'
import { fingerprintProblem, identify, rulesOf } from '../request/identify.ts'
import { type DescribedRequestInput, type FingerprintInput, LIMITS, type ReserveInput } from './schemas.ts'

/** What identifies a described request, as in the proxy. */
export type Describing = { readonly routes: readonly Route[]; readonly principal: PrincipalRules }

export type ScopeNames = { readonly tenant?: string; readonly api_version?: string }

/** What to reserve, and the caller's names for it. */
export type Wanted = {
  readonly kind: 'wanted'
  readonly scope: Scope
  readonly intents: readonly Intent[]
  readonly entities: readonly Intent[]
  readonly names: ReadonlyMap<string, string>
  /** Settings of the described request's route; its entities are among those above. */
  readonly route?: Pick<ProtectedRoute, 'retentionMs' | 'takeover'>
}

export type Refused = { readonly kind: 'refused'; readonly problem: Problem }

export async function wantedBy(
  input: ReserveInput,
  defaults: Scope,
  describing: Describing,
): Promise<Wanted | Refused> {
  const scope = scopeOf(input, defaults)
  const names = new Map<string, string>()
  const intents: Intent[] = []
  const entities: Intent[] = []
  let route: Wanted['route']
  if (input.request !== undefined) {
    const identified = await identifiedAs(input.request, scope, describing)
    if ('code' in identified) return { kind: 'refused', problem: identified }
    const { intent, entityKeys } = identified
    intents.push(intent)
    route = identified.route
    const name = `${input.request.method} ${input.request.path}`
    for (const key of [intent.recordKey, ...entityKeys]) names.set(key, name)
    entities.push(
      ...entityKeys.map((recordKey) => ({ recordKey, fingerprint: fingerprintOfName(recordKey) })),
    )
  }
  const values = input.reserved_value === undefined ? input.reserved_values : [input.reserved_value]
  for (const value of values ?? []) {
    const intent = intentOfName('reservation', value, scope)
    if ('code' in intent) return { kind: 'refused', problem: intent }
    intents.push(intent)
    names.set(intent.recordKey, value)
  }
  for (const entity of input.entities ?? []) {
    const intent = intentOfName('entity', entity, scope)
    if ('code' in intent) return { kind: 'refused', problem: intent }
    entities.push(intent)
    names.set(intent.recordKey, entity)
  }
  return {
    kind: 'wanted',
    scope,
    intents,
    entities,
    names,
    ...(route === undefined ? {} : { route }),
  }
}

export function scopeOf({ tenant, api_version }: ScopeNames, defaults: Scope): Scope {
  return {
    tenant: tenant ?? defaults.tenant,
    env: defaults.env,
    apiVersion: api_version ?? defaults.apiVersion,
  }
}

export function intentOfName(mode: 'reservation' | 'entity', name: string, scope: Scope): Intent | Problem {
  const bytes = Buffer.byteLength(name)
  if (bytes > LIMITS.valueBytesMax)
    return {
      code: 'request-invalid',
      detail: `A value has ${bytes} bytes of UTF-8, at most ${LIMITS.valueBytesMax} are accepted.`,
    }
  // Routes name an entity by parts of the request, percent-encoded: both must mean the same record.
  const value = mode === 'entity' ? percentEncode(name) : name
  const key = value === undefined ? undefined : recordKey({ ...scope, mode, value })
  if (key === undefined) return { code: 'request-invalid', detail: 'A value has a lone surrogate.' }
  if (key.kind === 'invalid_identity')
    return { code: key.part === 'value' ? 'request-invalid' : 'scope-invalid', detail: `${key.detail}.` }
  return { recordKey: key.recordKey, fingerprint: fingerprintOfName(key.recordKey) }
}

type OfRequest = {
  readonly intent: Intent
  readonly entityKeys: readonly string[]
  readonly route: ProtectedRoute
}

async function identifiedAs(
  described: DescribedRequestInput,
  scope: Scope,
  { routes, principal }: Describing,
): Promise<OfRequest | Problem> {
  const request = admitted(described)
  const matched = routeFor(request, routes)
  if (matched === undefined || matched.route.mode === 'bypass')
    return {
      code: 'request-invalid',
      detail: 'No protected route matches the request, so nothing says what identifies it. Reserve a value.',
    }
  const { route, params } = matched
  const identified = await identify({ request, body: bodyOf(described), route, params }, scope, principal)
  switch (identified.kind) {
    case 'identified': {
      const { recordKey: key, fingerprint: print, entityKeys } = identified
      return { intent: { recordKey: key, fingerprint: print }, entityKeys, route }
    }
    case 'unkeyed':
      return {
        code: 'key-missing',
        detail: 'The request has no key, and its route asks for none without one.',
      }
    case 'refused':
      return identified.problem
  }
}

/** For debugging: the fingerprint as the matching route computes it. */
export async function explained(
  { request: described, ...names }: FingerprintInput,
  defaults: Scope,
  { routes, principal: rules }: Describing,
): Promise<Record<string, unknown> | Problem> {
  const request = admitted(described)
  const route = routeFor(request, routes)?.route
  const guarded = route === undefined || route.mode === 'bypass' ? undefined : route
  const { method, path, query, headers } = request
  const principal = principalFrom(guarded?.principal ?? { kind: 'authorization' }, headers, rules)
  const head = { ...scopeOf(names, defaults), principal, method, path, query, headers }
  const body = bodyOf(described)
  const printed = await (guarded === undefined
    ? fingerprint(head, body)
    : fingerprint(head, body, rulesOf(guarded)))
  if (printed.kind !== 'fingerprint') return fingerprintProblem(printed)
  return { route: guarded?.name ?? null, ...explain(printed) }
}

function admitted({ method, path, query, headers = {} }: DescribedRequestInput): AdmittedRequest {
  const list: HeaderList = Object.entries(headers).flatMap(([name, value]) =>
    (typeof value === 'string' ? [value] : value).map((line) => [name, line] as const),
  )
  const host = list.find(([name]) => name.toLowerCase() === 'host')?.[1]
  const target = query === undefined ? path : `${path}?${query}`
  return { method, target, path, query, host, httpVersion: '1.1', headers: list }
}

function bodyOf({ body, body_base64 }: DescribedRequestInput): Buffer {
  return body_base64 === undefined ? Buffer.from(body ?? '') : Buffer.from(body_base64, 'base64')
}
