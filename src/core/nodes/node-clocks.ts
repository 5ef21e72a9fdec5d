/**
 * Watches the clocks of the nodes through the TIME in every answer.
 *
 *   counted → suspended (a step was seen) → counted (the longest lease is over)
 *                  └→ jumped (ahead, by more than is tolerated, and the others did not) → a node that forgot
 *
 * A lease ends on the node's own clock: where that jumps, the node's answers say nothing until the longest lease of any sidecar is over
 * on any clock. Tokens need no clock, so a constant offset is only reported, and refused where that is configured. A pause of our own
 * monotonic clock looks like a step of every node and is treated as one. The judgements are `clock-samples.ts`.
 */

import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import type { NodeFault } from '../node-faults.ts'
import type { ClockOffset } from '../node-status.ts'
import type { NodeAnswer, RecordNode } from '../ports.ts'
import type { RecordCommand } from '../record/record.ts'
import { majorityOf } from '../units.ts'
import {
  apartFromMost,
  BASELINE_MS,
  type Baseline,
  type ClockSample,
  type ForwardJump,
  follow,
  isAmongMost,
  judgeForwardJump,
  judgeOffset,
  offsetOf,
  type Reading,
  readingOf,
  type Steady,
  toleratedApartMs,
} from './clock-samples.ts'

export type NodeClocksOptions = {
  readonly nodes: readonly RecordNode[]
  readonly clock: Clock
  readonly events: Events
  /**
   * How long a node whose clock was stepped does not vote: until the longest lease of any sidecar is over. Asked
   * whenever it is needed, because a sidecar with longer leases may join.
   */
  readonly suspendMs: () => number
  readonly maxSkewMs: number
  /** Refuse claims while a majority of the nodes is further off than tolerated. */
  readonly enforce: boolean
  /** How far a node's clock may jump ahead before its memory is no longer trusted. */
  readonly toleratedStepMs: number
  /** Called once for each jump that was the node's own: it forgot what it promised before. */
  readonly onForwardJump?: (index: number, jump: ForwardJump) => void
}

type Watched = {
  baseline: Baseline | undefined
  steady: Steady
  /** A jump ahead while it is unclear whose it was. */
  jump: ForwardJump | undefined
  /** Since when its votes do not count, for {@link NodeClocksOptions.suspendMs}. */
  suspendedSinceMonoMs: number
  /** Since when no jump can have been missed, but one that a round trip hides. */
  followedSinceMonoMs: number
  /** The most precise reading since then. */
  narrowest: Reading | undefined
  /** Its clock was once seen among those of a majority; until then it counts as after a step. */
  believed: boolean
  offset: ClockOffset | undefined
}

/** A node is polled every 0.75 to 2.2 s; in a longer gap drift alone would hide a jump that a lease does not allow for. */
const FOLLOWED_GAP_MS = 3_000

export type WatchedNodes = {
  readonly nodes: readonly RecordNode[]
  clockOf(index: number): ClockOffset | undefined
  /** Why the votes of this node do not count now, as far as its clock goes; undefined: they do. */
  suspension(index: number): NodeFault | undefined
  /** A node's time was read by other means than a command. @returns whether its votes count now */
  saw(index: number, sample: ClockSample, sentWallMs: number): boolean
}

export function watchNodeClocks(options: NodeClocksOptions): WatchedNodes {
  const clocks = new NodeClocks(options)
  const { watched } = clocks
  return {
    nodes: options.nodes.map((node, index) => {
      const state = watched[index]
      return state === undefined ? node : clocks.wrap(node, state)
    }),
    clockOf: (index) => watched[index]?.offset,
    suspension: (index) => {
      const state = watched[index]
      return state === undefined ? undefined : clocks.suspension(state, options.clock.monoMs())
    },
    saw: (index, sample, sentWallMs) => {
      const [node, state] = [options.nodes[index], watched[index]]
      if (node === undefined || state === undefined) return true
      clocks.judge(node.name, state, sample, sentWallMs)
      return !clocks.isSuspended(state, sample.receivedMonoMs)
    },
  }
}

/** What is known of all clocks of one cluster, because the others judge each node. */
class NodeClocks {
  readonly watched: readonly Watched[]
  readonly #options: NodeClocksOptions
  readonly #required: number

  constructor(options: NodeClocksOptions) {
    this.#options = options
    this.#required = majorityOf(options.nodes.length)
    this.watched = options.nodes.map(() => ({
      baseline: undefined,
      steady: undefined,
      jump: undefined,
      suspendedSinceMonoMs: Number.NEGATIVE_INFINITY,
      followedSinceMonoMs: Number.POSITIVE_INFINITY,
      narrowest: undefined,
      believed: false,
      offset: undefined,
    }))
  }

  isSuspended({ jump, suspendedSinceMonoMs }: Watched, atMonoMs: number): boolean {
    return jump !== undefined || atMonoMs < suspendedSinceMonoMs + this.#options.suspendMs()
  }

  suspension(state: Watched, atMonoMs: number): NodeFault | undefined {
    if (!this.isSuspended(state, atMonoMs)) return undefined
    if (state.believed) return 'clock_stepped'
    const seen = this.watched.filter(({ baseline }) => baseline !== undefined).length
    return seen < this.#required ? 'clock_unknown' : 'clock_apart'
  }

  /** Applies one more answer to a node's clock. */
  judge(node: string, state: Watched, sample: ClockSample, sentWallMs: number): void {
    const { events, maxSkewMs } = this.#options
    this.#judgeStep(node, state, sample)
    const offset = offsetOf(sample.nodeMs, sentWallMs, sample.receivedMonoMs - sample.sentMonoMs)
    const before = state.offset?.skewed ?? false
    const skewed = judgeOffset(offset, maxSkewMs) ?? before
    state.offset = { ...offset, skewed }
    if (skewed !== before) events.publish({ kind: 'clock_offset', node, ...state.offset })
  }

  #judgeStep(node: string, state: Watched, sample: ClockSample): void {
    const { events, suspendMs, toleratedStepMs } = this.#options
    const { baseline, stepMs, fromMonoMs } = follow(state.baseline, sample)
    const { sentMonoMs, receivedMonoMs } = sample
    if (state.baseline === undefined) state.suspendedSinceMonoMs = receivedMonoMs
    const gapMs = sentMonoMs - (state.baseline?.last.receivedMonoMs ?? Number.NEGATIVE_INFINITY)
    if (stepMs !== 0 || gapMs > FOLLOWED_GAP_MS) {
      state.followedSinceMonoMs = receivedMonoMs
      state.narrowest = undefined
    }
    const { narrowest } = state
    if (narrowest === undefined || receivedMonoMs - sentMonoMs < 2 * narrowest.uncertaintyMs)
      state.narrowest = readingOf(sample)
    state.baseline = baseline
    this.#believeMost()
    const since = state.steady === undefined || stepMs > 0 ? sentMonoMs : state.steady.sinceMonoMs
    state.steady = { sinceMonoMs: since, lastMonoMs: Math.max(sentMonoMs, state.steady?.lastMonoMs ?? 0) }
    if (stepMs !== 0) {
      // The suspension covers it anyway, wherever the clock stands.
      state.believed = true
      state.suspendedSinceMonoMs = receivedMonoMs
      events.publish({ kind: 'clock_stepped', node, stepMs, suspendedMs: suspendMs() })
    }
    if (stepMs > toleratedStepMs) {
      const { nodeMs } = sample
      state.jump = { fromMonoMs, untilMonoMs: receivedMonoMs, aheadMs: stepMs, nodeMs }
    }
    this.#judgeForwardJumps()
  }

  #believeMost(): void {
    // Runs on each answer, and after the first ones no node is left to be judged.
    if (!this.watched.some(isUnjudged)) return
    const { clock, toleratedStepMs } = this.#options
    const readings = this.watched.flatMap(({ baseline }) =>
      baseline === undefined ? [] : readingOf(baseline.last),
    )
    for (const state of this.watched) {
      if (state.believed || state.baseline === undefined) continue
      const among = isAmongMost(readingOf(state.baseline.last), readings, toleratedStepMs, this.#required)
      if (among) state.suspendedSinceMonoMs = Number.NEGATIVE_INFINITY
      state.believed = among || !this.isSuspended(state, clock.monoMs())
    }
  }

  /** Whether a lease that has ended by its clock has ended. */
  #knowsExpires(state: Watched, leaseMs: number): boolean {
    const { clock, suspendMs } = this.#options
    const nowMonoMs = clock.monoMs()
    if (nowMonoMs - state.followedSinceMonoMs >= suspendMs()) return true
    const readings = this.watched.flatMap(({ baseline, narrowest }) =>
      // An old reading has drifted since.
      baseline === undefined ||
      narrowest === undefined ||
      nowMonoMs - baseline.last.receivedMonoMs > BASELINE_MS
        ? []
        : narrowest,
    )
    const { narrowest } = state
    return (
      narrowest !== undefined &&
      apartFromMost(narrowest, readings, this.#required) <= toleratedApartMs(leaseMs)
    )
  }

  /** An answer of one node may decide about another's jump. */
  #judgeForwardJumps(): void {
    // Runs on each answer, and hardly ever has any clock jumped.
    if (!this.watched.some(({ jump }) => jump !== undefined)) return
    for (const [index, state] of this.watched.entries()) {
      const { jump } = state
      if (jump === undefined) continue
      const steady = this.watched.map((other) => other.steady)
      const verdict = judgeForwardJump(jump, steady, this.#required)
      if (verdict === 'unknown') continue
      state.jump = undefined
      if (verdict === 'own') this.#options.onForwardJump?.(index, jump)
    }
  }

  /** Whether claims are refused because most clocks are further off than tolerated. */
  #refuses(command: RecordCommand): boolean {
    if (!this.#options.enforce || command.kind !== 'claim') return false
    return this.watched.filter(({ offset }) => offset?.skewed === true).length >= this.#required
  }

  /** The node, whose answers count as far as its clock allows. */
  wrap(node: RecordNode, state: Watched): RecordNode {
    const { clock } = this.#options
    return {
      name: node.name,
      execute: (command) => {
        // Before it is sent: a claim that will not count leaves nothing on any node.
        if (this.#refuses(command)) return CLOCKS_APART
        const sentMonoMs = clock.monoMs()
        const sentWallMs = clock.wallMs()
        return node.execute(command).then((answer) => {
          if (answer.kind === 'unreachable') return answer
          const sample = { nodeMs: answer.nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
          this.judge(node.name, state, sample, sentWallMs)
          const suspended = this.isSuspended(state, sample.receivedMonoMs)
          // The clocks were found apart while it was under way.
          const refused = this.#refuses(command)
          const { nodeMs } = answer
          // It was executed, so the claimant releases what it may have granted; it does not count.
          if (suspended || answer.kind === 'quarantined') return { kind: 'quarantined', nodeMs }
          const uncounted = isTakeover(command, answer) && !this.#knowsExpires(state, command.leaseMs)
          return refused || uncounted ? { kind: 'quarantined', nodeMs, votes: true } : answer
        })
      },
    }
  }
}

const CLOCKS_APART: Promise<NodeAnswer> = Promise.resolve({
  kind: 'unreachable',
  reason: 'refused',
  answered: true,
  detail: 'not asked: the clocks of most nodes are further off than clock.maxSkew, and clock.enforce is on',
})

/** It has been seen, and not yet among a majority. */
function isUnjudged({ believed, baseline }: Watched): boolean {
  return !believed && baseline !== undefined
}

/** An earlier claim had ended by the node's clock. */
function isTakeover(
  command: RecordCommand,
  answer: NodeAnswer,
): command is Extract<RecordCommand, { kind: 'claim' }> {
  return command.kind === 'claim' && answer.kind === 'granted' && answer.attempt > 1
}
