/**
 * A reservation as its holder sees it: its state, its heartbeat and its warning.
 *
 *   held → held (extended) → ended (completed or released) | abandoned | lost
 *
 * A timer, armed at the grant and again at each extension, aborts `signal` *before* the lease ends, whatever the
 * sidecar and the nodes do: also in a process that is cut off from all of them. A process that was suspended notices
 * only when it resumes, a moment after its lease may have ended: so `throwIfLost` reads the clocks, and every write
 * that matters carries the fencing token.
 *
 * The reference stays in the declarations: without it `AsyncDisposable` is unknown in a project whose `lib` ends at ES2024.
 */
/// <reference lib="esnext.disposable" preserve="true" />

import { CompletionUndecidedError, DuplicateError, FencepostError, LeaseLostError } from './errors.ts'
import { type Answered, call, duration, nowMs, type TransportOptions } from './transport.ts'

export interface Reservation extends AsyncDisposable {
  /** Any sidecar serves it: another process may complete what this one reserved. */
  readonly id: string
  readonly sessionId: string
  /** Larger than every earlier holder's: send it with each write. */
  readonly fencingToken: number
  /** Above 1: an earlier holder's lease ended without an outcome, and the fate of its work is unknown. */
  readonly attempt: number
  /** Aborts with a `LeaseLostError` before the lease is lost. Pass it to everything that can be cancelled. */
  readonly signal: AbortSignal
  /** Until the signal aborts, on whichever clock has less left; 0 after the end. */
  readonly remainingMs: number
  /** @throws LeaseLostError if the lease is lost or about to be */
  throwIfLost(): void
  /** Extends the lease; the heartbeat does this by itself. @throws LeaseLostError if it is no longer ours */
  extend(leaseMs?: number): Promise<void>
  /**
   * Records the outcome: duplicates get `result`, any JSON value.
   * @throws FencedError if a later holder took over
   * @throws DuplicateError if it was completed before with another result, which stands
   * @throws CompletionUndecidedError if a later holder took over and `result` may still stand: reserve again to find
   *   out
   */
  complete(result?: unknown): Promise<void>
  /** Releases it: nothing was done. @throws FencedError if a later holder took over */
  release(): Promise<void>
  /** Stops the heartbeat and lets the lease run out: something may have been done, it is unknown what. */
  abandon(): void
  /** Releases it, unless the holder has ended it; abandons it if `complete` was called or the lease was lost. */
  [Symbol.asyncDispose](): Promise<void>
}

const HOLDINGS = new WeakMap<Reservation, Holding>()

/** Its holder completed, released or abandoned it: there is nothing left to say about its outcome. */
export function isDecided(reservation: Reservation): boolean {
  return HOLDINGS.get(reservation)?.isDecided === true
}

/** Its functions also work detached from the object: `const { extend, signal } = reservation`. */
export function holdReservation(
  granted: Answered,
  transport: TransportOptions,
  options: HoldOptions,
): Reservation {
  const holding = new Holding(granted, transport, options)
  const { body } = granted
  const reservation: Reservation = {
    get id() {
      return holding.id
    },
    sessionId: String(body.session_id),
    fencingToken: holding.fencingToken,
    attempt: Number(body.attempt),
    signal: holding.signal,
    get remainingMs() {
      return holding.remainingMs()
    },
    throwIfLost: () => holding.throwIfLost(),
    extend: (leaseMs) => holding.extend(leaseMs),
    complete: (result) => holding.complete(result),
    release: () => holding.release(),
    abandon: () => holding.abandon(),
    [Symbol.asyncDispose]: () => holding.dispose(),
  }
  HOLDINGS.set(reservation, holding)
  return reservation
}

/** Share of the lease: how long before its end the holder is warned, and the least time. */
const WARNING_FRACTION = 0.05
const WARNING_MIN_MS = 20
/** Two renewals in a row may fail. */
const RENEWALS_PER_VALIDITY = 3
const RELEASE_RETRY_MS = 1_000

type HoldOptions = { readonly heartbeat: boolean }

type TimeoutId = ReturnType<typeof setTimeout>

class Holding {
  readonly fencingToken: number
  readonly #transport: TransportOptions
  readonly #heartbeat: boolean
  #id: string
  #leaseMs: number
  #state: 'held' | 'lost' | 'abandoned' | 'ended' = 'held'
  /** The holder ended it; whether the nodes recorded that is another matter. */
  #workIsDone = false
  #extending = Promise.resolve()
  #warnAtMs = 0
  #warnAtWallMs = 0
  #warning: TimeoutId | undefined
  #heartbeatTimer: TimeoutId | undefined
  readonly #lost = new AbortController()
  /** Of extensions: also aborts after a good end, so that none continues. */
  readonly #extensions = new AbortController()

  constructor(granted: Answered, transport: TransportOptions, { heartbeat }: HoldOptions) {
    const { body } = granted
    this.fencingToken = Number(body.fencing_token)
    this.#transport = transport
    this.#heartbeat = heartbeat
    this.#id = String(body.reservation_id)
    this.#leaseMs = Number(body.lease_ms)
    this.#validFor(granted)
  }

  get id(): string {
    return this.#id
  }

  /** The holder completed or released it, and the nodes recorded that; or gave it up, because the outcome is unknown. */
  get isDecided(): boolean {
    return this.#state === 'ended' || this.#state === 'abandoned'
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  remainingMs(): number {
    if (this.#state !== 'held') return 0
    return Math.max(0, Math.min(this.#warnAtMs - nowMs(), this.#warnAtWallMs - Date.now()))
  }

  throwIfLost(): void {
    if (this.#state === 'held' && this.remainingMs() === 0) this.#lose(aboutToEnd(this.fencingToken))
    this.signal.throwIfAborted()
  }

  /** One after the other: an answer must not undo that of an extension sent later. */
  extend(leaseMs?: number): Promise<void> {
    const mine = this.#extending.then(() => this.#extendNow(leaseMs))
    this.#extending = mine.catch(() => {})
    return mine
  }

  complete(result?: unknown): Promise<void> {
    this.#workIsDone = true
    return this.#end('complete', result === undefined ? {} : { result })
  }

  release(): Promise<void> {
    return this.#end('release', {})
  }

  abandon(): void {
    if (this.#state !== 'held') return
    this.#state = 'abandoned'
    this.#stop()
  }

  async dispose(): Promise<void> {
    // A release states that nothing was done, and the next attempt would count as the first. If completing failed, or
    // the signal stopped the work in the middle, the holder can't state that: the lease runs out.
    const nothingDone = this.#state === 'held' && !this.#workIsDone
    if (this.#state === 'held') this.#state = 'abandoned'
    this.#stop()
    if (!nothingDone) return
    try {
      await this.#end('release', {}, RELEASE_RETRY_MS)
    } catch (error) {
      // No longer ours, or the sidecar is away: the lease runs out, and the error being thrown counts more.
      if (!(error instanceof FencepostError)) throw error
    }
  }

  #lose(error: LeaseLostError): void {
    if (this.#state !== 'held') return
    this.#state = 'lost'
    this.#stop(error)
    this.#lost.abort(error)
  }

  #stop(why = over(this.fencingToken)): void {
    clearTimeout(this.#warning)
    clearTimeout(this.#heartbeatTimer)
    this.#extensions.abort(why)
  }

  /** Counts from before the request was sent: the answer may have been long in transit. */
  #validFor({ body: { expires_in_ms }, sentAtMs }: Answered): void {
    const validMs = Number(expires_in_ms) - Math.max(WARNING_MIN_MS, this.#leaseMs * WARNING_FRACTION)
    this.#warnAtMs = sentAtMs + validMs
    this.#warnAtWallMs = Date.now() - (nowMs() - sentAtMs) + validMs
    clearTimeout(this.#warning)
    const warn = () => this.#lose(aboutToEnd(this.fencingToken))
    this.#warning = unreferenced(setTimeout(warn, Math.max(0, this.#warnAtMs - nowMs())))
    if (this.#heartbeat) this.#armHeartbeat()
  }

  #armHeartbeat(): void {
    clearTimeout(this.#heartbeatTimer)
    const delayMs = (this.remainingMs() / RENEWALS_PER_VALIDITY) * (1 - 0.1 * Math.random())
    this.#heartbeatTimer = unreferenced(setTimeout(() => void this.#extendQuietly(), delayMs))
  }

  async #extendQuietly(): Promise<void> {
    try {
      await this.extend()
    } catch (error) {
      if (this.#state !== 'held' || error instanceof LeaseLostError) return
      // While time is left, only the sidecar's word that the lease is lost ends the retries. The timer of the warning
      // does not notice that the machine was suspended or its clock was set.
      if (this.remainingMs() > 0) this.#armHeartbeat()
      else this.#lose(aboutToEnd(this.fencingToken))
    }
  }

  async #extendNow(leaseMs: number | undefined): Promise<void> {
    const lease = leaseMs === undefined ? {} : { lease: duration('leaseMs', leaseMs, 1) }
    const members = { fencing_token: this.fencingToken, ...lease }
    try {
      const retryForMs = Math.min(this.#transport.retryForMs, this.remainingMs())
      const limits = { retryForMs, signal: this.#extensions.signal }
      const extended = await call('POST', this.#path('extend'), members, this.#transport, limits)
      if (this.#state !== 'held') return
      this.#id = String(extended.body.reservation_id)
      if (leaseMs !== undefined) this.#leaseMs = leaseMs
      this.#validFor(extended)
    } catch (error) {
      // Where the holder completes it at this moment, that is what ended it, and its own answer says so or not.
      if (error instanceof LeaseLostError && !this.#workIsDone) this.#lose(error)
      throw error
    }
  }

  async #end(
    how: 'complete' | 'release',
    given: Record<string, unknown>,
    retryForMs?: number,
  ): Promise<void> {
    const limits = retryForMs === undefined ? {} : { retryForMs }
    const members = { fencing_token: this.fencingToken, ...given }
    try {
      await call('POST', this.#path(how), members, this.#transport, limits)
      this.#state = 'ended'
      this.#stop()
    } catch (error) {
      if (error instanceof LeaseLostError) this.#lose(error)
      // Its own holder completed it before, with another result.
      if (error instanceof DuplicateError) {
        this.#state = 'ended'
        this.#stop()
      }
      // Whichever result stands, a later holder took over: the lease is no longer ours.
      if (error instanceof CompletionUndecidedError) this.#lose(overtaken(this.fencingToken, error))
      throw error
    }
  }

  #path(call: string): string {
    return `/v1/reservations/${this.#id}/${call}`
  }
}

function over(fencingToken: number): LeaseLostError {
  const message = `the reservation of token ${fencingToken} was ended by its holder`
  return new LeaseLostError(message, 0, { code: 'lease-lost' })
}

function overtaken(fencingToken: number, cause: CompletionUndecidedError): LeaseLostError {
  const message = `somebody else came after token ${fencingToken}`
  return new LeaseLostError(message, cause.status, { code: 'lease-lost' }, { cause })
}

function aboutToEnd(fencingToken: number): LeaseLostError {
  const message = `the lease of token ${fencingToken} is about to end and could not be extended`
  return new LeaseLostError(message, 0, { code: 'lease-lost' })
}

/** A heartbeat alone must not keep a process alive. Only Node's timers have `unref`. */
function unreferenced<T>(timer: T): T {
  ;(timer as { unref?: () => void }).unref?.()
  return timer
}
