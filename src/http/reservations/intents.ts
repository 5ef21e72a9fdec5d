/**
 * The records that a caller names: by values, by entities, and by requests, which are identified as in the proxy.
 */

import { explain } from '../../core/request/explain.ts'
import { DEFAULT_RULES, fingerprint, ignoredHeaders } from '../../core/request/fingerprint.ts'
import { fingerprintOfName, type Scope } from '../../core/request/identity.ts'
import { principalOfRequest } from '../../core/request/principal.ts'
import type { Intent } from '../../core/reservations/reservations.ts'
import { matchRoute, type ProtectedRoute, policiesOf } from '../../core/routes/route.ts'
import type { Problem } from '../message/problems.ts'
import {
  admitted,
  bodyOf,
  type Describing,
  identifiedAs,
  intentOfName,
  scopeOf,
} from '../request/described-request.ts'
import {
  fingerprintProblem,
  HOST_UNSAID,
  identifiedBy,
  isHostMissing,
  rulesOf,
  tokenProblem,
} from '../request/identify.ts'
import type { FingerprintInput, ReserveInput } from './schemas.ts'

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

type Refused = { readonly kind: 'refused'; readonly problem: Problem }

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

/** For debugging: the fingerprint as the matching route computes it. */
export async function explained(
  { request: described, ...names }: FingerprintInput,
  defaults: Scope,
  { routes, principal: principals }: Describing,
): Promise<Record<string, unknown> | Problem> {
  const request = admitted(described)
  const route = matchRoute(routes, request)?.route
  const [guarded] = route === undefined ? [] : policiesOf(route)
  const { method, path, query, headers } = request
  const source = guarded?.principal ?? { kind: 'authorization' }
  const named = await principalOfRequest(source, headers, principals)
  if (named.kind !== 'principal') return tokenProblem(named)
  const { principal, stated: clientStated } = named
  const head = { ...scopeOf(names, defaults), principal, clientStated, method, path, query, headers }
  const body = bodyOf(described)
  const rules = guarded === undefined ? DEFAULT_RULES : rulesOf(guarded)
  const by = guarded === undefined ? 'content' : identifiedBy(guarded)
  if (guarded !== undefined && by === 'content' && isHostMissing(request, guarded)) return HOST_UNSAID
  const printed = await fingerprint(head, body, rules, undefined, by)
  if (printed.kind !== 'fingerprint') return fingerprintProblem(printed)
  return {
    route: guarded?.name ?? null,
    ...explain(printed),
    identified_by: by,
    ignored_headers: ignoredHeaders(head, rules, by),
  }
}
