/**
 * Waits for a record that another request holds, and claims it again and again until it is granted or answered.
 *
 *   taken → pause, or wait for one's turn, or for another's answer → claim → answered | taken: once more, until the time is over
 *
 * Owns when the next claim is made: in turn where the route asks for that; else one waiter for all that wait for the
 * same request, or each for itself, with a growing, jittered backoff. The caller decides what the answer means, and how
 * many may wait at all.
 */

import type { Clock, Random } from '../clock.ts'
import type { ClaimResult } from '../ports.ts'
import { type Backoff, jitteredDelayMs, pauseUnless, whenAborted } from '../retry.ts'
import type { FairQueue, Ticket } from './fair-queue.ts'
import { type Busy, type GroupMember, isBusy } from './waiters.ts'

/** Between the claims of the one that is first: no other waiter claims meanwhile. */
const CALLED_BACKOFF: Backoff = { initialMs: 5, maxMs: 40 }

type Wanted = {
  readonly key: string
  readonly claim: () => Promise<ClaimResult>
  readonly untilMonoMs: number
  /** Between the claims of waiters outside a queue. */
  readonly backoff: Backoff
  /** Aborts when the caller no longer waits for the answer. */
  readonly abandoned: AbortSignal | undefined
  /** Where this process itself holds the record: resolves when that has ended, which ends the backoff. */
  readonly whenEnded?: (key: string) => Promise<void> | undefined
  /** Where an answer to one waiter answers all: joins them, unless they go in turn. */
  readonly join?: () => GroupMember
}

type WaitPorts = {
  /** Lets waiters in one after the other; absent where each tries for itself. */
  readonly fairQueue?: FairQueue | undefined
  readonly clock: Clock
  readonly random: Random
}

/** @returns the first answer that is not "taken"; the last one where the time is over or the caller is gone */
export async function claimWhenFree(first: Busy, wanted: Wanted, ports: WaitPorts): Promise<ClaimResult> {
  const { key, claim, untilMonoMs, abandoned, whenEnded } = wanted
  using ticket = ports.fairQueue?.enter(key)
  using member = ticket === undefined ? wanted.join?.() : undefined
  const left = whenAborted(abandoned)
  for (let retry = 0, last = first; ; retry += 1) {
    const leftMs = untilMonoMs - ports.clock.monoMs()
    if (leftMs <= 0) return last
    const ended = whenEnded?.(key)
    const ending = ended && { ended, withinMs: last.retryAfterMs }
    if (member !== undefined && ending === undefined)
      await untilGroupClaims(member, { backoff: wanted.backoff, left, leftMs }, ports)
    else await untilNextClaim({ ticket, retry, backoff: wanted.backoff, ending, left, leftMs }, ports)
    // A claim now could execute it for a caller that is gone, and would take a slot from one that waits.
    if (abandoned?.aborted === true) return last
    const next = await claim()
    // An outcome answers every waiter; a release without one lets in one waiter after the other.
    if (next.kind === 'duplicate' || next.kind === 'damaged') ticket?.callAll()
    if (!isBusy(next)) {
      member?.answered(ports.clock.monoMs())
      return next
    }
    last = next
  }
}

type NextClaim = {
  readonly ticket: Ticket | undefined
  /** How many claims were in vain. */
  readonly retry: number
  readonly backoff: Backoff
  /** Replaces the backoff, at most for so long, where the end of the wait is known. */
  readonly ending: { readonly ended: Promise<void>; readonly withinMs: number } | undefined
  readonly left: Promise<void> | undefined
  readonly leftMs: number
}

/** Ends after `leftMs` at the latest, or when the caller is gone. */
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

/** Ends with an answer to another of the group, or with the pause of the first one; after `leftMs` at the latest. */
async function untilGroupClaims(
  member: GroupMember,
  { backoff, left, leftMs }: Pick<NextClaim, 'backoff' | 'left' | 'leftMs'>,
  { clock, random }: WaitPorts,
): Promise<void> {
  const untilMonoMs = clock.monoMs() + leftMs
  const { answers } = member
  if (!member.isFirst) await pauseUnless([member.woken, left], leftMs, clock)
  if (member.answers !== answers) return
  const nowMonoMs = clock.monoMs()
  const stillMs = Math.max(0, untilMonoMs - nowMonoMs)
  const delayMs = member.isFirst ? member.nextPauseMs(backoff, nowMonoMs, random) : 0
  await pauseUnless([member.woken, left], Math.min(delayMs, stillMs), clock)
}
