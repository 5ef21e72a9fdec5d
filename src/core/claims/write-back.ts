/**
 * Writes back to the quorum what this process executed under its own record while the quorum was lost.
 *
 *   local completion → waiting → written | already there | conflict (another outcome) | dropped (no room, too old)
 *
 * Owns a bounded queue and the order of its work: one at a time, oldest first, with pauses that grow while the quorum
 * stays away. It promises nothing about what happened meanwhile: another pod may have executed the same request under
 * its own record; then the first to write back wins and the other is reported as a conflict.
 */

import type { Clock, Random, Timer } from '../clock.ts'
import type { Events, WriteBackEnd } from '../events.ts'
import type { ClaimResult, CompleteResult, Lease, Leases } from '../ports.ts'
import { ATTEMPT_MAX } from '../record/record.ts'
import { encodeOutcome, NO_END, type StoredOutcome } from '../record/stored-outcome.ts'
import { type Backoff, jitteredDelayMs } from '../retry.ts'

export type WriteBackOptions = {
  readonly leases: Leases
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  /** Most completions that wait; more are dropped, with an event. Default {@link QUEUE_MAX}. */
  readonly queueMax?: number
}

const QUEUE_MAX = 10_000
/** Of outcomes that wait. */
const QUEUE_MAX_BYTES = 64 * 1024 * 1024

/** Between attempts while the quorum is away: jittered, so that pods that lost it together do not return in step. */
const AWAY_BACKOFF: Backoff = { initialMs: 250, maxMs: 2_000 }

/** For one claim: no client waits for it, so it may take longer than a request's. */
const BUDGET_MS = 1_000

const AFTER_COMPLETING = {
  recorded: 'recorded',
  unavailable: 'away',
  // The claim of its next turn finds the result.
  undecided: 'busy',
  fenced: 'conflict',
} as const satisfies Record<CompleteResult['kind'], WriteBackEnd | 'away' | 'busy'>

type Waiting = {
  readonly lease: Lease
  readonly outcome: StoredOutcome
  readonly bytes: number
  /**
   * On the monotonic clock alone: a wall clock that is set ahead must not drop what was executed. Where a suspended machine stops the
   * monotonic clock, an outcome is kept for longer than its retention, which costs nobody a second execution.
   */
  readonly sinceMonoMs: number
}

export type WriteBack = Disposable & {
  /** The leases of this process alone, whose completions are remembered. */
  readonly local: Leases
  /** How many completions wait. */
  pending(): number
}

function contentOf(outcome: StoredOutcome): Buffer {
  return encodeOutcome(outcome, undefined, NO_END)
}

export function createWriteBack(local: Leases, options: WriteBackOptions): WriteBack {
  const { leases, clock, random, events, queueMax = QUEUE_MAX } = options
  /** In the order of their turns. */
  const queue = new Set<Waiting>()
  let queuedBytes = 0
  let timer: Timer | undefined
  let working = false
  let closed = false

  const ended = ({ lease: { key, token, attempt } }: Pick<Waiting, 'lease'>, result: WriteBackEnd) =>
    events.publish({ kind: 'written_back', recordKey: key, token, attempt, result, pending: queue.size })

  function remember(lease: Lease, outcome: StoredOutcome): void {
    const bytes = contentOf(outcome).length
    if (closed || queue.size >= queueMax || queuedBytes + bytes > QUEUE_MAX_BYTES) {
      ended({ lease }, 'dropped')
      return
    }
    queue.add({ lease, outcome, bytes, sinceMonoMs: clock.monoMs() })
    queuedBytes += bytes
    schedule(0)
  }

  function schedule(retry: number): void {
    if (closed || working || timer !== undefined || queue.size === 0) return
    timer = clock.timer(jitteredDelayMs(AWAY_BACKOFF, retry, random), () => {
      timer = undefined
      working = true
      void drain().then((emptied) => {
        working = false
        schedule(emptied ? 0 : retry + 1)
      })
    })
  }

  /** @returns whether every waiting completion was offered once and the quorum was there */
  async function drain(): Promise<boolean> {
    for (const waiting of [...queue]) {
      // What the protocol itself refuses it would refuse every time.
      const result = await offer(waiting).catch((): WriteBackEnd => 'dropped')
      if (closed) return true
      if (result === 'away') return false
      // Another claimant works on it right now; its turn comes again after the others.
      queue.delete(waiting)
      if (result === 'busy') {
        queue.add(waiting)
      } else {
        queuedBytes -= waiting.bytes
        ended(waiting, result)
      }
    }
    return queue.size === 0
  }

  async function offer({ lease, outcome, sinceMonoMs }: Waiting): Promise<WriteBackEnd | 'away' | 'busy'> {
    // As the same claimant each time: it may be granted again what a half-finished attempt was granted.
    const { key, fingerprint, leaseMs, owner } = lease
    const retentionMs = Math.floor(lease.retentionMs - (clock.monoMs() - sinceMonoMs))
    if (retentionMs <= 0) return 'dropped'
    const claimed = await leases.claim({ key, fingerprint, leaseMs, retentionMs, budgetMs: BUDGET_MS, owner })
    switch (claimed.kind) {
      case 'granted': {
        const completed = await leases.complete(claimed.lease, outcome)
        return AFTER_COMPLETING[completed.kind]
      }
      case 'duplicate':
        // Including the completion time: another pod's outcome may have the same content.
        return contentOf(claimed.outcome).equals(contentOf(outcome)) ? 'recorded' : 'conflict'
      case 'mismatch':
      case 'damaged':
        return 'conflict'
      case 'held':
      case 'contended':
        return 'busy'
      case 'unavailable':
        return 'away'
    }
  }

  return {
    local: {
      ...local,
      complete: async (lease, outcome) => {
        const result = await local.complete(lease, outcome)
        if (result.kind === 'recorded') remember(lease, outcome)
        return result
      },
    },
    pending: () => queue.size,
    [Symbol.dispose]: () => {
      closed = true
      timer?.cancel()
      for (const waiting of queue) ended(waiting, 'dropped')
      queue.clear()
    },
  }
}

/**
 * Reconciles a grant of the quorum with what this process executed by itself while the quorum was lost (`local`).
 *
 * Until that is written back, the quorum does not know of it: its grant does not prove that nothing was executed.
 * Where the quorum has an answer, that answer stands.
 */
export async function reconcileLocalRecord(
  claimed: ClaimResult,
  leases: Pick<Leases, 'release'>,
  own: Pick<Leases, 'read'>,
): Promise<ClaimResult> {
  if (claimed.kind !== 'granted') return claimed
  const { lease } = claimed
  const known = await own.read(lease.key)
  if (known.kind === 'absent' || known.kind === 'released') return claimed
  // The unknown may be an outcome: begin nothing beside it.
  if (known.kind === 'unavailable' || known.kind === 'damaged') {
    await leases.release(lease)
    return known
  }
  const same = known.fingerprint === lease.fingerprint
  // It got no answer: that was an attempt, too.
  if (same && known.kind === 'claimed' && known.remainingMs === 0) {
    const next = Math.min(ATTEMPT_MAX, known.attempt + 1)
    return { kind: 'granted', lease: { ...lease, attempt: Math.max(lease.attempt, next) } }
  }
  await leases.release(lease)
  if (!same) return { kind: 'mismatch' }
  return known.kind === 'claimed'
    ? { kind: 'held', retryAfterMs: known.remainingMs }
    : { kind: 'duplicate', outcome: known.outcome, token: known.token, attempt: known.attempt }
}
