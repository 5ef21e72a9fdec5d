/**
 * A route: which requests it matches, and how they are handled.
 *
 * Owns the closed set of policies and the matching of a request line. Routes are tried in order and the first match
 * decides; a request that no route matches passes through untouched. Values of this file come complete from the
 * configuration: every default is filled in, so that no caller writes `?? something`.
 */

import type { JsonPointer } from '../formats/json-pointer.ts'
import { isJson, isMultipartForm, isUrlencodedForm, parseMediaType } from '../formats/media-type.ts'
import { type HeaderList, linesOf, linesReadAs } from '../header-list.ts'
import type { ClaimTerms } from '../ports.ts'
import {
  matchReading,
  NO_PARAMETERS,
  type PathParameters,
  type PathPattern,
  type RequestReading,
  readingsOfRequest,
  type Segment,
} from './path-pattern.ts'

export type Route = BypassRoute | ObservedRoute | ProtectedRoute

type BypassRoute = {
  readonly name: string
  readonly match: RouteMatch
  readonly mode: 'bypass'
  readonly upstreamTimeoutMs: number
}

/** Every request passes as on a route that bypasses, and what protecting it would have done is counted. */
export type ObservedRoute = {
  readonly name: string
  readonly match: RouteMatch
  readonly mode: 'observe'
  readonly upstreamTimeoutMs: number
  /** What is observed. */
  readonly as: ProtectedRoute
  /** The same for requests that have no key there; without it they would pass unprotected, or be refused. */
  readonly withoutKey?: ProtectedRoute
}

export type ProtectedRoute = {
  readonly name: string
  readonly match: RouteMatch
  /**
   * `header`: the client's key is the key; the fingerprint is stored and compared.
   * `content`: the fingerprint is the key.
   * `both`: the client's key, and the same content under another key is noticed too.
   */
  readonly mode: 'header' | 'content' | 'both'
  /** A request without a key is refused with 400; else it passes through untouched. No effect in mode `content`. */
  readonly required: boolean
  readonly key: KeySource
  /** Without a key of its client in `Idempotency-Key` the application gets one there that is the same for every attempt. */
  readonly derivedKey: boolean
  readonly fingerprint: FingerprintPolicy
  readonly principal: PrincipalSource
  readonly leaseMs: number
  /** How long a completed record answers duplicates. */
  readonly retentionMs: number
  /** Time for all rounds of one claim together. */
  readonly budgetMs: number
  /** Rounds of one claim after its first. */
  readonly retryCount: number
  /** Ceiling of the first pause between rounds; it doubles, up to ten times as long. */
  readonly retryDelayMs: number
  /** Share of each pause that is random. */
  readonly retryJitter: number
  /** By how much clocks may drift apart, as a share of the lease: its holder stops that much sooner. */
  readonly driftFactor: number
  /**
   * What a concurrent duplicate, or a request for a busy entity, does. `wait`: every waiter tries for itself.
   * `coordinate`: the waiters of all sidecars are let in one after the other, in order of arrival.
   */
  readonly onContention: 'conflict' | 'wait' | 'coordinate'
  /** Of a duplicate that waits for the first: how long, and how many of one route in this process. */
  readonly wait: { readonly maxMs: number; readonly maxWaiters: number }
  readonly onQuorumLoss: 'fail-closed' | 'fail-open' | 'local'
  /** When a lease expired without an outcome. */
  readonly takeover: 'reexecute' | 'indeterminate'
  /** Only in mode `both`: another key with the same content inside the retention. */
  readonly duplicateContent: 'conflict' | 'execute'
  /** Largest request body that is buffered. */
  readonly bodyLimitBytes: number
  /** Largest response body that is stored; above it a tombstone is. */
  readonly storedResponseLimitBytes: number
  /** Exact status, or class such as `5xx`, to its handling; the exact status wins. Defaults are in `settlement.ts`. */
  readonly store: Readonly<Record<string, Disposition>>
  /** Header names, lower case, stored besides those that always are. */
  readonly storedHeaders: readonly string[]
  /** Header names, lower case, that are not stored. */
  readonly omittedHeaders: readonly string[]
  readonly bodyStorage: 'full' | 'none'
  /** JSON Pointers into a JSON response body, whose values are not stored. */
  readonly redact: readonly JsonPointer[]
  /** Requests that name the same entity are executed one after the other. Empty: no serialising. */
  readonly entities: readonly EntitySource[]
  readonly entityWaitMs: number
  readonly upstreamTimeoutMs: number
  /** How long one request may hold its record, renewals included. */
  readonly totalHoldMs: number
}

/** `store`: replay it. `release`: forget it. `hold`: keep the claim until its lease ends, record nothing. */
export type Disposition = 'store' | 'release' | 'hold'

/** Every given condition must match. */
export type RouteMatch = {
  /** Upper case. */
  readonly methods?: readonly string[]
  /** Lower case without port; `*.example.com` matches every name below example.com. */
  readonly hosts?: readonly string[]
  readonly paths?: readonly PathPattern[]
  readonly headers?: readonly HeaderPredicate[]
  /** JSON or a form, no longer than the route's limit of a body. */
  readonly body?: 'command'
}

/** Names in lower case. Of several lines of one header it is enough that one matches. */
export type HeaderPredicate =
  | { readonly kind: 'present'; readonly name: string }
  | { readonly kind: 'absent'; readonly name: string }
  | { readonly kind: 'equals'; readonly name: string; readonly value: string }
  | { readonly kind: 'prefix'; readonly name: string; readonly value: string }

export type KeySource = {
  /** The first of these headers that the request carries is the key; lower case. Empty where `parts` is not. */
  readonly headers: readonly string[]
  /** Where not empty, the key is made of all of these together; one that is missing means that there is no key. */
  readonly parts: readonly KeyPart[]
  /** Only a structured-field string (RFC 9651) is taken from a header. */
  readonly strict: boolean
  readonly minLength: number
  readonly format: 'any' | 'uuid'
}

export type KeyPart =
  | { readonly in: 'header'; readonly name: string }
  | { readonly in: 'query'; readonly name: string }
  | { readonly in: 'body'; readonly pointer: JsonPointer }
  | { readonly in: 'path'; readonly parameter: string }

export type EntitySource = KeyPart

export type FingerprintPolicy = {
  /**
   * Lower case. `all`: where the content is the key, every header but those that change between two tries of one request. A list: these,
   * and where the content is the key no others.
   */
  readonly headers: 'all' | readonly string[]
  /** They never count: names in lower case, and `cookie:` with the name of a cookie. */
  readonly ignore: readonly string[]
  readonly body: BodySelection
}

/** Pointers may contain `*`. */
export type BodySelection =
  | { readonly kind: 'all' }
  | { readonly kind: 'include'; readonly pointers: readonly JsonPointer[] }
  | { readonly kind: 'exclude'; readonly pointers: readonly JsonPointer[] }

/** Whose request it is: without it one client could read what was stored for another. */
export type PrincipalSource =
  /** SHA-256 of the Authorization header. */
  | { readonly kind: 'authorization' }
  | { readonly kind: 'header'; readonly name: string }
  /** A claim of the bearer token, which a trusted peer in front of us has verified. Of another peer Authorization decides. */
  | { readonly kind: 'jwt'; readonly claim: string }
  | VerifiedJwt

/** Claims of a bearer token that is verified here: signature, issuer, audience and times. */
export type VerifiedJwt = {
  readonly kind: 'verified_jwt'
  /** Sorted, each once. */
  readonly claims: readonly string[]
  readonly issuer: string
  /** The token is for one of these. `any`: for whomever the issuer made it. */
  readonly audience: readonly string[] | 'any'
  /** Of signatures with a public key only. */
  readonly algorithms: readonly string[]
  /** How far the issuer's clock and ours may be apart. */
  readonly toleranceMs: number
  /** At least one of them. With both, the file serves until the address has answered. */
  readonly jwks: { readonly url?: string; readonly file?: string }
}

/** What routes read of a request. */
export type RequestFacts = {
  readonly method: string
  /** The Host header or authority, with or without port. */
  readonly host: string | undefined
  /** Path as it came, without query. */
  readonly path: string
  /** Without `?`; undefined where the target has none. */
  readonly query: string | undefined
  /** As they came: Node's own object joins the lines of some, keeps the first of others, and so hides one that an application may read. */
  readonly headers: HeaderList
}

export type RouteMatchResult<R extends Route = Route> = {
  readonly route: R
  readonly params: PathParameters
}

export function protects(route: Route | undefined): route is ProtectedRoute {
  return route !== undefined && route.mode !== 'bypass' && route.mode !== 'observe'
}

/** How the route protects, or would. */
export function policiesOf(route: Route): readonly ProtectedRoute[] {
  if (route.mode === 'bypass') return []
  if (route.mode !== 'observe') return [route]
  return route.withoutKey === undefined ? [route.as] : [route.as, route.withoutKey]
}

/**
 * Of a request that has several readings each has its route: the first that protects decides, so that none slips past; where none does,
 * the first that is observed.
 */
export function matchRoute(routes: readonly Route[], request: RequestFacts): RouteMatchResult | undefined {
  let passing: RouteMatchResult | undefined
  let isFirst = true
  for (const reading of readingsOfRequest(request)) {
    const matched = routeOfReading(routes, request, reading)
    if (matched !== undefined && protects(matched.route)) return matched
    if (isFirst || (matched?.route.mode === 'observe' && passing?.route.mode !== 'observe')) passing = matched
    isFirst = false
  }
  return passing
}

function routeOfReading(
  routes: readonly Route[],
  request: RequestFacts,
  reading: RequestReading,
): RouteMatchResult | undefined {
  for (const route of routes) {
    const params = matchRequest(route, request, reading)
    if (params !== undefined && hasBodyOf(route, request)) return { route, params }
  }
  return undefined
}

/**
 * The routes that a request may have of which neither the host nor every header is known: in their order, to the first that it
 * has whatever those are; `undefined` last, where it may have none.
 *
 * @param headers those that are known
 */
export function possibleRoutes(
  routes: readonly Route[],
  request: Omit<RequestFacts, 'host'>,
): readonly (Route | undefined)[] {
  const possible = new Set<Route>()
  let mayHaveNone: boolean | undefined
  for (const reading of readingsOfRequest(request)) {
    const { of, certain } = possibleOfReading(routes, request, reading)
    for (const route of of) possible.add(route)
    if (protects(certain)) return [...possible]
    mayHaveNone ??= certain === undefined
  }
  return mayHaveNone === true ? [...possible, undefined] : [...possible]
}

/** `certain`: the last of them, where it has that whatever is not known. */
function possibleOfReading(
  routes: readonly Route[],
  request: Omit<RequestFacts, 'host'>,
  reading: RequestReading,
): { readonly of: readonly Route[]; readonly certain?: Route } {
  const of: Route[] = []
  for (const route of routes) {
    const { hosts, headers: predicates = [], ...rest } = route.match
    const known = predicates.filter(({ name }) => linesReadAs(request.headers, name).length > 0)
    const asKnown = { mode: route.mode, match: { ...rest, headers: known } }
    if (matchRequest(asKnown, { ...request, host: undefined }, reading) === undefined) continue
    const hasType = linesOf(request.headers, 'content-type').length > 0
    if (hasType && !hasBodyOf(route, request)) continue
    of.push(route)
    const isKnown = known.length === predicates.length && (hasType || rest.body === undefined)
    if (hosts === undefined && isKnown) return { of, certain: route }
  }
  return { of }
}

function matchRequest(
  { match, mode }: Pick<Route, 'match' | 'mode'>,
  request: RequestFacts,
  { path, method, names }: RequestReading,
): PathParameters | undefined {
  if (match.methods !== undefined && !match.methods.includes(method)) return undefined
  if (match.hosts !== undefined && !match.hosts.some((host) => matchesHost(host, request.host)))
    return undefined
  const matches = names === 'as-written' ? matchesHeader : mode === 'bypass' ? surelyMatches : possiblyMatches
  if (match.headers !== undefined && !match.headers.every((one) => matches(one, request.headers)))
    return undefined
  if (match.paths === undefined) return NO_PARAMETERS
  for (const pattern of match.paths) {
    const params = matchReading(pattern, path)
    if (params !== undefined) return params
  }
  return undefined
}

function hasBodyOf(route: Route, { headers }: Pick<RequestFacts, 'headers'>): boolean {
  const bytesMax = policiesOf(route)[0]?.bodyLimitBytes ?? Number.POSITIVE_INFINITY
  return route.match.body === undefined || isCommand(headers, bytesMax)
}

function matchesHost(pattern: string, host: string | undefined): boolean {
  if (host === undefined) return false
  const name = host.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')
  return pattern.startsWith('*.')
    ? name.length > pattern.length - 1 && name.endsWith(pattern.slice(1))
    : name === pattern
}

function matchesHeader(predicate: HeaderPredicate, headers: HeaderList): boolean {
  return holds(predicate, linesOf(headers, predicate.name))
}

/** Whether the application reads another spelling of the name, and which of several, is not known. */
function possiblyMatches(predicate: HeaderPredicate, headers: HeaderList): boolean {
  return matchesHeader(predicate, headers) || holds(predicate, linesReadAs(headers, predicate.name))
}

function surelyMatches(predicate: HeaderPredicate, headers: HeaderList): boolean {
  const lines = linesOf(headers, predicate.name)
  return holds(predicate, lines) && linesReadAs(headers, predicate.name).length === lines.length
}

function holds(predicate: HeaderPredicate, values: readonly string[]): boolean {
  switch (predicate.kind) {
    case 'present':
      return values.length > 0
    case 'absent':
      return values.length === 0
    case 'equals':
      return values.includes(predicate.value)
    case 'prefix':
      return values.some((value) => value.startsWith(predicate.value))
  }
}

/** How the claims of a route are tried again, and how much drift of clocks they allow for. */
export function termsOf(
  route: Pick<ProtectedRoute, 'retryCount' | 'retryDelayMs' | 'retryJitter' | 'driftFactor'>,
): ClaimTerms {
  const { retryCount: count, retryDelayMs: delayMs, retryJitter: jitter, driftFactor } = route
  return { retry: { count, delayMs, jitter }, driftFactor }
}

/** Named as JSON (RFC 6839), and a sequence of messages. */
const IN_FRAMES = /^application\/(connect|grpc|stream)\b/

/** @param bytesMax a body that states no length is read, and passes on where it turns out to be longer */
function isCommand(headers: HeaderList, bytesMax: number): boolean {
  const [type, ...more] = linesOf(headers, 'content-type').map(parseMediaType)
  if (type === undefined || more.length > 0) return false
  const { essence } = type
  const isRead =
    (isJson({ essence, charset: undefined }) && !IN_FRAMES.test(essence)) ||
    isUrlencodedForm(type) ||
    isMultipartForm(type)
  return isRead && linesOf(headers, 'content-length').every((length) => Number(length) <= bytesMax)
}

/** Each request that `later` matches, in each reading of its path, `earlier` matches too. */
export function covers(earlier: RouteMatch, later: RouteMatch): boolean {
  return (
    all(later.methods, earlier.methods, (own, other) => own === other) &&
    all(later.hosts, earlier.hosts, coversHost) &&
    all(later.paths, earlier.paths, coversPath) &&
    (earlier.body === undefined || earlier.body === later.body) &&
    (earlier.headers ?? []).every((one) => later.headers?.some((other) => implies(other, one)) === true)
  )
}

/** No `wide` list is no condition. */
function all<T>(
  narrow: readonly T[] | undefined,
  wide: readonly T[] | undefined,
  covering: (wide: T, narrow: T) => boolean,
): boolean {
  if (wide === undefined) return true
  return narrow?.every((one) => wide.some((other) => covering(other, one))) === true
}

function coversHost(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith('*.') && narrow.endsWith(wide.slice(1)))
}

function coversPath({ segments: wide }: PathPattern, { segments: narrow }: PathPattern): boolean {
  const endsWithRest = wide.at(-1)?.kind === 'rest'
  const fixed = endsWithRest ? wide.slice(0, -1) : wide
  if (endsWithRest ? narrow.length < fixed.length : narrow.length !== fixed.length) return false
  return fixed.every((segment, index) => coversSegment(segment, narrow[index]!))
}

function coversSegment(wide: Segment, narrow: Segment): boolean {
  if (narrow.kind === 'rest') return false
  return wide.kind !== 'literal' || (narrow.kind === 'literal' && narrow.text === wide.text)
}

function implies(given: HeaderPredicate, wanted: HeaderPredicate): boolean {
  if (given.name !== wanted.name) return false
  if (wanted.kind === 'present') return given.kind !== 'absent'
  if (wanted.kind === 'absent' || given.kind !== wanted.kind) return given.kind === wanted.kind
  return given.value === wanted.value
}
