/**
 * A check: may this request go on to the application? The gateway forwards it; the sidecar claims its record; and the one that
 * knows the outcome ends the claim (the application by the reservation API, or the gateway by `/v1/gateway/complete`).
 *
 * Owns the identity of a request whose body the gateway does not send, or sends in part: then only the client's key can identify
 * it, and the fingerprint covers the head alone and is marked so. A fingerprint never covers part of a body.
 *
 * The lease is the route's, and it is not renewed: it must be longer than the gateway waits for the application.
 */

import { createHash } from 'node:crypto'
import { lockIdOf } from '../../core/claims/lease.ts'
import type { Clock, Random } from '../../core/clock.ts'
import type { Events } from '../../core/events.ts'
import { linesOf } from '../../core/header-list.ts'
import { NOT_COUNTED } from '../../core/outcome.ts'
import type { Leases } from '../../core/ports.ts'
import { isQuorumLost } from '../../core/quorum/tally.ts'
import type { Scope } from '../../core/request/identity.ts'
import type { TenantQuotas } from '../../core/request/tenant-quotas.ts'
import { reservationIdOf } from '../../core/reservations/reservation-id.ts'
import { type ReservationSecret, sessionTagOf } from '../../core/reservations/reservation-secret.ts'
import {
  type Intent,
  type Reservation,
  SESSION_TAG_BYTES,
  type Validity,
} from '../../core/reservations/reservations.ts'
import { type ReserveResult, reserve } from '../../core/reservations/reserve.ts'
import { matchRoute, type ProtectedRoute, protects, type Route, termsOf } from '../../core/routes/route.ts'
import type { TracedRequest, Tracing } from '../../core/tracing.ts'
import type { Answer } from '../message/answer.ts'
import type { KeysForApplication } from '../message/headers.ts'
import { type Problem, quotaProblem } from '../message/problems.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import { type Identification, identify, type ScopeRules, type Subject, scopeOf } from '../request/identify.ts'
import { unseen } from '../request/observe.ts'
import type { Outstanding } from '../request/outstanding.ts'
import { isNoCommand } from '../request/protect.ts'
import type { Body } from '../server/inbound.ts'

export type CheckOptions = { readonly routes: readonly Route[]; readonly scope: ScopeRules }

export type CheckPorts = {
  readonly leases: Leases
  readonly quotas: TenantQuotas
  readonly secret: ReservationSecret
  readonly outstanding: Pick<Outstanding, 'held'>
  readonly clock: Clock
  readonly random: Random
  readonly tracing: Tracing
  readonly events: Events
}

type ReadBody = (limitBytes: number) => Promise<Body>

export type Granted = {
  readonly kind: 'granted'
  readonly reservation: Reservation
  readonly validity: Validity
  readonly reservationId: string
  readonly keys: KeysForApplication
  /** The request's baggage with ours, where tracing adds some. */
  readonly baggage?: string
}

/** `passed`: not protected. `unprotected`: should be protected, but there is no quorum, and the route fails open. */
export type Decided =
  | Granted
  | { readonly kind: 'passed' }
  | { readonly kind: 'unprotected' }
  | { readonly kind: 'refused'; readonly problem: Problem }
  | Exclude<ReserveResult, { kind: 'reserved' }>

export type Checked = {
  readonly decided: Decided
  readonly route?: string
  readonly recordKey?: string
  readonly tenant?: string
  readonly clientKey?: string | undefined
}

const NO_QUORUM: Decided = { kind: 'unavailable', answered: 0, required: NOT_COUNTED }

export async function check(
  original: Original,
  read: ReadBody,
  { routes, scope: rules }: CheckOptions,
  ports: CheckPorts,
): Promise<Checked | 'gone'> {
  const match = matchRoute(routes, original.request)
  if (match === undefined || !protects(match.route)) {
    if (match?.route.mode === 'observe') ports.events.publish(unseen(match.route))
    const skipped = await read(0)
    return skipped.kind === 'gone' ? 'gone' : { decided: { kind: 'passed' } }
  }
  const { route, params } = match
  const of = { route: route.name }
  const refused = (problem: Problem): Checked => ({ ...of, decided: { kind: 'refused', problem } })
  const scope = scopeOf(original.request, rules)
  if ('code' in scope) return refused(scope)
  // Before the body is read, as in the proxy: a slow tenant occupies its own quota.
  const { tenant } = scope
  const slot = ports.quotas.enter(tenant)
  if (slot.kind === 'reached') return { ...refused(quotaProblem(slot)), tenant }
  using _ = slot
  const body = await read(route.bodyLimitBytes)
  const isPart = route.match.body === 'command' && body.kind === 'whole' && original.body === 'partial'
  if (isPart || isNoCommand(route, body)) {
    slot.notNew()
    return { ...of, decided: { kind: 'passed' } }
  }
  const identified: Identification | Exclude<Body, { kind: 'whole' }> =
    body.kind === 'whole' ? await identityOf(original, body.bytes, { route, params }, scope, rules) : body
  if (identified.kind !== 'identified') slot.notNew()
  switch (identified.kind) {
    case 'gone':
      return 'gone'
    case 'unkeyed':
      return { ...of, decided: { kind: 'passed' } }
    case 'refused': {
      const clientKey = 'clientKey' in identified ? identified.clientKey : undefined
      return { ...refused(identified.problem), clientKey }
    }
    case 'identified': {
      const { recordKey, fingerprint, clientKey, keys } = identified
      const decided = await claim(original, { recordKey, fingerprint }, route, keys, ports)
      if (decided.kind !== 'granted') slot.notNew()
      return { ...of, decided, recordKey, tenant, clientKey }
    }
  }
}

async function claim(
  { hopId, request }: Original,
  intent: Intent,
  route: ProtectedRoute,
  keys: KeysForApplication,
  { leases, secret, outstanding, clock, random, tracing }: CheckPorts,
): Promise<Decided> {
  const startedMonoMs = clock.monoMs()
  const [signing] = await secret.current(route.budgetMs)
  const lost = (decided: Decided): Decided =>
    route.onQuorumLoss === 'fail-open' ? { kind: 'unprotected' } : decided
  if (signing === undefined) return lost(NO_QUORUM)
  // With the hop's id a second check of one request is the same check. Without an id every check is a new one.
  const sessionTag =
    hopId === undefined
      ? random.hex(SESSION_TAG_BYTES)
      : sessionTagOf(signing, { tenant: '', env: '', sessionId: `gateway\0${hopId}` })
  const { takeover, leaseMs, retentionMs } = route
  // What agreeing on the secret has taken is part of the budget.
  const budgetMs = Math.max(1, route.budgetMs - (clock.monoMs() - startedMonoMs))
  const wanted = {
    intents: [intent],
    entities: [],
    takeover,
    sessionTag,
    leaseMs,
    retentionMs,
    budgetMs,
    terms: termsOf(route),
  }
  const result = await reserve(wanted, leases, random)
  if (result.kind === 'unavailable' && isQuorumLost(result)) return lost(result)
  if (result.kind !== 'reserved') return result
  const { reservation, validity } = result
  outstanding.held(reservation, validity)
  // A later call may be served by another sidecar: the signed id tells it the claim's span.
  const trace = tracing.claimed(intent.recordKey)
  const lockId = lockIdOf({ key: intent.recordKey, token: reservation.token })
  const came = linesOf(request.headers, 'baggage').join(',')
  const baggage = tracing.baggage(came, { lockId, attempt: reservation.attempt })
  return {
    kind: 'granted',
    reservation,
    validity,
    reservationId: reservationIdOf(trace === undefined ? reservation : { ...reservation, trace }, signing),
    keys,
    ...(baggage === undefined ? {} : { baggage }),
  }
}

async function identityOf(
  { request, body: known }: Original,
  body: Buffer,
  { route, params }: Pick<Subject, 'route' | 'params'>,
  scope: Scope,
  rules: ScopeRules,
): Promise<Identification> {
  if (known === 'whole') {
    // Mode `both` does not look for the same content under another key: a check keeps no second record.
    return identify({ request, body, route, params }, scope, rules)
  }
  const fromBody = route.key.parts.some((part) => part.in === 'body')
  if (route.mode === 'content' || fromBody) return { kind: 'refused', problem: withoutBody(known, route) }
  const headers = request.headers.filter(([name]) => !BODY_HEADERS.has(name.toLowerCase()))
  const subject = { request: { ...request, headers }, body: Buffer.alloc(0), route: keyedOnly(route), params }
  const identified = await identify(subject, scope, rules)
  return identified.kind === 'identified'
    ? { ...identified, fingerprint: headOnly(identified.fingerprint) }
    : identified
}

/** They describe a body that the sidecar has not seen. */
const BODY_HEADERS = new Set([
  'content-digest',
  'content-encoding',
  'content-type',
  'content-length',
  'digest',
])

function withoutBody(known: 'partial' | 'unknown', route: ProtectedRoute): Problem {
  return known === 'partial'
    ? {
        code: 'body-too-large',
        detail: `The gateway handed on a part of the body only, and on route ${route.name} the content is the key. Nothing was carried out; send an Idempotency-Key on a route that takes one, or a smaller body.`,
      }
    : {
        code: 'key-missing',
        detail: `The gateway hands on no body, so on route ${route.name} the content can not be the key. Nothing was carried out; send an Idempotency-Key on a route that takes one.`,
      }
}

/** A head alone must never equal a complete request with an empty body. */
function headOnly(fingerprint: string): string {
  return createHash('sha256').update(`fencepost-head-only/1\0${fingerprint}`).digest('hex')
}

const keyed = new WeakMap<ProtectedRoute, ProtectedRoute>()

function keyedOnly(route: ProtectedRoute): ProtectedRoute {
  const known = keyed.get(route) ?? { ...route, mode: 'header' as const }
  keyed.set(route, known)
  return known
}

/** How a gateway describes a request and expects the answer. */
export type Dialect = 'ext-authz' | 'auth-request' | 'forward-auth'

/** The request that a check is about: `gateway/dialects.ts` reads it from HTTP, `envoy/authorization.ts` from a message of Envoy. */
export type Original = {
  readonly dialect: Dialect
  readonly request: AdmittedRequest
  readonly hopId: string | undefined
  /** Whether the check has the whole body, a part of it, or does not show whether there is one. */
  readonly body: 'whole' | 'partial' | 'unknown'
}

/**
 * A gateway's call in the trace of the request that it is about: the check is a span of the trace that the gateway hands on, like
 * the application's own, and what it does on the nodes stands below it.
 *
 * Owns where the span begins and ends. Its name has the method and the route of the request in question.
 */
export async function tracedCheck<T extends { readonly answer: Answer } | undefined>(
  traced: TracedRequest,
  tracing: Tracing,
  work: () => Promise<T>,
): Promise<T> {
  const trace = tracing.request(traced)
  return trace.run(async () => {
    let status: number | undefined
    try {
      const done = await work()
      status = done?.answer.status
      return done
    } finally {
      trace.ended(status)
    }
  })
}
