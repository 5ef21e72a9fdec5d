/**
 * The client of the reservation API: `import { createClient } from '@fencepost/client'`.
 *
 *     const fencepost = createClient()
 *     await using reservation = await fencepost.reserve('payment:order-4711')
 *     await db.query(insert, [reservation.fencingToken])
 *     await reservation.complete({ paymentId })
 *
 * Needs only `fetch`, `AbortController` and timers: Node, Deno, Bun, workers. The entry of the package.
 */

import { holdReservation, type Reservation } from './reservation.ts'
import { call, type TransportOptions } from './transport.ts'

export {
  CompletionUndecidedError,
  ConflictError,
  DuplicateError,
  EntityBusyError,
  FencedError,
  FencepostError,
  LeaseLostError,
  MismatchError,
  type ProblemDocument,
  QuorumUnavailableError,
  RefusedError,
  UndecidedError,
  UnreachableError,
} from './errors.ts'
export type { Reservation } from './reservation.ts'

export type ClientOptions = {
  /** The sidecar's. Default `http://127.0.0.1:8081`. */
  readonly url?: string
  /** Where the sidecar requires one. */
  readonly token?: string
  /** Default: the runtime's. For unix sockets and tests. */
  readonly fetch?: typeof fetch
  /** Time for all tries of one call together. Default 5000. */
  readonly retryForMs?: number
  /** Time for one try. Default 2000. */
  readonly callTimeoutMs?: number
}

/** A request that does not come through the proxy, identified as the proxy would. */
export type DescribedRequest = {
  readonly method: string
  readonly path: string
  readonly query?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string
}

export type ReserveOptions = {
  /** Identifies the caller: reserving again in the same session gets the same reservation. Default: a new one. */
  readonly sessionId?: string
  readonly tenant?: string
  readonly apiVersion?: string
  /** No other holder may work on these meanwhile. */
  readonly entities?: readonly string[]
  readonly takeover?: 'reexecute' | 'indeterminate'
  readonly leaseMs?: number
  /** How long duplicates are answered with the outcome. */
  readonly retentionMs?: number
  /** How long the sidecar waits while another holder has it. Default 0. */
  readonly waitMs?: number
  /** Extend it by itself while it is held. Default true. */
  readonly heartbeat?: boolean
  /** Cancels the call. A reservation granted meanwhile is released, unless `sessionId` is the caller's own. */
  readonly signal?: AbortSignal
}

export type Intent = string | readonly string[] | DescribedRequest

export type WithReservationOptions = ReserveOptions & {
  /**
   * If the work throws. `release` (default): nothing was done, and another caller may try at once. `hold`: something
   * may have been done; the lease runs out, and the next attempt learns that it is not the first. A lost lease always
   * runs out.
   */
  readonly onError?: 'release' | 'hold'
}

export type ReservationStatus = {
  readonly state: 'FREE' | 'HELD' | 'LAPSED' | 'COMPLETED'
  readonly fencingToken?: number
  readonly attempt?: number
  readonly remainingLeaseMs?: number
  readonly result?: unknown
}

export interface Client {
  /**
   * @throws ConflictError if another holder has it, DuplicateError if it was done, MismatchError if its key was used
   *   for something else, QuorumUnavailableError if that cannot be known now
   */
  reserve(intent: Intent, options?: ReserveOptions): Promise<Reservation>
  /** Works under a reservation, completes it with the result of the work, and returns that result. */
  withReservation<T>(
    intent: Intent,
    work: (reservation: Reservation) => Promise<T>,
    options?: WithReservationOptions,
  ): Promise<T>
  /** The status of a value: free, held, lapsed or completed. */
  read(
    value: string,
    options?: { readonly tenant?: string; readonly apiVersion?: string },
  ): Promise<ReservationStatus>
}

const GIVE_BACK_RETRY_MS = 1_000

export function createClient(options: ClientOptions = {}): Client {
  const transport: TransportOptions = {
    url: (options.url ?? 'http://127.0.0.1:8081').replace(/\/+$/, ''),
    token: options.token,
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
    retryForMs: options.retryForMs ?? 5_000,
    callTimeoutMs: options.callTimeoutMs ?? 2_000,
  }

  async function reserve(intent: Intent, given: ReserveOptions = {}): Promise<Reservation> {
    const { signal, waitMs = 0, heartbeat = true } = given
    const body = bodyOf(intent, given)
    // No call was sent yet, so there is nothing to release.
    signal?.throwIfAborted()
    try {
      const granted = await call('POST', '/v1/reservations', body, transport, { signal, waitMs })
      return holdReservation(granted, transport, { heartbeat })
    } catch (error) {
      // With the caller's own session, another of its calls may hold the same reservation.
      if (signal?.aborted && given.sessionId === undefined) void giveBack(body)
      throw error
    }
  }

  /** Releases what was granted after the caller stopped waiting: it must not block other claimants. */
  async function giveBack({ wait: _, ...body }: Record<string, unknown>): Promise<void> {
    try {
      const granted = await call('POST', '/v1/reservations', body, transport, {
        retryForMs: GIVE_BACK_RETRY_MS,
      })
      await holdReservation(granted, transport, { heartbeat: false })[Symbol.asyncDispose]()
    } catch {
      // Another holder has it, it was done, or the sidecar is away: a lease, if there is one, runs out.
    }
  }

  return {
    reserve,
    withReservation: async (intent, work, given = {}) => {
      const reservation = await reserve(intent, given)
      let result: Awaited<ReturnType<typeof work>>
      try {
        result = await work(reservation)
      } catch (error) {
        if (given.onError === 'hold') reservation.abandon()
        await reservation[Symbol.asyncDispose]()
        throw error
      }
      try {
        await reservation.complete(result)
      } finally {
        // The work is done: if that could not be recorded, the lease runs out and the next attempt learns of this one.
        reservation.abandon()
      }
      return result
    },
    read: async (value, { tenant, apiVersion } = {}) => {
      const query = new URLSearchParams({
        value,
        ...(tenant === undefined ? {} : { tenant }),
        ...(apiVersion === undefined ? {} : { api_version: apiVersion }),
      })
      const { body } = await call('GET', `/v1/reservations?${query}`, undefined, transport)
      return statusFrom(body)
    },
  }
}

function bodyOf(intent: Intent, options: ReserveOptions): Record<string, unknown> {
  const { sessionId, tenant, apiVersion, entities, takeover, leaseMs, retentionMs, waitMs } = options
  return {
    // Made once for all tries: a try recognises an earlier one whose answer was lost.
    session_id: sessionId ?? crypto.randomUUID(),
    ...named(intent),
    ...(tenant === undefined ? {} : { tenant }),
    ...(apiVersion === undefined ? {} : { api_version: apiVersion }),
    ...(entities === undefined ? {} : { entities }),
    ...(takeover === undefined ? {} : { takeover }),
    ...(leaseMs === undefined ? {} : { lease: `${leaseMs}ms` }),
    ...(retentionMs === undefined ? {} : { retention: `${retentionMs}ms` }),
    ...(waitMs === undefined ? {} : { wait: `${waitMs}ms` }),
  }
}

function named(intent: Intent): Record<string, unknown> {
  if (typeof intent === 'string') return { reserved_value: intent }
  return 'method' in intent ? { request: intent } : { reserved_values: intent }
}

function statusFrom(body: Record<string, unknown>): ReservationStatus {
  const { state, fencing_token, attempt, remaining_lease_ms, result } = body
  return {
    state: state as ReservationStatus['state'],
    ...(fencing_token === undefined ? {} : { fencingToken: Number(fencing_token) }),
    ...(attempt === undefined ? {} : { attempt: Number(attempt) }),
    ...(remaining_lease_ms === undefined ? {} : { remainingLeaseMs: Number(remaining_lease_ms) }),
    ...(result === undefined ? {} : { result }),
  }
}
