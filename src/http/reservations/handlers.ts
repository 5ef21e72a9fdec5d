/**
 * What each call of the reservation API does, from a validated input to an answer.
 *
 * Owns the order of the steps: the caller, the records, the core's decision, the answer. Every call is served from the id and the
 * nodes alone; the only state here is which reservations of this sidecar are still open, so that a drain waits for them.
 */

import type { Leases, ReadResult } from '../../core/ports.ts'
import {
  openReservationId,
  reservationIdOf,
  WHY_LOST,
  whyForeign,
} from '../../core/reservations/reservation-id.ts'
import { complete, extend, type Reservation, read, release } from '../../core/reservations/reservations.ts'
import type { Tracing } from '../../core/tracing.ts'
import type { Problem } from '../message/problems.ts'
import { ID_UNCHECKED } from '../message/record-problems.ts'
import { intentOfName, scopeOf } from '../request/described-request.ts'
import {
  type ApiAnswer,
  endedAnswer,
  extendedAnswer,
  intentStatusOf,
  problem,
  refusal,
  wrongTokenAnswer,
} from './answers.ts'
import type { Heartbeats } from './heartbeat.ts'
import {
  durationOf,
  explained,
  LEASE_MIN_MS,
  type ReserveOptions,
  type ReservePorts,
  reserveFor,
} from './reserve.ts'
import type {
  CompleteInput,
  ExtendInput,
  FingerprintInput,
  ReleaseInput,
  ReservationStatusOutput,
  ReserveInput,
  ValueQueryInput,
} from './schemas.ts'

export type HandlerOptions = ReserveOptions & { readonly resultBytesMax: number }

export type HandlerPorts = ReservePorts & {
  readonly heartbeats: Pick<Heartbeats, 'leaseMsFor'>
  readonly tracing: Pick<Tracing, 'claimed' | 'resumed'>
}

export type Handlers = ReturnType<typeof createHandlers>

export function createHandlers(options: HandlerOptions, ports: HandlerPorts) {
  const { leases, clock, outstanding } = ports

  return {
    reserve: (input: ReserveInput, gone: AbortSignal) => reserveFor(input, gone, options, ports),

    extend: async (id: string, input: ExtendInput): Promise<ApiAnswer> => {
      const of = await opened(id, ports)
      if ('kind' in of) return of
      const { reservation, secret } = of
      const leaseMs = durationOf('lease', input.lease, reservation.leaseMs, LEASE_MIN_MS, options.maxLeaseMs)
      if (typeof leaseMs !== 'number') return refusal(leaseMs)
      if (input.fencing_token !== reservation.token) return wrongTokenAnswer('extend')
      const renewed = outstanding.renewing(reservation)
      const keptMs = () => ports.heartbeats.leaseMsFor(reservation, leaseMs)
      const extended = await extend(reservation, keptMs, leases)
      if (extended.kind === 'extended') renewed(extended.validity)
      return extendedAnswer(extended, (one) => reservationIdOf(one, secret), clock)
    },

    complete: async (id: string, input: CompleteInput): Promise<ApiAnswer> => {
      const of = await opened(id, ports)
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
      return endedAnswer(ended, id, 'COMPLETED', reservation)
    },

    release: async (id: string, input: ReleaseInput): Promise<ApiAnswer> => {
      const of = await opened(id, ports)
      if ('kind' in of) return of
      const { reservation } = of
      if (input.fencing_token !== reservation.token) return wrongTokenAnswer('end')
      const ended = await release(reservation, leases)
      if (ended.kind !== 'unavailable') outstanding.ended(reservation)
      return endedAnswer(ended, id, 'RELEASED', reservation)
    },

    standingOfValue: async (query: ValueQueryInput): Promise<ApiAnswer> => {
      const intent = intentOfName('reservation', query.value, scopeOf(query, options.scope))
      if ('code' in intent) return refusal(intent)
      const [found] = await read([intent], leases)
      const status = intentStatusOf(found!)
      return 'code' in status ? refusal(status) : { kind: 'json', status: 200, body: status }
    },

    standingOfReservation: async (id: string): Promise<ApiAnswer> => {
      const of = await opened(id, ports)
      return 'kind' in of ? of : reservationStatus(id, of.reservation, leases)
    },

    fingerprint: async (input: FingerprintInput): Promise<ApiAnswer> => {
      const body = await explained(input, options.scope, options)
      return isProblem(body) ? refusal(body) : { kind: 'json', status: 200, body }
    },
  }
}

/** The reservation that an id contains, and the secret that signs it anew. */
async function opened(
  id: string,
  ports: Pick<HandlerPorts, 'secret' | 'tracing'>,
): Promise<{ reservation: Reservation; secret: Buffer } | ApiAnswer> {
  const of = await openReservationId(id, ports.secret)
  if (of.kind === 'unavailable') return refusal(ID_UNCHECKED)
  if (of.kind === 'foreign')
    return problem('reservation-id-invalid', `The id ${whyForeign(id)}. Nothing was changed.`)
  if (of.kind === 'lost')
    return problem('reservation-lost', `The id ${WHY_LOST}.`, { more: { reservation_status: 'LEASE_LOST' } })
  const { reservation, secret } = of
  const { trace, token } = reservation
  if (trace !== undefined)
    for (const { recordKey } of reservation.intents) ports.tracing.resumed(recordKey, token, trace)
  return { reservation, secret }
}

function isProblem(body: Record<string, unknown> | Problem): body is Problem {
  return 'code' in body
}

async function reservationStatus(id: string, reservation: Reservation, leases: Leases): Promise<ApiAnswer> {
  const { owner, token, attempt, intents } = reservation
  const found = await read(intents, leases)
  const statuses = found.map(intentStatusOf)
  const fault = statuses.find((one) => 'code' in one) ?? (found.some(isOfSeveral) ? UNSURE : undefined)
  if (fault !== undefined && 'code' in fault) return refusal(fault)
  const states = found.map((one) => {
    if (one.kind === 'completed') return one.token === token ? ('COMPLETED' as const) : ('LOST' as const)
    if (one.kind !== 'claimed' || one.owner !== owner || one.token !== token) return 'LOST' as const
    return one.remainingMs > 0 ? ('HELD' as const) : ('EXPIRED' as const)
  })
  // The worst state counts: a reservation of several intents is held only where all are.
  const state =
    (['LOST', 'EXPIRED', 'HELD', 'COMPLETED'] as const).find((one) => states.includes(one)) ?? 'LOST'
  const body: ReservationStatusOutput = {
    reservation_id: id,
    state,
    fencing_token: token,
    attempt,
    intents: statuses.flatMap((one) => ('code' in one ? [] : [one])),
  }
  return { kind: 'json', status: 200, body }
}

/** Leftovers of several claims: ours may have expired, or another holder may have come after. */
function isOfSeveral(found: ReadResult): boolean {
  return found.kind === 'claimed' && found.leftovers !== undefined
}

const UNSURE: Problem = {
  code: 'quorum-unavailable',
  detail: 'It is over, and whether somebody else came after is on too few nodes to be sure. Ask again.',
  retryAfterMs: 1_000,
}
