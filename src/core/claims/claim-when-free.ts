/**
 * Waits for a record that another request holds, and claims it again and again until it can be had.
 *
 *   taken → pause, or wait for one's turn → claim → answered | taken: once more, until the time is over
 *
 * Owns when the next claim is made: in turn where the route asks for that, else with a growing, jittered backoff. What the
 * answer means, and how many may wait at all, is the caller's to decide.
 */

import type { Clock, Random } from '../clock.ts'
import type { ClaimResult } from '../ports.ts'
import { type Backoff, jitteredDelayMs, pauseUnless, whenAborted } from '../retry.ts'
import type { FairQueue, Ticket } from './fair-queue.ts'
import { isTaken, type Taken } from './waiters.ts'

/** Between the claims of the one that is first: no other one claims meanwhile. */
const CALLED_BACKOFF: Backoff = { initialMs: 5, maxMs: 40 }

export type Wanted = {
  readonly key: string
  readonly claim: () => Promise<ClaimResult>
  readonly untilMonoMs: number
  /** Between the claims of those that try for themselves. */
  readonly backoff: Backoff
  /** Aborts when nobody waits for the answer any more. */
  readonly abandoned: AbortSignal | undefined
  /** Where this process itself holds the record: resolves when that has ended. Then no backoff is waited out. */
  readonly whenEnded?: (key: string) => Promise<void> | undefined
}

export type WaitPorts = {
  /** Where those who wait are let in one after the other; absent where each tries for itself. */
  readonly fairQueue?: FairQueue
  readonly clock: Clock
  readonly random: Random
}

/** @returns the first answer that is not "taken"; the last one of all where the time is over or nobody waits any more */
export async function claimWhenFree(first: Taken, wanted: Wanted, ports: WaitPorts): Promise<ClaimResult> {
  const { key, claim, untilMonoMs, abandoned, whenEnded } = wanted
  using ticket = ports.fairQueue?.enter(key)
  const left = whenAborted(abandoned)
  for (let retry = 0, last = first; ; retry += 1) {
    const leftMs = untilMonoMs - ports.clock.monoMs()
    if (leftMs <= 0) return last
    const ended = whenEnded?.(key)
    const ending = ended && { ended, withinMs: last.retryAfterMs }
    await untilNextClaim({ ticket, retry, backoff: wanted.backoff, ending, left, leftMs }, ports)
    // Claiming now could mean to execute it for a caller that is gone, and a place is for those who wait.
    if (abandoned?.aborted === true) return last
    const next = await claim()
    // An outcome is for all who wait; what was given back without one is for one of them after the other.
    if (next.kind === 'duplicate' || next.kind === 'damaged') ticket?.callAll()
    if (!isTaken(next)) return next
    last = next
  }
}

type NextClaim = {
  readonly ticket: Ticket | undefined
  /** How many claims have been in vain. */
  readonly retry: number
  readonly backoff: Backoff
  /** Instead of the backoff, where it is known when what is waited for will end: at most so long. */
  readonly ending: { readonly ended: Promise<void>; readonly withinMs: number } | undefined
  readonly left: Promise<void> | undefined
  readonly leftMs: number
}

/** Ends after `leftMs`, or when nobody waits for the answer, whatever comes. */
async function untilNextClaim(
  { ticket, retry, backoff, ending, left, leftMs }: NextClaim,
  { clock, random }: WaitPorts,
): Promise<void> {
  const untilMonoMs = clock.monoMs() + leftMs
  if (ticket !== undefined) await pauseUnless([ticket.untilCalled(), left], leftMs, clock)
  const delayMs =
    ending?.withinMs ?? jitteredDelayMs(ticket?.called ? CALLED_BACKOFF : backoff, retry, random)
  const stillMs = Math.max(0, untilMonoMs - clock.monoMs())
  await pauseUnless([ending?.ended, ticket?.freed, left], Math.min(delayMs, stillMs), clock)
}
