/**
 * What a caller names instead of sending it: a request that does not pass through the proxy, a reserved value, an entity.
 *
 * Owns the schema of a described request, and that it is identified exactly as the proxy would identify it.
 */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { percentEncode } from '../../core/formats/framing.ts'
import type { HeaderList } from '../../core/header-list.ts'
import { fingerprintOfName, recordKey, type Scope } from '../../core/request/identity.ts'
import type { PrincipalRules } from '../../core/request/principal.ts'
import type { Intent } from '../../core/reservations/reservations.ts'
import { matchRoute, type ProtectedRoute, policiesOf, type Route } from '../../core/routes/route.ts'
import { Closed } from '../message/closed-schema.ts'
import type { Problem } from '../message/problems.ts'
import { type AdmittedRequest, forHost } from './admission.ts'
import { identify } from './identify.ts'

/** Of a value's or an entity's name, in UTF-8; for longer content use a hash. */
export const VALUE_BYTES_MAX = 1_024

const DESCRIBED_LIMITS = { headerCountMax: 100, headerCharsMax: 8_192, targetCharsMax: 8_192 } as const

/** As the proxy gets it: a character for each byte of the line, and no control characters (RFC 9110, section 5.5). */
const HeaderLine = Type.String({
  pattern: '^[\\t\\u0020-\\u007e\\u0080-\\u00ff]*$',
  maxLength: DESCRIBED_LIMITS.headerCharsMax,
})

/** A description of an HTTP request that does not pass through the proxy. */
export const DescribedRequest = Closed(
  {
    method: Type.String({ pattern: '^[A-Z]{1,32}$', examples: ['POST'] }),
    // The proxy identifies by the bytes that were sent. A path that a framework has decoded would be another request, silently.
    path: Type.String({
      pattern: '^/[!"$->@-~]*$',
      maxLength: DESCRIBED_LIMITS.targetCharsMax,
      description: 'As the client sends it, in percent-encoding.',
      examples: ['/payments'],
    }),
    query: Type.Optional(
      Type.String({
        pattern: '^[!"$-~]*$',
        maxLength: DESCRIBED_LIMITS.targetCharsMax,
        description: 'As the client sends it, without the question mark.',
      }),
    ),
    headers: Type.Optional(
      Type.Record(
        Type.String({ pattern: "^[!#$%&'*+\\-.^_`|~0-9A-Za-z]{1,128}$" }),
        Type.Union([HeaderLine, Type.Array(HeaderLine, { maxItems: 16 })]),
        { additionalProperties: false, maxProperties: DESCRIBED_LIMITS.headerCountMax },
      ),
    ),
    body: Type.Optional(Type.String({ description: 'As text; it is hashed as UTF-8.' })),
    body_base64: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]*={0,2}$',
        description: 'The same for what is no text; one of the two.',
      }),
    ),
  },
  {
    not: { required: ['body', 'body_base64'] },
    description:
      'A request, identified exactly as the proxy would identify it: by its Idempotency-Key and its content, as the route that matches it says.',
    examples: [
      { method: 'POST', path: '/payments', headers: { 'idempotency-key': 'order-4711' }, body: '{}' },
    ],
  },
)

type DescribedRequestInput = Static<typeof DescribedRequest>

/** What identifies a described request, as in the proxy. */
export type Describing = { readonly routes: readonly Route[]; readonly principal: PrincipalRules }

export type ScopeNames = { readonly tenant?: string; readonly api_version?: string }

export function scopeOf({ tenant, api_version }: ScopeNames, defaults: Scope): Scope {
  return {
    tenant: tenant ?? defaults.tenant,
    env: defaults.env,
    apiVersion: api_version ?? defaults.apiVersion,
  }
}

export function intentOfName(mode: 'reservation' | 'entity', name: string, scope: Scope): Intent | Problem {
  const bytes = Buffer.byteLength(name)
  if (bytes > VALUE_BYTES_MAX)
    return {
      code: 'request-invalid',
      detail: `A value has ${bytes} bytes of UTF-8, at most ${VALUE_BYTES_MAX} are accepted.`,
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

/** The record of a described request, as the proxy would identify it. */
export async function identifiedAs(
  described: DescribedRequestInput,
  scope: Scope,
  { routes, principal }: Describing,
): Promise<OfRequest | Problem> {
  const request = admitted(described)
  const matched = matchRoute(routes, request)
  const [route] = matched === undefined ? [] : policiesOf(matched.route)
  if (matched === undefined || route === undefined)
    return {
      code: 'request-invalid',
      detail: 'No protected route matches the request, so nothing says what identifies it. Reserve a value.',
    }
  const { params } = matched
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

export function admitted({ method, path, query, headers = {} }: DescribedRequestInput): AdmittedRequest {
  const list: HeaderList = Object.entries(headers).flatMap(([name, value]) =>
    (typeof value === 'string' ? [value] : value).map((line) => [name, line] as const),
  )
  const host = list.find(([name]) => name.toLowerCase() === 'host')?.[1]
  const target = query === undefined ? path : `${path}?${query}`
  return { method, target, path, query, httpVersion: '1.1', ...forHost(list, host) }
}

export function bodyOf({ body, body_base64 }: DescribedRequestInput): Buffer {
  return body_base64 === undefined ? Buffer.from(body ?? '') : Buffer.from(body_base64, 'base64')
}
