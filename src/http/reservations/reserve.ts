/**
 * Reserving: from a validated input to a reservation, or to the reason why there is none.
 *
 * Owns the order of the steps and the durations that a caller may choose. `intents.ts` finds the records.
 */

import type { Waiters } from '../../core/claims/waiters.ts'
import type { Clock, Random } from '../../core/clock.ts'
import type { Leases } from '../../core/ports.ts'
import { parseDuration, printDuration } from '../../core/quantity.ts'
import type { Scope } from '../../core/request/identity.ts'
import type { TenantQuotas } from '../../core/request/tenant-quotas.ts'
import { reservationIdOf } from '../../core/reservations/reservation-id.ts'
import { type ReservationSecret, sessionTagOf } from '../../core/reservations/reservation-secret.ts'
import { reserveOrWait } from '../../core/reservations/reservation-wait.ts'
import { inOrder, type ReserveRequest } from '../../core/reservations/reserve.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Problem, quotaProblem } from '../message/problems.ts'
import type { Describing } from '../request/described-request.ts'
import type { Outstanding } from '../request/outstanding.ts'
import {
  type ApiAnswer,
  NO_SECRET,
  problem,
  type ReservedNow,
  refusal,
  refusedAnswer,
  reservedBody,
} from './answers.ts'
import { type Wanted, wantedBy } from './intents.ts'
import type { ReserveInput } from './schemas.ts'

/** Routes and principal are the proxy's own. */
export type ReserveOptions = Describing & {
  readonly scope: Scope
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly retentionMs: number
  readonly budgetMs: number
  readonly maxWaitMs: number
}

export type ReservePorts = {
  readonly leases: Leases
  readonly waiters: Waiters
  readonly secret: ReservationSecret
  readonly quotas: TenantQuotas
  readonly clock: Clock
  readonly random: Random
  readonly outstanding: Outstanding
  readonly tracing: Pick<Tracing, 'claimed'>
}

/** Shorter leases are used up by the rounds that take and renew them. */
export const LEASE_MIN_MS = 100
const RETENTION_MIN_MS = 1_000

export async function reserveFor(
  input: ReserveInput,
  gone: AbortSignal,
  options: ReserveOptions,
  ports: ReservePorts,
): Promise<ReservedNow | ApiAnswer> {
  const { leases, waiters, clock, random, outstanding } = ports
  const wanted = await wantedBy(input, options.scope, options)
  if (wanted.kind === 'refused') return refusal(wanted.problem)
  const times = timesOf(input, wanted.route?.retentionMs, options)
  if ('code' in times) return refusal(times)
  const startedMonoMs = clock.monoMs()
  const [secret] = await ports.secret.current(options.budgetMs)
  if (secret === undefined) return NO_SECRET
  // What agreeing on the secret has taken is part of the budget.
  const budgetMs = Math.max(1, options.budgetMs - (clock.monoMs() - startedMonoMs))
  const request = requestFor(input, wanted, { ...times, budgetMs }, secret)
  const [first] = inOrder(request.intents)
  const { tenant } = wanted.scope
  const full = outstanding.full(request.sessionTag, first?.recordKey ?? '')
  if (full !== undefined) return { ...tooManyHeld(full, times.leaseMs), tenant }
  const place = ports.quotas.enter(tenant)
  if (place.kind === 'reached') return { ...refusal(quotaProblem(place)), tenant }
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
  const ids = { id: reservationIdOf(traced, secret), sessionId: input.session_id }
  const body = reservedBody(reservation, validity, ids, clock)
  return { kind: 'reserved', reservation, validity, body, recordKey: reservation.intents[0]!.recordKey }
}

function requestFor(
  input: ReserveInput,
  wanted: Wanted,
  { leaseMs, retentionMs, budgetMs }: Pick<ReserveRequest, 'leaseMs' | 'retentionMs' | 'budgetMs'>,
  secret: Buffer,
): ReserveRequest {
  const { tenant, env } = wanted.scope
  return {
    intents: wanted.intents,
    entities: wanted.entities,
    takeover: input.takeover ?? wanted.route?.takeover ?? 'reexecute',
    sessionTag: sessionTagOf(secret, { tenant, env, sessionId: input.session_id }),
    leaseMs,
    retentionMs,
    budgetMs,
  }
}

function tooManyHeld(limit: number, leaseMs: number) {
  return problem(
    'session-reservations',
    `The session holds ${limit} reservations through this sidecar, which is the limit. Nothing was reserved; complete or release some of them first.`,
    { retryAfterMs: leaseMs },
  )
}

type Times = { readonly leaseMs: number; readonly retentionMs: number; readonly waitMs: number }

function timesOf(
  input: ReserveInput,
  routeRetentionMs: number | undefined,
  options: ReserveOptions,
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

export function durationOf(
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
