/**
 * A reservation in the hands of who works under it.
 *
 *   held → held (extended) → completed | released | abandoned | lost
 *
 * Owns the heartbeat and the warning. `signal` aborts from a timer that is armed at the grant and again at each extension,
 * *before* the lease ends, whatever the sidecar and the nodes do: also in a process that is cut off from all of them. A
 * process that stood still learns of it when it goes on, a moment after its lease may have ended: `throwIfLost` looks at
 * the clocks, and a write that matters carries the fencing token.
 */

import { CompletionUndecidedError, FencepostError, LeaseLostError } from './errors.ts'
import { type Answered, call, nowMs, type TransportOptions } from './transport.ts'

export interface Reservation extends AsyncDisposable {
  /** Any sidecar serves it: another process may complete what this one has reserved. */
  readonly id: string
  readonly sessionId: string
  /** Larger than that of every earlier holder: give it to what you write to. */
  readonly fencingToken: number
  /** Above 1: an earlier holder's lease ended and nobody knows what became of its work. */
  readonly attempt: number
  /** Aborts with a `LeaseLostError` before the lease is lost. Pass it on to everything that can be cancelled. */
  readonly signal: AbortSignal
  /** Until the signal aborts, on whichever clock has less; 0 where it is over. */
  readonly remainingMs: number
  /** @throws LeaseLostError where the lease is lost or about to be */
  throwIfLost(): void
  /** Holds it for longer; the heartbeat does this by itself. @throws LeaseLostError where it is no longer ours */
  extend(leaseMs?: number): Promise<void>
  /**
   * Records the outcome: duplicates are told `result`, any JSON value.
   * @throws FencedError where somebody came after
   * @throws CompletionUndecidedError where somebody came after and `result` may stand all the same: reserve again to know
   */
  complete(result?: unknown): Promise<void>
  /** Gives it back: nothing was done. @throws FencedError where somebody came after */
  release(): Promise<void>
  /** Stops the heartbeat and leaves the lease to end: something may have been done, and nobody knows what. */
  abandon(): void
  /** Releases it where nothing has been said of it; abandons it where `complete` was called, or the lease was lost. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Of the lease: how long before its end the holder is warned; and never less than this. */
const WARNING_FRACTION = 0.05
const WARNING_MIN_MS = 20
/** Two renewals in a row may fail. */
const RENEWALS_PER_VALIDITY = 3
const RELEASE_RETRY_MS = 1_000

export type HoldOptions = { readonly heartbeat: boolean }

export function holdReservation(
  granted: Answered,
  transport: TransportOptions,
  { heartbeat }: HoldOptions,
): Reservation {
  const { body } = granted
  const fencingToken = Number(body.fencing_token)
  let id = String(body.reservation_id)
  let leaseMs = Number(body.lease_ms)
  let state: 'held' | 'lost' | 'abandoned' | 'ended' = 'held'
  /** The holder said so; whether it is recorded is another matter. */
  let workIsDone = false
  let extending = Promise.resolve()
  let warnAtMs = 0
  let warnAtWallMs = 0
  let warning: ReturnType<typeof setTimeout> | undefined
  let beat: ReturnType<typeof setTimeout> | undefined
  const controller = new AbortController()
  /** Of extensions: also aborts where it ended well, so that nothing of it goes on. */
  const extensions = new AbortController()

  function lose(error: LeaseLostError): void {
    if (state !== 'held') return
    state = 'lost'
    stop(error)
    controller.abort(error)
  }

  function stop(why = over(fencingToken)): void {
    clearTimeout(warning)
    clearTimeout(beat)
    extensions.abort(why)
  }

  /** Counted from before the question was sent: the answer may have been long on its way. */
  function validFor({ body: { expires_in_ms }, sentAtMs }: Answered): void {
    const validMs = Number(expires_in_ms) - Math.max(WARNING_MIN_MS, leaseMs * WARNING_FRACTION)
    warnAtMs = sentAtMs + validMs
    warnAtWallMs = Date.now() - (nowMs() - sentAtMs) + validMs
    clearTimeout(warning)
    warning = unreferenced(setTimeout(() => lose(aboutToEnd(fencingToken)), Math.max(0, warnAtMs - nowMs())))
    if (heartbeat) armBeat()
  }

  function armBeat(): void {
    clearTimeout(beat)
    const delayMs = (remainingMs() / RENEWALS_PER_VALIDITY) * (1 - 0.1 * Math.random())
    beat = unreferenced(setTimeout(() => void extendQuietly(), delayMs))
  }

  async function extendQuietly(): Promise<void> {
    try {
      await extend()
    } catch (error) {
      if (state !== 'held' || error instanceof LeaseLostError) return
      // Everything but the sidecar's word that it is lost is tried again while time is left. The timer of the warning does
      // not know that a machine stood still or that its clock was set.
      if (remainingMs() > 0) armBeat()
      else lose(aboutToEnd(fencingToken))
    }
  }

  function remainingMs(): number {
    if (state !== 'held') return 0
    return Math.max(0, Math.min(warnAtMs - nowMs(), warnAtWallMs - Date.now()))
  }

  /** One after the other: what is told of one must not be undone by another that was sent before it. */
  function extend(newLeaseMs?: number): Promise<void> {
    const mine = extending.then(() => extendNow(newLeaseMs))
    extending = mine.catch(() => {})
    return mine
  }

  async function extendNow(newLeaseMs: number | undefined): Promise<void> {
    const lease = newLeaseMs === undefined ? {} : { lease: `${newLeaseMs}ms` }
    const path = `/v1/reservations/${id}/extend`
    try {
      const retryForMs = Math.min(transport.retryForMs, remainingMs())
      const limits = { retryForMs, signal: extensions.signal }
      const extended = await call('POST', path, { fencing_token: fencingToken, ...lease }, transport, limits)
      if (state !== 'held') return
      id = String(extended.body.reservation_id)
      if (newLeaseMs !== undefined) leaseMs = newLeaseMs
      validFor(extended)
    } catch (error) {
      if (error instanceof LeaseLostError) lose(error)
      throw error
    }
  }

  async function end(how: 'complete' | 'release', members: Record<string, unknown>, retryForMs?: number) {
    const limits = retryForMs === undefined ? {} : { retryForMs }
    const path = `/v1/reservations/${id}/${how}`
    try {
      await call('POST', path, { fencing_token: fencingToken, ...members }, transport, limits)
      state = 'ended'
      stop()
    } catch (error) {
      if (error instanceof LeaseLostError) lose(error)
      // Whatever stands, somebody else came after: it is not ours any more.
      if (error instanceof CompletionUndecidedError) lose(overtaken(fencingToken, error))
      throw error
    }
  }

  validFor(granted)
  return {
    get id() {
      return id
    },
    sessionId: String(body.session_id),
    fencingToken,
    attempt: Number(body.attempt),
    signal: controller.signal,
    get remainingMs() {
      return remainingMs()
    },
    throwIfLost: () => {
      if (state === 'held' && remainingMs() === 0) lose(aboutToEnd(fencingToken))
      controller.signal.throwIfAborted()
    },
    extend,
    complete: (result) => {
      workIsDone = true
      return end('complete', result === undefined ? {} : { result })
    },
    release: () => end('release', {}),
    abandon: () => {
      if (state !== 'held') return
      state = 'abandoned'
      stop()
    },
    [Symbol.asyncDispose]: async () => {
      // A release says that nothing was done, and the next attempt would be told that it is the first. Where completing
      // failed, or the signal stopped the work in the middle, nobody can say so: the lease is left to end.
      const nothingDone = state === 'held' && !workIsDone
      if (state === 'held') state = 'abandoned'
      stop()
      if (!nothingDone) return
      try {
        await end('release', {}, RELEASE_RETRY_MS)
      } catch (error) {
        // Not ours any more, or the sidecar is not there: the lease ends by itself, and what is being thrown counts more.
        if (!(error instanceof FencepostError)) throw error
      }
    },
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

/** A heartbeat alone is no reason for a process to live on. Only Node's timers know the word. */
function unreferenced<T>(timer: T): T {
  ;(timer as { unref?: () => void }).unref?.()
  return timer
}
