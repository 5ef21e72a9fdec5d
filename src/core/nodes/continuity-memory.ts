/**
 * What one process remembers of the nodes to judge their continuity: their pulses and clocks while they voted.
 *
 * Owns this memory, and a node's state in its light. What follows is `continuity.ts`; its user reads the nodes.
 */

import { type ClockSample, readingOf, stepBetween } from './clock-samples.ts'
import type { ContinuityView, NodeView, Pulse } from './continuity.ts'
import { PULSE_EVERY_MS } from './continuity.ts'
import {
  isEnrolled,
  type Lineage,
  lineageIn,
  type Membership,
  NEVER_A_REPLICA,
  wasReplicaSince,
} from './enrolment-rules.ts'
import { isAmongMost } from './first-sight.ts'
import { ANY, Hearsay } from './hearsay.ts'

/** What a node reports of itself. */
export type ContinuityFacts = Membership & {
  readonly pulse: Pulse | undefined
  readonly durable: boolean
  readonly startedNodeMs: number
  /** Default: it never was a replica. */
  readonly lineage?: Lineage
}

/** A node that answers and is usable; undefined: it is silent. */
export type Present = { readonly voting: boolean; readonly facts: ContinuityFacts } | undefined

export type ContinuityTerms = Omit<ContinuityView, 'nodes' | 'clusterId'>

type Seen = {
  readonly sample: ClockSample
  /** Its votes count, as far as its clock goes. */
  readonly counts: boolean
  /** Of the last run in which it voted. */
  readonly voted: { readonly runId: string; readonly sample: ClockSample } | undefined
  /** Of this run: the clock ran on as ours did since it last voted. */
  readonly ranOn: { readonly runId: string; readonly is: boolean }
  readonly pulseMs: number | undefined
}

export class ContinuityMemory {
  readonly terms: ContinuityTerms
  readonly #names: readonly string[]
  readonly #seen = new Map<number, Seen>()
  /** The newest pulses of nodes, as others note them. */
  readonly heartbeats = new Hearsay()

  /** @param names as all processes call the nodes, in any order */
  constructor(names: readonly string[], terms: ContinuityTerms) {
    this.#names = names
    this.terms = terms
  }

  /** A node was inspected. @param counts whether its votes count now, as far as its clock goes */
  saw(index: number, facts: ContinuityFacts, sample: ClockSample, counts: boolean): void {
    const { runId, epoch, pulse } = facts
    const enrolled = isEnrolled(facts)
    const before = this.#seen.get(index)
    const pulseMs = enrolled && pulse?.runId === runId ? pulse.nodeMs : undefined
    this.#seen.set(index, {
      sample,
      counts,
      voted: enrolled ? { runId, sample } : before?.voted,
      ranOn:
        before?.ranOn.runId === runId ? before.ranOn : { runId, is: hasRunOn(epoch, sample, before?.voted) },
      pulseMs: newest(before?.pulseMs, pulseMs),
    })
    const name = this.#names[index]
    for (const [other, ms] of pulse?.others ?? [])
      if (name !== undefined) this.heartbeats.heard(name, other, ANY, ms, sample.receivedMonoMs)
  }

  /** A node was seen to vote on, as the same process under the same epoch. @param pulseMs of that process */
  glanced(index: number, pulseMs: number, sample: ClockSample, counts: boolean): void {
    const before = this.#seen.get(index)
    if (before?.voted === undefined) return
    const { runId } = before.voted
    this.#seen.set(index, {
      ...before,
      sample,
      counts,
      voted: { runId, sample },
      pulseMs: newest(before.pulseMs, pulseMs),
    })
  }

  /** The pulse to write into the data of a voting node; undefined where none is due. */
  pulseDue(
    index: number,
    { pulse, nodeMs, durable, runId }: ContinuityFacts,
    present: readonly Present[],
    everyMs = PULSE_EVERY_MS,
  ): Pick<Pulse, 'name' | 'durable' | 'others'> | undefined {
    const name = this.#names[index]
    if (name === undefined) return undefined
    const fresh = pulse !== undefined && Math.abs(nodeMs - pulse.nodeMs) < everyMs
    if (fresh && pulse.runId === runId && pulse.durable === durable && pulse.name === name) return undefined
    // Its time would be compared with that of others.
    if (this.#seen.get(index)?.counts !== true || !this.#clockAgrees(index, present)) return undefined
    // What was seen here, or is believed: what a single node says is passed on to none, and nor is what is to come by this one's
    // clock. Who says that is called a liar (`node-history.ts`), and one clock that jumped would make liars of all others.
    const others = this.#names.flatMap((other, at) => {
      const ms = other === name ? undefined : newest(this.#seen.get(at)?.pulseMs, this.#heard(other, nodeMs))
      return ms === undefined || ms > this.#untilMs(nodeMs) ? [] : [[other, ms] as const]
    })
    return { name, durable, others: new Map(others) }
  }

  /** The node has this pulse now. */
  wrote(index: number, ms: number): void {
    const seen = this.#seen.get(index)
    if (seen !== undefined) this.#seen.set(index, { ...seen, pulseMs: newest(seen.pulseMs, ms) })
  }

  view(present: readonly Present[], clusterId: string): ContinuityView {
    const nodes = this.#names
      .slice(0, present.length)
      .map((name, index) => this.#viewOf(name, index, present))
    return { nodes, clusterId, ...this.terms }
  }

  #viewOf(name: string, index: number, present: readonly Present[]): NodeView {
    const [seen, its] = [this.#seen.get(index), present[index]]
    if (seen === undefined || its === undefined) return { kind: 'silent', name }
    const { facts } = its
    if (its.voting && !seen.counts) return { kind: 'silent', name }
    if (its.voting) return { kind: 'voting', name, membership: facts, pulse: facts.pulse }
    return {
      kind: 'waiting',
      name,
      membership: facts,
      pulse: facts.pulse,
      durable: facts.durable,
      startedNodeMs: facts.startedNodeMs,
      ...(wasReplica(facts) ? { wasReplica: true } : {}),
      clockAgrees: this.#clockAgrees(index, present),
      clockRanOn: seen.ranOn.runId === facts.runId && seen.ranOn.is,
      seenPulseMs: seen.pulseMs,
      heardPulseMs: this.#heard(name, facts.nodeMs),
    }
  }

  #clockAgrees(index: number, present: readonly Present[]): boolean {
    const own = this.#seen.get(index)
    if (own === undefined) return false
    const readings = present.flatMap((its, other) => {
      const seen = this.#seen.get(other)
      return seen !== undefined && (other === index || its !== undefined) ? [readingOf(seen.sample)] : []
    })
    return isAmongMost(readingOf(own.sample), readings, this.terms.toleratedStepMs, this.terms.required)
  }

  /** None is of a time to come. */
  #heard(name: string, nodeMs: number): number | undefined {
    return this.heartbeats.believed(name, ANY, this.#untilMs(nodeMs))?.value
  }

  #untilMs(nodeMs: number): number {
    return nodeMs + 2 * this.terms.toleratedStepMs
  }
}

function wasReplica({ epoch, lineage = NEVER_A_REPLICA }: ContinuityFacts): boolean {
  return epoch !== undefined && wasReplicaSince(lineageIn(epoch) ?? NEVER_A_REPLICA, lineage)
}

/** The run that its epoch names was seen to vote, and the clock ran on as ours since. */
function hasRunOn(epoch: string | undefined, sample: ClockSample, voted: Seen['voted']): boolean {
  if (voted === undefined || epoch?.startsWith(`1:${voted.runId}:`) !== true) return false
  return stepBetween(voted.sample, sample) === 0
}

function newest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : other === undefined ? one : Math.max(one, other)
}
