/**
 * Leader election on the record protocol: the candidate that claims the leadership's record leads for its lease.
 *
 *   following → leading (claimed) → following (lease lost, or stopped)
 *
 * Owns the life of a candidate. The term's token is its fencing token: a write under it is refused once a later leader
 * has written. Two processes may believe for a moment that they lead; duties must bear that, as the sweeper's do: it
 * only proposes what claims then decide.
 */

import { KEPT_WHILE_ALIVE, renewLease } from '../claims/lease-renewer.ts'
import type { Clock, Random, Timer } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Leases } from '../ports.ts'
import type { Token } from '../record/token.ts'

export type Term = {
  readonly token: Token
  /** Aborts when the leadership is lost, or the candidate is stopped. */
  readonly over: AbortSignal
}

type CandidateOptions = {
  /** The record whose holder leads. */
  readonly recordKey: string
  readonly leaseMs: number
  /** Does the work of the leader until `term.over` aborts. What it rejects with ends the term. */
  readonly lead: (term: Term) => Promise<void>
  readonly onFailure: (cause: unknown) => void
  readonly leases: Leases
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

type Candidate = AsyncDisposable & {
  readonly leading: boolean
  /** Some candidate leads, this one or another, as far as this one knows. */
  readonly filled: boolean
}

/** Every leadership has one fingerprint: candidates differ in their owner only. */
const LEADERSHIP_FINGERPRINT = 'f'.repeat(64)

/** How long nodes remember a leadership without a holder: its fence must outlive every message of an old term. */
const LEADERSHIP_RETENTION_MS = 24 * 3_600_000

const CLAIM_BUDGET_MS = 500

export function campaign(options: CandidateOptions): Candidate {
  const { recordKey: key, leaseMs, leases, clock, random } = options
  const stopped = new AbortController()
  let leading = false
  let filled = false
  let again: Timer | undefined
  let running: Promise<void> = Promise.resolve()

  /** @param heldForMs what is left of the leader's lease; absent: not known */
  function tryLater(heldForMs = leaseMs / 3): void {
    if (stopped.signal.aborted) return
    // When the leader's lease would end, each follower at its own moment; a leader that stops gives it back sooner.
    const delayMs = Math.min(leaseMs, heldForMs + (leaseMs / 3) * random.fraction())
    again = clock.timer(delayMs, () => {
      running = once()
    })
  }

  async function once(): Promise<void> {
    const claimed = await leases.claim({
      key,
      fingerprint: LEADERSHIP_FINGERPRINT,
      leaseMs,
      retentionMs: LEADERSHIP_RETENTION_MS,
      budgetMs: CLAIM_BUDGET_MS,
      // An owner of its own, so that the nodes answer and not a shared view of claims.
      owner: random.hex(16),
    })
    // Contended: candidates race, and the previous leader may lead still.
    if (claimed.kind !== 'contended') filled = claimed.kind === 'granted' || claimed.kind === 'held'
    if (claimed.kind === 'granted') {
      const renewer = renewLease(claimed.lease, options, KEPT_WHILE_ALIVE)
      leading = true
      try {
        const over = AbortSignal.any([renewer.lost, stopped.signal])
        await options.lead({ token: claimed.lease.token, over })
      } catch (cause) {
        options.onFailure(cause)
      } finally {
        leading = false
        filled = false
        renewer.stop('released')
        await leases.release(renewer.lease())
      }
    }
    tryLater(claimed.kind === 'held' ? claimed.retryAfterMs : undefined)
  }

  running = once()
  return {
    get leading() {
      return leading
    },
    get filled() {
      return filled
    },
    [Symbol.asyncDispose]: async () => {
      stopped.abort()
      again?.cancel()
      await running
    },
  }
}
