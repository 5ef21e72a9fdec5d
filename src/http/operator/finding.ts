/**
 * Records that are looked for: by what support has of one, or all that are live or expired.
 *
 * Owns what is said of records that are not found. Nothing is called absent, and no list whole, that too few nodes could be
 * read for.
 */

import type { HeaderList } from '../../core/header-list.ts'
import { keysOfHash, parseReference } from '../../core/operator/locate.ts'
import type { RecentDecisions } from '../../core/operator/recent-decisions.ts'
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
import { json, type OperatorAnswer, problem, refusal, unavailable } from './access.ts'
import type { FindInput } from './find-schemas.ts'
import { type ListInput, OPERATOR_LIMITS } from './schemas.ts'
import type { ShowingPorts } from './showing.ts'
import { oldestFirst, type Summary, summaryOf } from './shown.ts'

/** A part of a walk over the keys of the nodes, in small steps. */
export type SearchStep = {
  readonly records: readonly string[]
  readonly cursor?: string
  /** At the end of a walk: too few nodes could be read, so there may be records that it has not found. */
  readonly incomplete?: true
}

export type FindingPorts = Pick<ShowingPorts, 'inspect' | 'auditLog' | 'clock'> & {
  readonly recent: RecentDecisions
  /** Records whose hash begins with these digits, on from a cursor. */
  readonly search: (digits: string, cursor: string | undefined) => Promise<SearchStep>
  /** Claims in this state as one node shows them, on from a cursor. */
  readonly list: (state: 'live' | 'expired', cursor: string | undefined) => Promise<SearchStep>
}

export async function find(
  input: FindInput,
  options: LocatingOptions,
  ports: FindingPorts,
): Promise<OperatorAnswer> {
  const located = await locate(input, options)
  switch (located.kind) {
    case 'refused':
      return refusal(located.problem)
    case 'keys': {
      const all = await summariesOf(located.keys, ports)
      const records = located.certain ? all : all.filter(({ state }) => state !== 'absent')
      if (records.length > 0) return json({ records })
      return located.otherwise === undefined ? NO_RECORD : refusal(located.otherwise)
    }
    case 'instance': {
      const recordKey = ports.recent.recordOf(located.instance)
      return recordKey === undefined
        ? NOT_REMEMBERED
        : json({ records: await summariesOf([recordKey], ports) })
    }
    case 'search': {
      // Most questions are about what has just been decided here, or waits as a dead letter: no walk is needed.
      const near = await rememberedWith(located.digits, ports)
      const records = (await summariesOf(near, ports)).filter(({ state }) => state !== 'absent')
      if (records.length > 0) return json({ records })
      const step = await ports.search(located.digits, input.cursor)
      if (step.records.length > 0 || step.cursor !== undefined) return listed(step, ports)
      return step.incomplete ? NOT_LOOKED_FOR : NO_RECORD
    }
  }
}

async function rememberedWith(
  digits: string,
  { recent, auditLog }: FindingPorts,
): Promise<readonly string[]> {
  const remembered = recent.recordsWith(digits)
  if (remembered.length > 0) return remembered
  const reads = await Promise.all(
    (['dead-letters', 'audit'] as const).map((stream) => auditLog.read(stream, OPERATOR_LIMITS.historyMax)),
  )
  const keys = reads.flatMap((read) =>
    read.kind === 'entries' ? read.entries.map(({ recordKey }) => recordKey) : [],
  )
  return [...new Set(keys.filter((key) => key.slice(-64).startsWith(digits)))]
}

export async function list({ state, cursor }: ListInput, ports: FindingPorts): Promise<OperatorAnswer> {
  // Without a verdict it may be what is asked for, as the node shows it.
  return listed(await ports.list(state, cursor), ports, (one) => [state, 'unknown'].includes(one.state))
}

async function listed(
  { records, ...rest }: SearchStep,
  ports: FindingPorts,
  isWanted: (summary: Summary) => boolean = () => true,
): Promise<OperatorAnswer> {
  const wanted = (await summariesOf(records, ports)).filter(isWanted).sort(oldestFirst)
  return json({ records: wanted, ...rest })
}

function summariesOf(
  recordKeys: readonly string[],
  { inspect, clock }: FindingPorts,
): Promise<readonly Summary[]> {
  return Promise.all(recordKeys.map(async (key) => summaryOf(await inspect(key), clock.wallMs())))
}

const NO_RECORD = problem(
  'record-unknown',
  'No node has a record of it: it never came, was released and forgotten, or is older than its retention. Check tenant, API version and principal, too.',
)

const NOT_LOOKED_FOR = unavailable(
  'Too few nodes can be read to say whether there is such a record. None of those that can be read has one.',
)

const NOT_REMEMBERED = problem(
  'record-unknown',
  'This sidecar does not remember the answer with this instance: another one gave it, or it is too long ago. Search the logs for the instance; the line has key_hash.',
)

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

/** From what an operator sends to the keys of the records that it can mean; a whole request is identified by the code of the proxy. */
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
