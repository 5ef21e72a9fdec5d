/**
 * From what an operator sends to the keys of the records that it can mean.
 *
 * Owns the identification of a request of which only the key is known. With the whole request it is identified by the
 * code of the proxy.
 */

import type { HeaderList } from '../../core/header-list.ts'
import { keysOfHash, parseReference } from '../../core/operator/locate.ts'
import { parseIdempotencyKey } from '../../core/request/idempotency-key.ts'
import { recordKey, type Scope } from '../../core/request/identity.ts'
import { keyOf } from '../../core/request/key-parts.ts'
import { type PrincipalRules, principalOfRequest } from '../../core/request/principal.ts'
import { openReservationId, WHY_LOST, whyForeign } from '../../core/reservations/reservation-id.ts'
import type { ReservationSecret } from '../../core/reservations/reservation-secret.ts'
import {
  type PrincipalSource,
  type ProtectedRoute,
  policiesOf,
  possibleRoutes,
  protects,
  type Route,
} from '../../core/routes/route.ts'
import type { Problem } from '../message/problems.ts'
import { ID_UNCHECKED } from '../message/record-problems.ts'
import { type Describing, identifiedAs, intentOfName, scopeOf } from '../request/described-request.ts'
import { tokenProblem } from '../request/identify.ts'
import type { FindInput } from './find-schemas.ts'

type Located =
  /** Any of them; `certain`: shown even where no node has a record. `otherwise`: what is then answered instead of that there is none. */
  | {
      readonly kind: 'keys'
      readonly keys: readonly string[]
      readonly certain: boolean
      readonly otherwise?: Problem
    }
  /** Only the first digits of a hash are known: they have to be searched. */
  | { readonly kind: 'search'; readonly digits: string }
  | { readonly kind: 'instance'; readonly instance: string }
  | { readonly kind: 'refused'; readonly problem: Problem }

export type LocatingOptions = {
  readonly scope: Scope
  readonly describing: Describing
  readonly secret: ReservationSecret
}

export async function locate(input: FindInput, options: LocatingOptions): Promise<Located> {
  const scope = scopeOf(input, options.scope)
  if (input.reference !== undefined) return ofReference(input.reference, scope)
  if (input.key !== undefined) return ofKey(input.key, scope, options.describing)
  if (input.request !== undefined) {
    const identified = await identifiedAs(input.request, scope, options.describing)
    if ('code' in identified) return refused(identified)
    return certain([identified.intent.recordKey, ...identified.entityKeys])
  }
  if (input.reservation_id !== undefined) return ofReservation(input.reservation_id, options.secret)
  const [mode, name] =
    input.reserved_value === undefined
      ? (['entity', input.entity ?? ''] as const)
      : (['reservation', input.reserved_value] as const)
  const intent = intentOfName(mode, name, scope)
  return 'code' in intent ? refused(intent) : certain([intent.recordKey])
}

function ofReference(text: string, scope: Scope): Located {
  const reference = parseReference(text)
  switch (reference?.kind) {
    case 'record':
      return certain([reference.recordKey])
    case 'hash':
      return { kind: 'keys', keys: keysOfHash(scope, reference.hash), certain: false }
    case 'short':
      return { kind: 'search', digits: reference.digits }
    case 'instance':
      return { kind: 'instance', instance: reference.instance }
    case undefined:
      return refused({
        code: 'request-invalid',
        detail:
          'The reference is no record key, hash (64 digits), key_hash (16 digits), lock_id (16 digits, a dash, a number) or instance (urn:uuid:…).',
      })
  }
}

type KeyGiven = NonNullable<FindInput['key']>

/**
 * The record of a request with this key, whatever its body. Which host it was for and what else it had in its head nobody knows, so
 * it may have one of several routes, and the record of any of them is meant.
 */
async function ofKey(given: KeyGiven, scope: Scope, { routes, principal }: Describing): Promise<Located> {
  const { method, path, idempotency_key: key, authorization } = given
  if (!/^[\x21-\x7e]*$/.test(path))
    return refused({
      code: 'request-invalid',
      detail: `No request can have this path. It was sent percent-encoded: ${encodeURI(path.toWellFormed()).replaceAll('%25', '%')}`,
    })
  const headers: HeaderList = [
    ['idempotency-key', key],
    ...(authorization === undefined ? [] : [['authorization', authorization] as const]),
  ]
  const possible = possibleRoutes(routes, { method, path, query: undefined, headers })
  const [whole] = possible.filter(takesMore)
  const simple = possible.filter((route) => !takesMore(route))
  const located = await Promise.all(simple.map((route) => ofKeyOn(route, given, scope, principal)))
  const keys = [...new Set(located.flatMap((one) => (one.kind === 'keys' ? one.keys : [])))]
  if (keys.length === 0) return whole === undefined ? (located[0] as Located) : refused(needsWhole(whole))
  return {
    kind: 'keys',
    keys,
    certain: keys.length === 1 && whole === undefined,
    ...(whole === undefined ? {} : { otherwise: needsWhole(whole) }),
  }
}

function needsWhole({ name }: ProtectedRoute): Problem {
  return {
    code: 'request-invalid',
    detail: `The request may be one of the route ${name}, which makes the key of more than a header. Send the whole request as "request".`,
  }
}

/** More of the request than the headers that can carry a key. */
function takesMore(route: Route | undefined): route is ProtectedRoute {
  return protects(route) && (route.mode === 'content' || route.key.parts.length > 0)
}

async function ofKeyOn(
  route: Route | undefined,
  { method, path, idempotency_key: key, ...whose }: KeyGiven,
  scope: Scope,
  rules: PrincipalRules,
): Promise<Located> {
  const [guarded] = route === undefined ? [] : policiesOf(route)
  const carrier = {
    headers: headersOf(guarded?.key.headers ?? [], key),
    query: undefined,
    pathParameters: {},
  }
  const parsed =
    guarded === undefined
      ? parseIdempotencyKey([key], { strict: false, minLength: 1 })
      : keyOf(guarded.key, { ...carrier, body: Buffer.alloc(0) })
  if (parsed.kind !== 'key') {
    const why = parsed.kind === 'invalid' ? `${parsed.detail}.` : 'It is empty.'
    return refused({ code: 'key-invalid', detail: `No request can have this key: ${why}` })
  }
  const principal = await principalGiven(whose, guarded?.principal ?? { kind: 'authorization' }, rules)
  if (typeof principal !== 'string') return refused(principal)
  const record = recordKey({
    ...scope,
    mode: 'header',
    principal,
    method,
    path,
    key: parsed.key,
  })
  return record.kind === 'record_key'
    ? certain([record.recordKey])
    : refused({ code: 'scope-invalid', detail: `${record.detail}.` })
}

function headersOf(names: readonly string[], key: string): HeaderList {
  const [first] = names
  return first === undefined ? [] : [[first, key]]
}

async function ofReservation(id: string, secret: ReservationSecret): Promise<Located> {
  const of = await openReservationId(id, secret)
  if (of.kind === 'unavailable') return refused(ID_UNCHECKED)
  if (of.kind === 'foreign')
    return refused({
      code: 'reservation-id-invalid',
      detail: `The id ${whyForeign(id)}.`,
    })
  if (of.kind === 'lost') return refused({ code: 'reservation-lost', detail: `The id ${WHY_LOST}.` })
  const { intents, entities } = of.reservation
  return certain([...intents, ...entities].map(({ recordKey: key }) => key))
}

function certain(keys: readonly string[]): Located {
  return { kind: 'keys', keys, certain: true }
}

function refused(problem: Problem): Located {
  return { kind: 'refused', problem }
}

/** Whose request it was, from what support has: the hash, the client's Authorization line, or what names the client. */
type Whose = {
  readonly principal?: string
  readonly authorization?: string
  readonly client?: string
}

/**
 * The principal, by the code of the proxy: of the header, or the token with the claim, in which the route looks for a named client. Nothing given
 * is an anonymous request.
 */
async function principalGiven(
  { principal, authorization, client }: Whose,
  source: PrincipalSource,
  rules: PrincipalRules,
): Promise<string | Problem> {
  if (client !== undefined && (principal ?? authorization) !== undefined)
    return invalid('"client" says whose request it was, and so does another member. Leave one of them out.')
  if (principal !== undefined) return principal
  const headers = client === undefined ? authorized(authorization) : headersNaming(client, source, rules)
  if ('code' in headers) return headers
  const whose = await principalOfRequest(source, headers, rules)
  return whose.kind === 'principal' ? whose.principal : tokenProblem(whose)
}

function authorized(line: string | undefined): HeaderList {
  return line === undefined ? [] : [['Authorization', line]]
}

function headersNaming(client: string, source: PrincipalSource, rules: PrincipalRules): HeaderList | Problem {
  switch (source.kind) {
    case 'header':
      return [[source.name, client]]
    case 'authorization':
      return rules.trusted ? [[rules.clientHeader, client]] : BY_AUTHORIZATION
    case 'jwt':
      return rules.trusted ? tokenOf(source.claim, client) : BY_AUTHORIZATION
    case 'verified_jwt': {
      const [claim, ...more] = source.claims
      if (claim === undefined || more.length > 0)
        return invalid(
          `The route identifies clients by several claims (${source.claims.join(', ')}). Give "authorization" or "principal".`,
        )
      return tokenOf(claim, client)
    }
  }
}

/** In the form of a signed token. Nobody verifies it here, and it is sent nowhere: it only says whose record is looked for. */
function tokenOf(claim: string, client: string): HeaderList {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return [['Authorization', `Bearer ${part({ alg: 'none' })}.${part({ [claim]: client })}.none`]]
}

function invalid(detail: string): Problem {
  return { code: 'request-invalid', detail }
}

const BY_AUTHORIZATION = invalid(
  'The route identifies clients by their Authorization line. Give "authorization", or "principal", the hash of it.',
)
