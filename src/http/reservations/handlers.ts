/**
 * What each call of the reservation API does, from a validated input to an answer.
 *
 * Owns the order of the steps: who asks, which records, the core's word on them, the answer. Nothing is remembered here
 * but which reservations of ours are still under way, so that a draining sidecar waits for them: every call is served
 * from the id and the nodes alone.
 */

import type { Waiters } from '../../core/claims/waiters.ts'
import type { Clock, Leases, Random, ReadResult } from '../../core/ports.ts'
import { parseDuration, printDuration } from '../../core/quantity.ts'
import type { Scope } from '../../core/request/identity.ts'
import type { TenantQuotas } from '../../core/request/tenant-quotas.ts'
import { reservationIdOf, verifyReservationId } from '../../core/reservations/reservation-id.ts'
import { type ReservationSecret, sessionTagOf } from '../../core/reservations/reservation-secret.ts'
import { reserveOrWait } from '../../core/reservations/reservation-wait.ts'
import {
  complete,
  extend,
  inOrder,
  type Reservation,
  type ReserveRequest,
  read,
  release,
} from '../../core/reservations/reservations.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Problem, quotaProblem } from '../message/problems.ts'
import {
  type ApiAnswer,
  endedAnswer,
  extendedAnswer,
  NO_SECRET,
  problem,
  type ReservedNow,
  refusedAnswer,
  reservedBody,
  standingOf,
  wrongTokenAnswer,
} from './answers.ts'
import type { Heartbeats } from './heartbeat.ts'
import { type Describing, explained, intentOfName, scopeOf, type Wanted, wantedBy } from './intents.ts'
import type { Outstanding } from './outstanding.ts'
import type {
  CompleteInput,
  ExtendInput,
  FingerprintInput,
  ReleaseInput,
  ReserveInput,
  StandingOfReservationOutput,
  ValueQueryInput,
} from './schemas.ts'

/** Routes and principal are the proxy's own. */
export type HandlerOptions = Describing & {
  readonly scope: Scope
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly retentionMs: number
  readonly budgetMs: number
  readonly maxWaitMs: number
  readonly resultBytesMax: number
}

export type HandlerPorts = {
  readonly leases: Leases
  readonly waiters: Waiters
  readonly secret: ReservationSecret
  readonly quotas: TenantQuotas
  readonly clock: Clock
  readonly random: Random
  readonly outstanding: Outstanding
  readonly heartbeats: Pick<Heartbeats, 'leaseMsFor'>
  readonly tracing: Pick<Tracing, 'claimed' | 'resumed'>
}

/** Shorter ones are used up by the rounds that take and renew them. */
const LEASE_MIN_MS = 100
const RETENTION_MIN_MS = 1_000
/** How long a call waits for the nodes to agree on the secret that signs ids. */
const SECRET_BUDGET_MS = 1_000

export function createHandlers(options: HandlerOptions, ports: HandlerPorts) {
  const { leases, clock, random, waiters, outstanding } = ports

  async function reserveFor(input: ReserveInput, gone: AbortSignal): Promise<ReservedNow | ApiAnswer> {
    const wanted = await wantedBy(input, options.scope, options)
    if (wanted.kind === 'refused') return refusal(wanted.problem)
    const times = timesOf(input, wanted.route?.retentionMs, options)
    if ('code' in times) return refusal(times)
    const [secret] = await ports.secret.current(SECRET_BUDGET_MS)
    if (secret === undefined) return NO_SECRET
    const request = requestFor(input, wanted, times, secret)
    const [first] = inOrder(request.intents)
    const full = outstanding.full(request.sessionTag, first?.recordKey ?? '')
    if (full !== undefined) return tooManyHeld(full, times.leaseMs)
    const place = ports.quotas.enter(wanted.scope.tenant)
    if (place.kind === 'reached') return refusal(quotaProblem(place))
    using _ = place
    const result = await reserveOrWait(request, times.waitMs, gone, { leases, waiters, clock, random })
    if (result.kind !== 'reserved') {
      place.notNew()
      return refusedAnswer(result, (key) => wanted.names.get(key) ?? '')
    }
    const { reservation, validity } = result
    outstanding.held(reservation, validity)
    const trace = ports.tracing.claimed(reservation.intents[0]!.recordKey)
    const traced = trace === undefined ? reservation : { ...reservation, trace }
    const told = { id: reservationIdOf(traced, secret), sessionId: input.session_id }
    const body = reservedBody(reservation, validity, told, clock)
    return { kind: 'reserved', reservation, validity, body, recordKey: reservation.intents[0]!.recordKey }
  }

  function requestFor(input: ReserveInput, wanted: Wanted, times: Times, secret: Buffer): ReserveRequest {
    const { tenant, env } = wanted.scope
    return {
      intents: wanted.intents,
      entities: wanted.entities,
      takeover: input.takeover ?? wanted.route?.takeover ?? 'reexecute',
      sessionTag: sessionTagOf(secret, { tenant, env, sessionId: input.session_id }),
      leaseMs: times.leaseMs,
      retentionMs: times.retentionMs,
      budgetMs: options.budgetMs,
    }
  }

  /** The reservation that an id carries, and the secret to sign it anew with. */
  async function opened(id: string): Promise<{ reservation: Reservation; secret: Buffer } | ApiAnswer> {
    let secrets = await ports.secret.current(SECRET_BUDGET_MS)
    let verified = verifyReservationId(id, secrets)
    if (verified.kind === 'foreign') {
      secrets = await ports.secret.refreshed(SECRET_BUDGET_MS)
      verified = verifyReservationId(id, secrets)
    }
    const [secret] = secrets
    if (secret === undefined) return NO_SECRET
    if (verified.kind === 'foreign') return FOREIGN
    const { reservation } = verified
    const { trace, token } = reservation
    if (trace !== undefined)
      for (const { recordKey } of reservation.intents) ports.tracing.resumed(recordKey, token, trace)
    return { reservation, secret }
  }

  return {
    reserve: reserveFor,

    extend: async (id: string, input: ExtendInput): Promise<ApiAnswer> => {
      const of = await opened(id)
      if ('kind' in of) return of
      const { reservation, secret } = of
      const leaseMs = durationOf('lease', input.lease, reservation.leaseMs, LEASE_MIN_MS, options.maxLeaseMs)
      if (typeof leaseMs !== 'number') return refusal(leaseMs)
      if (input.fencing_token !== reservation.token) return wrongTokenAnswer('extend')
      const extended = await extend(reservation, ports.heartbeats.leaseMsFor(reservation, leaseMs), leases)
      if (extended.kind === 'extended') outstanding.held(extended.reservation, extended.validity)
      return extendedAnswer(extended, (one) => reservationIdOf(one, secret), clock)
    },

    complete: async (id: string, input: CompleteInput): Promise<ApiAnswer> => {
      const of = await opened(id)
      if ('kind' in of) return of
      const { reservation } = of
      const resultBytes = input.result === undefined ? 0 : Buffer.byteLength(JSON.stringify(input.result))
      if (resultBytes > options.resultBytesMax)
        return problem(
          'body-too-large',
          `The result has ${resultBytes} bytes as JSON, at most ${options.resultBytesMax} are stored. Nothing was completed; store it elsewhere and give a reference.`,
        )
      if (input.fencing_token !== reservation.token) return wrongTokenAnswer('end')
      const outcome = { kind: 'result', result: input.result, completedAtWallMs: clock.wallMs() } as const
      const ended = await complete(reservation, outcome, leases)
      if (ended.kind !== 'unavailable') outstanding.ended(reservation)
      return endedAnswer(ended, id, 'COMPLETED')
    },

    release: async (id: string, input: ReleaseInput): Promise<ApiAnswer> => {
      const of = await opened(id)
      if ('kind' in of) return of
      const { reservation } = of
      if (input.fencing_token !== reservation.token) return wrongTokenAnswer('end')
      const ended = await release(reservation, leases)
      if (ended.kind !== 'unavailable') outstanding.ended(reservation)
      return endedAnswer(ended, id, 'RELEASED')
    },

    standingOfValue: async (query: ValueQueryInput): Promise<ApiAnswer> => {
      const intent = intentOfName('reservation', query.value, scopeOf(query, options.scope))
      if ('code' in intent) return refusal(intent)
      const [standing] = await read([intent], leases)
      const told = standingOf(standing!)
      return 'code' in told ? refusal(told) : { kind: 'json', status: 200, body: told }
    },

    standingOfReservation: async (id: string): Promise<ApiAnswer> => {
      const of = await opened(id)
      return 'kind' in of ? of : standingOfAll(id, of.reservation, leases)
    },

    fingerprint: async (input: FingerprintInput): Promise<ApiAnswer> => {
      const told = await explained(input, options.scope, options)
      return isProblem(told) ? refusal(told) : { kind: 'json', status: 200, body: told }
    },
  }
}

const FOREIGN = problem(
  'reservation-id-invalid',
  'The id is not one that a sidecar of this cluster has given out. Nothing was changed.',
)

function refusal(of: Problem): ApiAnswer {
  return { kind: 'problem', problem: of }
}

function tooManyHeld(limit: number, leaseMs: number): ApiAnswer {
  return problem(
    'session-reservations',
    `The session holds ${limit} reservations through this sidecar, which is the limit. Nothing was reserved; complete or release some of them first.`,
    { retryAfterMs: leaseMs },
  )
}

function isProblem(told: Record<string, unknown> | Problem): told is Problem {
  return 'code' in told
}

async function standingOfAll(id: string, reservation: Reservation, leases: Leases): Promise<ApiAnswer> {
  const { owner, token, attempt, intents } = reservation
  const standing = await read(intents, leases)
  const told = standing.map(standingOf)
  const fault = told.find((one) => 'code' in one) ?? (standing.some(isOfSeveral) ? UNSURE : undefined)
  if (fault !== undefined && 'code' in fault) return refusal(fault)
  const states = standing.map((one) => {
    if (one.kind === 'completed') return one.token === token ? ('COMPLETED' as const) : ('LOST' as const)
    if (one.kind !== 'claimed' || one.owner !== owner || one.token !== token) return 'LOST' as const
    return one.remainingMs > 0 ? ('HELD' as const) : ('LAPSED' as const)
  })
  // The worst of them: a reservation of several is held only where all are.
  const state =
    (['LOST', 'LAPSED', 'HELD', 'COMPLETED'] as const).find((one) => states.includes(one)) ?? 'LOST'
  const body: StandingOfReservationOutput = {
    reservation_id: id,
    state,
    fencing_token: token,
    attempt,
    intents: told.flatMap((one) => ('code' in one ? [] : [one])),
  }
  return { kind: 'json', status: 200, body }
}

/** Leftovers of several claims: it may be ours that lapsed, or that somebody else came after. */
function isOfSeveral(standing: ReadResult): boolean {
  return standing.kind === 'claimed' && standing.leftovers !== undefined
}

const UNSURE: Problem = {
  code: 'quorum-unavailable',
  detail: 'It is over, and whether somebody else came after is on too few nodes to be sure. Ask again.',
  retryAfterMs: 1_000,
}

type Times = { readonly leaseMs: number; readonly retentionMs: number; readonly waitMs: number }

function timesOf(
  input: ReserveInput,
  routeRetentionMs: number | undefined,
  options: HandlerOptions,
): Times | Problem {
  const usualLeaseMs = Math.min(options.leaseMs, options.maxLeaseMs)
  const leaseMs = durationOf('lease', input.lease, usualLeaseMs, LEASE_MIN_MS, options.maxLeaseMs)
  if (typeof leaseMs !== 'number') return leaseMs
  const longestMs = routeRetentionMs ?? options.retentionMs
  const retentionMs = durationOf('retention', input.retention, longestMs, RETENTION_MIN_MS, longestMs)
  if (typeof retentionMs !== 'number') return retentionMs
  const waitMs = durationOf('wait', input.wait, 0, 0, options.maxWaitMs)
  if (typeof waitMs !== 'number') return waitMs
  return { leaseMs, retentionMs, waitMs }
}

function durationOf(
  name: string,
  text: string | undefined,
  otherwiseMs: number,
  minMs: number,
  maxMs: number,
): number | Problem {
  if (text === undefined) return otherwiseMs
  const ms = parseDuration(text)
  if (ms !== undefined && minMs <= ms && ms <= maxMs) return ms
  return {
    code: 'request-invalid',
    detail: `"${name}" is ${text}; accepted is a duration from ${printDuration(minMs)} to ${printDuration(maxMs)}.`,
    more: { errors: [{ path: `/${name}`, message: 'out of range' }] },
  }
}
