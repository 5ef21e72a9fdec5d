/**
 * The client of the reservation API: `import { createClient } from '@fencepost/client'`.
 *
 *     const fencepost = createClient()
 *     const { replayed, result } = await fencepost.once('payment:order-4711', async ({ fencingToken }) => {
 *       await db.query(insert, [fencingToken])
 *       return { paymentId }
 *     })
 *
 * Needs only `fetch`, `AbortController` and timers: Node, Deno, Bun, workers. The entry of the package.
 */

import { DuplicateError } from './errors.ts'
import { holdReservation, isDecided, type Reservation } from './reservation.ts'
import {
  A_DAY_MS,
  call,
  duration,
  type FetchLike,
  notFencepost,
  type TransportOptions,
  wholeMs,
} from './transport.ts'

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
  ReservationLostError,
  UndecidedError,
  UnreachableError,
} from './errors.ts'
export type { Reservation } from './reservation.ts'
export type { FetchLike } from './transport.ts'

/** A request that does not come through the proxy, identified as the proxy would. */
export type DescribedRequest = {
  readonly method: string
  readonly path: string
  readonly query?: string | undefined
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined
  readonly body?: string | undefined
}

export type ReserveOptions = {
  /**
   * One try of one caller: reserving again in the same session gets the same reservation, and so do two callers that share one. Default:
   * a new one.
   */
  readonly sessionId?: string | undefined
  readonly tenant?: string | undefined
  readonly apiVersion?: string | undefined
  /** No other holder may work on these meanwhile. */
  readonly entities?: readonly string[] | undefined
  readonly takeover?: 'reexecute' | 'indeterminate' | undefined
  readonly leaseMs?: number | undefined
  /** How long duplicates are answered with the outcome. */
  readonly retentionMs?: number | undefined
  /** How long the sidecar waits while another holder has it. Default 0. */
  readonly waitMs?: number | undefined
  /** Extend it by itself while it is held. Default true. */
  readonly heartbeat?: boolean | undefined
  /** Cancels the call. A reservation granted meanwhile is released, unless `sessionId` is the caller's own. */
  readonly signal?: AbortSignal | undefined
}

export type Intent = string | readonly string[] | DescribedRequest

export type WithReservationOptions = ReserveOptions & {
  /**
   * If the work throws. `hold` (default): something may have been done; the lease runs out, and the next attempt learns that
   * it is not the first. `release`: nothing was done, and another caller may try at once. Work that knows it only for some of its
   * errors calls `release()` of its reservation before it throws these. A lost lease always runs out.
   */
  readonly onError?: 'hold' | 'release' | undefined
}

/** What {@link Client.once} answers. */
export type Once<T> = {
  /** It was done before, and the work was not called. */
  readonly replayed: boolean
  /** The work's own result; where `replayed`, the recorded one: as JSON keeps it, a `Date` is a string there. */
  readonly result: T
}

export type ReservationStatus = {
  readonly state: 'FREE' | 'HELD' | 'EXPIRED' | 'COMPLETED'
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
  /**
   * As `withReservation`, and answers a duplicate with the recorded result instead of a DuplicateError.
   * @throws ConflictError if another holder is at work and was not done within `waitMs`, and whatever the work throws
   */
  once<T>(
    intent: Intent,
    work: (reservation: Reservation) => Promise<T>,
    options?: WithReservationOptions,
  ): Promise<Once<T>>
  /**
   * Works under a reservation, completes it with the result of the work, and returns that result. Work that completes, releases
   * or abandons the reservation itself is left at that.
   */
  withReservation<T>(
    intent: Intent,
    work: (reservation: Reservation) => Promise<T>,
    options?: WithReservationOptions,
  ): Promise<T>
  /** The status of a value: free, held, expired or completed. */
  read(
    value: string,
    options?: { readonly tenant?: string | undefined; readonly apiVersion?: string | undefined },
  ): Promise<ReservationStatus>
}

const GIVE_BACK_RETRY_MS = 1_000

export function createClient(options: ClientOptions = {}): Client {
  const transport = transportOf(options)

  async function reserve(intent: Intent, given: ReserveOptions = {}): Promise<Reservation> {
    const { signal, waitMs = 0, heartbeat = true } = given
    const body = bodyOf(intent, given)
    // No call was sent yet, so there is nothing to release.
    signal?.throwIfAborted()
    try {
      const granted = await call('POST', '/v1/reservations', body, transport, { signal, waitMs })
      const { reservation_id, fencing_token } = granted.body
      // Another server may answer such a call with success, and the work would be done without a reservation.
      if (typeof reservation_id !== 'string' || !Number.isSafeInteger(fencing_token))
        throw notFencepost(transport.url, 200)
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
    withReservation: async (intent, work, given = {}) =>
      workUnder(await reserve(intent, given), work, given.onError),
    once: async <T>(
      intent: Intent,
      work: (reservation: Reservation) => Promise<T>,
      given: WithReservationOptions = {},
    ) => {
      // Only what reserving says is an answer to this call: the work may meet a duplicate of its own.
      const held = await reserve(intent, given).catch((error: unknown) => {
        if (error instanceof DuplicateError) return error
        throw error
      })
      if (held instanceof DuplicateError) return { replayed: true, result: held.result as T }
      return { replayed: false, result: await workUnder(held, work, given.onError) }
    },
    read: async (value, { tenant, apiVersion } = {}) => {
      // In an address everything is a text, and the one of `undefined` is free.
      if (typeof value !== 'string') throw new TypeError(`the value is ${shown(value)}; give a string`)
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

async function workUnder<T>(
  reservation: Reservation,
  work: (reservation: Reservation) => Promise<T>,
  onError: WithReservationOptions['onError'] = 'hold',
): Promise<T> {
  let result: T
  try {
    result = await work(reservation)
  } catch (error) {
    if (onError === 'hold') reservation.abandon()
    await reservation[Symbol.asyncDispose]()
    throw error
  }
  // The work recorded its own outcome, or said that there is none, or that nobody knows it: what it returned is no result to replay.
  if (isDecided(reservation)) return result
  try {
    await reservation.complete(result)
  } finally {
    // The work is done: if that could not be recorded, the lease runs out and the next attempt learns of this one.
    reservation.abandon()
  }
  return result
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
    ...(leaseMs === undefined ? {} : { lease: duration('leaseMs', leaseMs, 1) }),
    ...(retentionMs === undefined ? {} : { retention: duration('retentionMs', retentionMs, 1) }),
    ...(waitMs === undefined ? {} : { wait: duration('waitMs', waitMs, 0, A_DAY_MS) }),
  }
}

function named(intent: Intent): Record<string, unknown> {
  if (typeof intent === 'string') return { reserved_value: intent }
  if (Array.isArray(intent)) return { reserved_values: intent }
  // A caller without types: an id that is a number, or one that is not there.
  if (typeof intent === 'object' && intent !== null && 'method' in intent) return { request: intent }
  throw new TypeError(
    `the intent is ${shown(intent)}; give a string such as \`payment:\${order.id}\`, a list of strings, or a request`,
  )
}

function shown(given: unknown): string {
  return typeof given === 'object' && given !== null ? JSON.stringify(given) : String(given)
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

/**
 * The options of a client, checked when it is made: a wrong one must not wait for the first payment to be noticed.
 */
export type ClientOptions = {
  /** The sidecar's. Default `http://127.0.0.1:8081`. */
  readonly url?: string | undefined
  /** Where the sidecar requires one. White space around it, as at the end of a file, does not count. */
  readonly token?: string | undefined
  /** Default: the runtime's. For unix sockets, proxies and tests; that of undici fits, too. */
  readonly fetch?: FetchLike | undefined
  /** Time for all tries of one call together. Default 5000. */
  readonly retryForMs?: number | undefined
  /** Time for one try. Default 2000. */
  readonly callTimeoutMs?: number | undefined
}

function transportOf({
  url = 'http://127.0.0.1:8081',
  token,
  fetch: given,
  retryForMs = 5_000,
  callTimeoutMs = 2_000,
}: ClientOptions): TransportOptions {
  if (globalThis.crypto?.randomUUID === undefined || (given ?? globalThis.fetch) === undefined)
    throw new TypeError(
      '@fencepost/client needs `fetch` and `crypto.randomUUID`, and this runtime has not both: Node 20.19 or newer has them',
    )
  return {
    url: addressOf(url),
    token: sendable(token),
    fetch: given ?? ((input, init) => fetch(input, init)),
    retryForMs: wholeMs('retryForMs', retryForMs, 0),
    callTimeoutMs: wholeMs('callTimeoutMs', callTimeoutMs, 1, A_DAY_MS),
    reached: { yet: false },
  }
}

function addressOf(given: string): string {
  const url = parsed(given)
  const fault =
    url === undefined || !/^https?:$/.test(url.protocol)
      ? 'is no address of http or https'
      : url.search !== '' || url.hash !== ''
        ? 'has a query or a fragment'
        : url.username !== '' || url.password !== ''
          ? 'has a user or a password, which `fetch` refuses: use the option `token`'
          : undefined
  // A password must not come into a log with the message, and one with a `#` or a `/` makes an address that is none.
  const shown = given.includes('@') ? 'the url' : `the url ${JSON.stringify(given)}`
  if (fault !== undefined) throw new TypeError(`${shown} ${fault}; give one such as http://127.0.0.1:8081`)
  return given.replace(/\/+$/, '')
}

/**
 * `fetch` quotes a header that it refuses, and an error is logged: the token would be in the log. A file has several tokens while
 * they are rotated, a line each. RFC 9110, section 5.5.
 */
function sendable(token: string | undefined): string | undefined {
  const given = token?.trim()
  if (given === undefined || /^[\t\x20-\x7e\x80-\xff]*$/.test(given)) return given
  throw new TypeError(
    'the token has a character that no header takes, such as the line break between two tokens of a file: give one of them. It is not shown here',
  )
}

/** `URL.parse` is younger than the oldest runtimes. */
function parsed(given: string): URL | undefined {
  try {
    return new URL(given)
  } catch {
    return undefined
  }
}
