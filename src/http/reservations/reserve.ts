/**
 * Reserving: from a validated input to a reservation, or to the reason why there is none.
 *
 * Owns the order of the steps and the durations that a caller may choose.
 */

import type { Waiters } from '../../core/claims/waiters.ts'
import type { Clock, Random } from '../../core/clock.ts'
import type { Leases } from '../../core/ports.ts'
import { parseDuration, printDuration } from '../../core/quantity.ts'
import { explain } from '../../core/request/explain.ts'
import { DEFAULT_RULES, fingerprint, ignoredHeaders } from '../../core/request/fingerprint.ts'
import { fingerprintOfName, type Scope } from '../../core/request/identity.ts'
import { principalOfRequest } from '../../core/request/principal.ts'
import type { TenantQuotas } from '../../core/request/tenant-quotas.ts'
import { reservationIdOf } from '../../core/reservations/reservation-id.ts'
import { type ReservationSecret, sessionTagOf } from '../../core/reservations/reservation-secret.ts'
import { reserveOrWait } from '../../core/reservations/reservation-wait.ts'
import type { Intent } from '../../core/reservations/reservations.ts'
import { inOrder, type ReserveRequest } from '../../core/reservations/reserve.ts'
import { matchRoute, type ProtectedRoute, policiesOf } from '../../core/routes/route.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Problem, quotaProblem } from '../message/problems.ts'
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
import type { FingerprintInput, ReserveInput } from './schemas.ts'

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
  const slot = ports.quotas.enter(tenant)
  if (slot.kind === 'reached') return { ...refusal(quotaProblem(slot)), tenant }
  using _ = slot
  const result = await reserveOrWait(request, times.waitMs, gone, { leases, waiters, clock, random })
  if (result.kind !== 'reserved') {
    slot.notNew()
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

/** What to reserve, and the caller's names for it. */
type Wanted = {
  readonly kind: 'wanted'
  readonly scope: Scope
  readonly intents: readonly Intent[]
  readonly entities: readonly Intent[]
  readonly names: ReadonlyMap<string, string>
  /** Settings of the described request's route; its entities are among those above. */
  readonly route?: Pick<ProtectedRoute, 'retentionMs' | 'takeover'>
}

type Refused = { readonly kind: 'refused'; readonly problem: Problem }

/** The records that a caller names: by values, by entities, and by requests, which are identified as in the proxy. */
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
