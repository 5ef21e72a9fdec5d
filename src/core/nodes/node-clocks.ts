/**
 * Watches the clocks of the nodes through the TIME that every answer carries, and takes a node's vote away for a while
 * where its clock was stepped; for good, until it is enrolled again, where it leapt ahead.
 *
 *   counted → suspended (a step was seen) → counted (the longest lease is over)
 *                  └→ leapt (ahead, by more than is tolerated, and the others did not) → a node that forgot
 *
 * A node's lease ends on the node's own clock. Where that clock jumps, leases end too early or too late; until the longest
 * of them is over on any clock, the node's answers say nothing. A step shows for free: between two answers the node's
 * time must have progressed by as much as our monotonic clock, give or take the round trips and what rates may differ.
 * An offset is another thing: tokens need no clock, so a constant one is only reported, and refused where that was chosen.
 * A leap ahead is a third: what the node was to remember may have expired by it (`clock-leaps.ts`). Until it is clear
 * whether it was the node that leapt, its votes do not count.
 * And a clock that has not been watched for long may have leapt before: what it says of a lease that has ended is believed only
 * where it agrees closely with the others (`first-sight.ts`).
 *
 * Owns two judgements, step and offset, as pure functions, and the wrapper of a node that applies them. What suspends a
 * vote by other means (epoch, quarantine) is elsewhere. A pause of our own monotonic clock (a suspended machine) looks
 * like a step of every node and is treated as one: then nobody here knows how much time has passed.
 */

import { DRIFT_FACTOR } from '../clocks.ts'
import type { Events } from '../events.ts'
import type { Clock, NodeAnswer, RecordNode } from '../ports.ts'
import type { RecordCommand } from '../record/record.ts'
import { majorityOf } from '../units.ts'
import { GRANULARITY_MS, judgeLeap, type Leap, type Steady } from './clock-leaps.ts'
import { apartFromMost, isAmongMost, type Reading, toleratedApartMs } from './first-sight.ts'

/** One answer: the node read its clock at some moment between sending and receiving. */
export type ClockSample = {
  readonly nodeMs: number
  readonly sentMonoMs: number
  readonly receivedMonoMs: number
}

/**
 * By how much at least the node's clock was stepped between two answers; negative: backwards; 0: nothing that round
 * trips and drift do not explain.
 */
export function stepBetween(earlier: ClockSample, later: ClockSample): number {
  const progressMs = later.nodeMs - earlier.nodeMs
  const mostMs = (later.receivedMonoMs - earlier.sentMonoMs) * (1 + DRIFT_FACTOR)
  // Negative where the two overlapped: then the node may have read its clock for the later one first.
  const apartMs = later.sentMonoMs - earlier.receivedMonoMs
  const leastMs = apartMs * (apartMs < 0 ? 1 + DRIFT_FACTOR : 1 - DRIFT_FACTOR)
  if (progressMs - GRANULARITY_MS > mostMs) return progressMs - GRANULARITY_MS - mostMs
  if (progressMs + GRANULARITY_MS < leastMs) return progressMs + GRANULARITY_MS - leastMs
  return 0
}

export type Offset = { readonly offsetMs: number; readonly uncertaintyMs: number }

/** How far the node's clock is ahead of our wall clock, and how wrong that may be: half a round trip. */
export function offsetOf(nodeMs: number, sentWallMs: number, roundTripMs: number): Offset {
  return { offsetMs: nodeMs - (sentWallMs + roundTripMs / 2), uncertaintyMs: roundTripMs / 2 }
}

/** Surely too far, surely not, or it cannot be told from this answer. */
export function judgeOffset({ offsetMs, uncertaintyMs }: Offset, maxSkewMs: number): boolean | undefined {
  if (Math.abs(offsetMs) - uncertaintyMs > maxSkewMs) return true
  return Math.abs(offsetMs) + uncertaintyMs <= maxSkewMs ? false : undefined
}

/** How long a sample is compared with: a clock that runs wrong by 5 % shows within two of these. */
const BASELINE_MS = 10_000

/** What is remembered of a node's clock: the last answer for steps, one of some time ago for wrong rates. */
export type Baseline = {
  readonly last: ClockSample
  readonly newer: ClockSample
  readonly older: ClockSample
}

type Followed = {
  readonly baseline: Baseline
  readonly stepMs: number
  /** When the earlier question was sent between which and this one the step lies. */
  readonly fromMonoMs: number
}

/** @returns what to remember, and the step that this answer shows (0: none) */
export function follow(known: Baseline | undefined, sample: ClockSample): Followed {
  const fromMonoMs = sample.sentMonoMs
  const anew: Baseline = { last: sample, newer: sample, older: sample }
  if (known === undefined) return { baseline: anew, stepMs: 0, fromMonoMs }
  const { last, older } = known
  const sinceLastMs = stepBetween(last, sample)
  if (sinceLastMs !== 0) return { baseline: anew, stepMs: sinceLastMs, fromMonoMs: last.sentMonoMs }
  const sinceOlderMs = stepBetween(older, sample)
  if (sinceOlderMs !== 0) return { baseline: anew, stepMs: sinceOlderMs, fromMonoMs: older.sentMonoMs }
  if (sample.sentMonoMs - known.newer.sentMonoMs < BASELINE_MS)
    return { baseline: { last: sample, newer: known.newer, older }, stepMs: 0, fromMonoMs }
  return { baseline: { last: sample, newer: sample, older: known.newer }, stepMs: 0, fromMonoMs }
}

export type NodeClocksOptions = {
  readonly nodes: readonly RecordNode[]
  readonly clock: Clock
  readonly events: Events
  /** How long a node whose clock was stepped does not vote: until the longest lease is over. */
  readonly suspendMs: number
  readonly maxSkewMs: number
  /** Refuse claims while a majority of the nodes is further off than tolerated. */
  readonly enforce: boolean
  /** How far a node's clock may jump ahead before what it remembers is no longer trusted. */
  readonly toleratedStepMs: number
  /** Told once of each jump that was the node's own: what it promised before it has forgotten. */
  readonly onLeap?: (index: number, leap: Leap) => void
}

type Watched = {
  baseline: Baseline | undefined
  steady: Steady
  /** A jump ahead of which it is not clear yet whose it was. */
  leap: Leap | undefined
  suspendedUntilMonoMs: number
  /** Since when no leap can have been missed, but one that a round trip hides. */
  followedSinceMonoMs: number
  /** Of the readings since then the one that says most. */
  narrowest: Reading | undefined
  /** Its clock was once seen among those of a majority; until then it has no more weight than after a step. */
  believed: boolean
  skewed: boolean
  toldMonoMs: number
}

/** A node is looked at once a second; in a longer gap drift alone would hide a leap that a lease does not allow for. */
const FOLLOWED_GAP_MS = 3_000

/** How often an offset is told, at most, for each node. */
const OFFSET_EVERY_MS = 1_000

export type WatchedNodes = {
  readonly nodes: readonly RecordNode[]
  /** Until when the votes of this node do not count, on the monotonic clock; in the past: they do. */
  suspendedUntilMonoMs(index: number): number
  /** The node was asked its time otherwise than by a command. @returns whether its votes count now */
  saw(index: number, sample: ClockSample, sentWallMs: number): boolean
}

export function watchNodeClocks(options: NodeClocksOptions): WatchedNodes {
  const { clock, events, suspendMs, maxSkewMs, enforce, toleratedStepMs } = options
  const required = majorityOf(options.nodes.length)
  const watched = options.nodes.map(
    (): Watched => ({
      baseline: undefined,
      steady: undefined,
      leap: undefined,
      suspendedUntilMonoMs: Number.NEGATIVE_INFINITY,
      followedSinceMonoMs: Number.POSITIVE_INFINITY,
      narrowest: undefined,
      believed: false,
      skewed: false,
      toldMonoMs: Number.NEGATIVE_INFINITY,
    }),
  )

  function judge(node: string, state: Watched, sample: ClockSample, sentWallMs: number): void {
    judgeStep(node, state, sample)
    const offset = offsetOf(sample.nodeMs, sentWallMs, sample.receivedMonoMs - sample.sentMonoMs)
    const skewed = judgeOffset(offset, maxSkewMs) ?? state.skewed
    if (skewed === state.skewed && sample.receivedMonoMs - state.toldMonoMs < OFFSET_EVERY_MS) return
    const changed = skewed !== state.skewed
    state.skewed = skewed
    state.toldMonoMs = sample.receivedMonoMs
    events.publish({ kind: 'clock_offset', node, ...offset, skewed, changed })
  }

  function judgeStep(node: string, state: Watched, sample: ClockSample): void {
    const { baseline, stepMs, fromMonoMs } = follow(state.baseline, sample)
    const { sentMonoMs, receivedMonoMs } = sample
    if (state.baseline === undefined) state.suspendedUntilMonoMs = receivedMonoMs + suspendMs
    const gapMs = sentMonoMs - (state.baseline?.last.receivedMonoMs ?? Number.NEGATIVE_INFINITY)
    if (stepMs !== 0 || gapMs > FOLLOWED_GAP_MS) {
      state.followedSinceMonoMs = receivedMonoMs
      state.narrowest = undefined
    }
    const { narrowest } = state
    if (narrowest === undefined || receivedMonoMs - sentMonoMs < 2 * narrowest.uncertaintyMs)
      state.narrowest = readingOf(sample)
    state.baseline = baseline
    believeMost()
    const since = state.steady === undefined || stepMs > 0 ? sentMonoMs : state.steady.sinceMonoMs
    state.steady = { sinceMonoMs: since, lastMonoMs: Math.max(sentMonoMs, state.steady?.lastMonoMs ?? 0) }
    if (stepMs !== 0) {
      // Which is waited for anyway, wherever the clock stands.
      state.believed = true
      state.suspendedUntilMonoMs = receivedMonoMs + suspendMs
      events.publish({ kind: 'clock_stepped', node, stepMs, suspendedMs: suspendMs })
    }
    if (stepMs > toleratedStepMs) {
      const { nodeMs } = sample
      state.leap = { fromMonoMs, untilMonoMs: receivedMonoMs, aheadMs: stepMs, nodeMs }
    }
    judgeLeaps()
  }

  function believeMost(): void {
    // Each answer comes by here, and after the first ones there is nobody left to be judged.
    if (!watched.some(isUnjudged)) return
    const readings = watched.flatMap(({ baseline }) =>
      baseline === undefined ? [] : readingOf(baseline.last),
    )
    for (const state of watched) {
      if (state.believed || state.baseline === undefined) continue
      const among = isAmongMost(readingOf(state.baseline.last), readings, toleratedStepMs, required)
      if (among) state.suspendedUntilMonoMs = Number.NEGATIVE_INFINITY
      state.believed = among || clock.monoMs() >= state.suspendedUntilMonoMs
    }
  }

  /** Whether a lease that has ended by its clock has ended. */
  function knowsLapses(state: Watched, leaseMs: number): boolean {
    const nowMonoMs = clock.monoMs()
    if (nowMonoMs - state.followedSinceMonoMs >= suspendMs) return true
    const readings = watched.flatMap(({ baseline, narrowest }) =>
      // One of long ago has drifted since.
      baseline === undefined ||
      narrowest === undefined ||
      nowMonoMs - baseline.last.receivedMonoMs > BASELINE_MS
        ? []
        : narrowest,
    )
    const { narrowest } = state
    return (
      narrowest !== undefined && apartFromMost(narrowest, readings, required) <= toleratedApartMs(leaseMs)
    )
  }

  /** An answer of one node may settle what another one did. */
  function judgeLeaps(): void {
    // Each answer comes by here, and hardly ever has any clock leapt.
    if (!watched.some(({ leap }) => leap !== undefined)) return
    for (const [index, state] of watched.entries()) {
      const { leap } = state
      if (leap === undefined) continue
      const steady = watched.map((other) => other.steady)
      const verdict = judgeLeap(leap, steady, required)
      if (verdict === 'unknown') continue
      state.leap = undefined
      if (verdict === 'own') options.onLeap?.(index, leap)
    }
  }

  function wrap(node: RecordNode, state: Watched): RecordNode {
    return {
      name: node.name,
      execute: (command) => {
        const sentMonoMs = clock.monoMs()
        const sentWallMs = clock.wallMs()
        return node.execute(command).then((answer) => {
          if (answer.kind === 'unreachable') return answer
          const sample = { nodeMs: answer.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
          judge(node.name, state, sample, sentWallMs)
          const suspended = isSuspended(state, sample.receivedMonoMs)
          const refused =
            enforce && command.kind === 'claim' && watched.filter(({ skewed }) => skewed).length >= required
          // It was executed, so whoever asked takes back what it may have granted; it does not count.
          if (isTakeover(command, answer) && !knowsLapses(state, command.leaseMs))
            return uncounted(answer.nodeMs)
          return suspended || refused ? uncounted(answer.nodeMs) : answer
        })
      },
    }
  }

  return {
    nodes: options.nodes.map((node, index) => {
      const state = watched[index]
      return state === undefined ? node : wrap(node, state)
    }),
    suspendedUntilMonoMs: (index) =>
      watched[index]?.leap === undefined
        ? (watched[index]?.suspendedUntilMonoMs ?? Number.NEGATIVE_INFINITY)
        : Number.POSITIVE_INFINITY,
    saw: (index, sample, sentWallMs) => {
      const [node, state] = [options.nodes[index], watched[index]]
      if (node === undefined || state === undefined) return true
      judge(node.name, state, sample, sentWallMs)
      return !isSuspended(state, sample.receivedMonoMs)
    },
  }
}

/** It has been seen, and not yet among a majority. */
function isUnjudged({ believed, baseline }: Watched): boolean {
  return !believed && baseline !== undefined
}

/** How far the node's clock is ahead of ours, as one answer shows it. */
export function readingOf({ nodeMs, sentMonoMs, receivedMonoMs }: ClockSample): Reading {
  return {
    aheadMs: nodeMs - (sentMonoMs + receivedMonoMs) / 2,
    uncertaintyMs: (receivedMonoMs - sentMonoMs) / 2,
  }
}

function isSuspended({ leap, suspendedUntilMonoMs }: Watched, atMonoMs: number): boolean {
  return leap !== undefined || atMonoMs < suspendedUntilMonoMs
}

/** A claim of before was over by the node's clock. */
function isTakeover(
  command: RecordCommand,
  answer: NodeAnswer,
): command is Extract<RecordCommand, { kind: 'claim' }> {
  return command.kind === 'claim' && answer.kind === 'granted' && answer.attempt > 1
}

function uncounted(nodeMs: number): NodeAnswer {
  return { kind: 'quarantined', nodeMs }
}
