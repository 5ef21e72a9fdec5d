/**
 * What a node that restarted with its data can have forgotten, and whether the others know all of it.
 *
 * A voting node writes its *heartbeat* into its data. If a heartbeat survived, so did every write before it: the node can have forgotten only what
 * it did in its *loss window*, from that heartbeat to the start of the new process. It has none where every write reached the disk
 * before its answer, unless a later heartbeat is known. An empty node can have forgotten everything before its start.
 *
 * The rule, and why it is sound, stand in docs/internals/protocol.md ("Continuity"): if at every instant at most N − majority nodes are
 * silent or may have forgotten it, a node may adopt what ALL nodes that answer show, and votes again. It waits for every lease that it
 * did not keep (`record-copying.ts`). A node that has forgotten nothing keeps its leases itself, where its clock was seen to run on.
 *
 * A server that was a replica of a node, or was started with a copy of its files, has its incarnation and heartbeats, while that node went on: it
 * may have forgotten what was done up to this moment. A heartbeat is written only while the incarnation stands: a node that dies after half of
 * the copying has the window of its first death.
 *
 * Owns these judgements, as pure functions of what nodes show. Times are those of nodes whose clocks agree within the tolerated step.
 */

import { type ClockSample, isAmongMost, readingOf, stepBetween } from './clock-samples.ts'
import { ANY, Hearsay } from './hearsay.ts'
import {
  hasJoined,
  isQuarantined,
  joinedAtNodeMs,
  type Lineage,
  lineageIn,
  type Membership,
  NEVER_A_REPLICA,
  wasReplicaSince,
} from './rejoin-rules.ts'

/** What a node keeps of its own life, and of that of the others. */
export type Heartbeat = {
  /** The node that wrote it: a volume may move to another one. */
  readonly name: string
  readonly runId: string
  readonly nodeMs: number
  /** Every write reached the disk before its answer, as the node was configured then. */
  readonly durable: boolean
  /** The newest heartbeats of other nodes, by their names. */
  readonly others: ReadonlyMap<string, number>
}

/** Between two heartbeats of a node, by its own clock, however many sidecars watch it. */
export const HEARTBEAT_EVERY_MS = 500

/** The start of a process is known to the second. */
const START_GRANULARITY_MS = 1_000

/** A witness that heard of a node longer ago than this before its newest surviving heartbeat can't exclude later heartbeats. */
const WITNESS_LAG_MS = 10_000

/** Ends included; a silent node may have forgotten everything. */
export type LossWindow = { readonly fromMs: number; readonly untilMs: number }

const EVERYTHING: LossWindow = { fromMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY }

/** A node that answers and does not vote. */
export type WaitingNode = {
  readonly kind: 'waiting'
  readonly name: string
  readonly membership: Membership
  readonly heartbeat: Heartbeat | undefined
  /** As configured now. */
  readonly durable: boolean
  readonly startedNodeMs: number
  /** It followed another server since the rejoin that its data show: they ended when it ceased to, which is not known. */
  readonly wasReplica?: true
  /** Its clock agrees with those of a majority, itself included, within the tolerated step. */
  readonly clockAgrees: boolean
  /** This process saw its clock before the restart, and it has run on as ours did. */
  readonly clockRanOn: boolean
  /** The newest heartbeat that this process itself saw there, while the node voted. */
  readonly seenHeartbeatMs: number | undefined
  /** The newest one that this process has heard of from two nodes. */
  readonly heardHeartbeatMs: number | undefined
}

export type NodeView =
  | {
      readonly kind: 'voting'
      readonly name: string
      readonly membership: Membership
      readonly heartbeat: Heartbeat | undefined
    }
  /** Or its answers do not count. */
  | { readonly kind: 'silent'; readonly name: string }
  | WaitingNode

export type ContinuityView = {
  /** One entry per configured node. */
  readonly nodes: readonly NodeView[]
  readonly clusterId: string
  /** A majority of all N. */
  readonly required: number
  readonly toleratedStepMs: number
  readonly answerMaxAgeMs: number
}

export type Continuity =
  /** It has forgotten nothing: it may go on voting. */
  | { readonly kind: 'no_loss' }
  /** The nodes that answer know whatever it may have forgotten. */
  | { readonly kind: 'recover_from_peers' }
  /** It is another cluster's node, or an empty one: it waits like every node that forgot. */
  | { readonly kind: 'unknown'; readonly reason: string }
  /** At some instant too many may have forgotten. */
  | { readonly kind: 'blocked'; readonly reason: string }

export function judgeContinuity(target: WaitingNode, view: ContinuityView): Continuity {
  if (rememberedUntilMs(target, view.clusterId) === undefined)
    return { kind: 'unknown', reason: 'its data do not say until when it had voted' }
  if (!target.clockAgrees)
    return { kind: 'blocked', reason: 'its clock does not agree with those of a majority' }
  if (target.clockRanOn && lossWindowOf(target, view) === undefined) return { kind: 'no_loss' }
  const { at, among } = mostForgetful(view)
  return among.length <= view.nodes.length - view.required
    ? { kind: 'recover_from_peers' }
    : { kind: 'blocked', reason: whyBlocked(at, among, view) }
}

/** Until when, by its own clock, all its writes surely survived; undefined where no heartbeat or incarnation shows it. */
function rememberedUntilMs(
  { name, membership, heartbeat }: WaitingNode,
  clusterId: string,
): number | undefined {
  const { incarnation, runId, cluster } = membership
  const [version, voted] = incarnation?.split(':') ?? []
  if (incarnation === undefined || version !== '1' || voted === undefined || voted === runId) return undefined
  if (heartbeat === undefined || heartbeat.name !== name || cluster?.id !== clusterId) return undefined
  const known = [joinedAtNodeMs(incarnation), ...(heartbeat.runId === voted ? [heartbeat.nodeMs] : [])]
  const times = known.filter((ms) => ms !== undefined && Number.isFinite(ms)) as number[]
  return times.length === 0 ? undefined : Math.max(...times)
}

/** What the node may have forgotten; undefined: nothing. */
export function lossWindowOf(node: NodeView, view: ContinuityView): LossWindow | undefined {
  if (node.kind === 'voting') return undefined
  if (node.kind === 'silent' || !node.clockAgrees) return EVERYTHING
  const fromMs = rememberedUntilMs(node, view.clusterId)
  if (fromMs === undefined) return { fromMs: Number.NEGATIVE_INFINITY, untilMs: forgotUntilMs(node) }
  const untilMs = node.startedNodeMs + START_GRANULARITY_MS
  // It remembers a time after its own start, or its start lies in the future: its clock was another one then.
  if (fromMs > untilMs + view.toleratedStepMs) return EVERYTHING
  if (node.startedNodeMs > node.membership.nodeMs + view.toleratedStepMs) return EVERYTHING
  if (isCopy(node, view)) return { fromMs, untilMs: Math.max(untilMs, node.membership.nodeMs) }
  return hasNoLoss(node, view) ? undefined : { fromMs, untilMs }
}

/**
 * A node may forget while its process goes on: flushed, or its incarnation taken away because its clock jumped or it evicted
 * keys. Its quarantine began no earlier than that, and no answer of it has counted since.
 */
function forgotUntilMs({ membership, startedNodeMs }: WaitingNode): number {
  const { nodeMs } = membership
  const sinceMs = isQuarantined(membership) ? membership.quarantine.sinceNodeMs : nodeMs
  // Its clock was set back since.
  if (sinceMs > nodeMs) return Number.POSITIVE_INFINITY
  return Math.max(sinceMs, startedNodeMs + START_GRANULARITY_MS)
}

/**
 * The node whose data it has went on beside it, until this one took its place: it was its replica, or was started with a copy
 * of its files, and heartbeats are known from after that.
 */
function isCopy(node: WaitingNode, view: ContinuityView): boolean {
  const startedMs = node.startedNodeMs + START_GRANULARITY_MS + view.toleratedStepMs
  return node.wasReplica === true || heartbeatsKnownOf(node, view).some((known) => known > startedMs)
}

/** Every write was durable, and witnesses that would know of a later heartbeat than the surviving one know none. */
function hasNoLoss(node: WaitingNode, view: ContinuityView): boolean {
  const { heartbeat, membership, seenHeartbeatMs } = node
  if (heartbeat === undefined || rememberedUntilMs(node, view.clusterId) === undefined) return false
  const sameRun = membership.incarnation?.split(':')[1] === heartbeat.runId
  if (!sameRun || !heartbeat.durable || !node.durable) return false
  const isLater = (known: number) => known > heartbeat.nodeMs
  if (heartbeatsKnownOf(node, view).some(isLater)) return false
  const notes = notesOf(node, view)
  const lately = (known: number) => known >= heartbeat.nodeMs - WITNESS_LAG_MS && !isLater(known)
  // Among so many witnesses at least one volume was not set back as well, or more failed than may at once. One that contradicts them lies.
  if (notes.filter(lately).length >= view.nodes.length - view.required) return true
  return seenHeartbeatMs !== undefined && lately(seenHeartbeatMs) && !notes.some(isLater)
}

/** The newest heartbeats of the node that the others keep; one of a time to come is none. */
function notesOf(node: WaitingNode, view: ContinuityView): readonly number[] {
  return view.nodes.flatMap((other) => {
    if (other === node || other.kind === 'silent') return []
    if (other.kind === 'waiting' && rememberedUntilMs(other, view.clusterId) === undefined) return []
    const noted = other.heartbeat?.others.get(node.name)
    const futureMs = node.membership.nodeMs + 2 * view.toleratedStepMs
    return noted === undefined || !(noted <= futureMs) ? [] : [noted]
  })
}

/** By this process alone, or by two nodes that say at least as much. */
function heartbeatsKnownOf(node: WaitingNode, view: ContinuityView): readonly number[] {
  const [, second = 0] = [...notesOf(node, view)].sort((a, b) => b - a)
  return [second, node.seenHeartbeatMs ?? 0, node.heardHeartbeatMs ?? 0]
}

/** The instant at which most nodes may have forgotten what they did, and these nodes. */
function mostForgetful(view: ContinuityView): { readonly at: number; readonly among: readonly NodeView[] } {
  const clocksMs = 2 * view.toleratedStepMs
  const windows = view.nodes.flatMap((node) => {
    const window = lossWindowOf(node, view)
    if (window === undefined) return []
    const fromMs = window.fromMs - view.answerMaxAgeMs - clocksMs
    return [{ node, fromMs, untilMs: window.untilMs + clocksMs }]
  })
  let most: { readonly at: number; readonly among: readonly NodeView[] } = { at: 0, among: [] }
  // The overlap grows only where a window begins.
  for (const { fromMs: at } of windows) {
    const among = windows.flatMap(({ node, fromMs, untilMs }) =>
      fromMs <= at && at <= untilMs ? [node] : [],
    )
    if (among.length > most.among.length) most = { at, among }
  }
  return most
}

function whyBlocked(at: number, among: readonly NodeView[], { nodes, required }: ContinuityView): string {
  const when = Number.isFinite(at) ? new Date(at).toISOString() : 'long ago'
  const names = among.map((node) => (node.kind === 'silent' ? `${node.name} (silent)` : node.name)).join(', ')
  const unsynced = among.filter(lacksLastWrites).map(({ name }) => name)
  return `what was done at ${when} may be forgotten by ${among.length} of ${nodes.length} nodes, and by ${nodes.length - required} it may be: ${names}${unsynced.length === 0 ? '' : `. ${whyLastWritesLack(unsynced)}`}`
}

/**
 * It has its data, and they end before its last answers did.
 *
 * No time heals that soundly but the longest retention: where too many lack the same second, a majority may have acknowledged an outcome that
 * none of the others has, and its duplicate would be executed again however many leases were waited for.
 */
export function lacksLastWrites(node: NodeView): boolean {
  return node.kind === 'waiting' && node.heartbeat !== undefined && !(node.heartbeat.durable && node.durable)
}

/** @param names of such nodes */
export function whyLastWritesLack(names: readonly string[]): string {
  return `${names.join(', ')} came back with the data and without the last writes before the end, for \`appendfsync\` is not \`always\` there`
}

// What one process remembers of the nodes for these judgements: their heartbeats and clocks while they voted.

/** What a node reports of itself. */
export type ContinuityFacts = Membership & {
  readonly heartbeat: Heartbeat | undefined
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
  readonly heartbeatMs: number | undefined
}

export class ContinuityMemory {
  readonly terms: ContinuityTerms
  readonly #names: readonly string[]
  readonly #seen = new Map<number, Seen>()
  /** The newest heartbeats of nodes, as others note them. */
  readonly heartbeats = new Hearsay()

  /** @param names as all processes call the nodes, in any order */
  constructor(names: readonly string[], terms: ContinuityTerms) {
    this.#names = names
    this.terms = terms
  }

  /** A node was inspected. @param counts whether its votes count now, as far as its clock goes */
  saw(index: number, facts: ContinuityFacts, sample: ClockSample, counts: boolean): void {
    const { runId, incarnation, heartbeat } = facts
    const joined = hasJoined(facts)
    const before = this.#seen.get(index)
    const heartbeatMs = joined && heartbeat?.runId === runId ? heartbeat.nodeMs : undefined
    this.#seen.set(index, {
      sample,
      counts,
      voted: joined ? { runId, sample } : before?.voted,
      ranOn:
        before?.ranOn.runId === runId
          ? before.ranOn
          : { runId, is: hasRunOn(incarnation, sample, before?.voted) },
      heartbeatMs: newest(before?.heartbeatMs, heartbeatMs),
    })
    const name = this.#names[index]
    for (const [other, ms] of heartbeat?.others ?? [])
      if (name !== undefined) this.heartbeats.heard(name, other, ANY, ms, sample.receivedMonoMs)
  }

  /** A node was seen to vote on, as the same process under the same incarnation. @param heartbeatMs of that process */
  polledLightly(index: number, heartbeatMs: number, sample: ClockSample, counts: boolean): void {
    const before = this.#seen.get(index)
    if (before?.voted === undefined) return
    const { runId } = before.voted
    this.#seen.set(index, {
      ...before,
      sample,
      counts,
      voted: { runId, sample },
      heartbeatMs: newest(before.heartbeatMs, heartbeatMs),
    })
  }

  /** The heartbeat to write into the data of a voting node; undefined where none is due. */
  heartbeatDue(
    index: number,
    { heartbeat, nodeMs, durable, runId }: ContinuityFacts,
    present: readonly Present[],
    everyMs = HEARTBEAT_EVERY_MS,
  ): Pick<Heartbeat, 'name' | 'durable' | 'others'> | undefined {
    const name = this.#names[index]
    if (name === undefined) return undefined
    const fresh = heartbeat !== undefined && Math.abs(nodeMs - heartbeat.nodeMs) < everyMs
    if (fresh && heartbeat.runId === runId && heartbeat.durable === durable && heartbeat.name === name)
      return undefined
    // Its time would be compared with that of others.
    if (this.#seen.get(index)?.counts !== true || !this.#clockAgrees(index, present)) return undefined
    // What was seen here, or is believed: what a single node says is passed on to none, and nor is what is to come by this one's
    // clock. Who says that is called a liar (`node-history.ts`), and one clock that jumped would make liars of all others.
    const others = this.#names.flatMap((other, at) => {
      const ms =
        other === name ? undefined : newest(this.#seen.get(at)?.heartbeatMs, this.#heard(other, nodeMs))
      return ms === undefined || ms > this.#untilMs(nodeMs) ? [] : [[other, ms] as const]
    })
    return { name, durable, others: new Map(others) }
  }

  /** The node has this heartbeat now. */
  wrote(index: number, ms: number): void {
    const seen = this.#seen.get(index)
    if (seen !== undefined) this.#seen.set(index, { ...seen, heartbeatMs: newest(seen.heartbeatMs, ms) })
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
    if (its.voting) return { kind: 'voting', name, membership: facts, heartbeat: facts.heartbeat }
    return {
      kind: 'waiting',
      name,
      membership: facts,
      heartbeat: facts.heartbeat,
      durable: facts.durable,
      startedNodeMs: facts.startedNodeMs,
      ...(wasReplica(facts) ? { wasReplica: true } : {}),
      clockAgrees: this.#clockAgrees(index, present),
      clockRanOn: seen.ranOn.runId === facts.runId && seen.ranOn.is,
      seenHeartbeatMs: seen.heartbeatMs,
      heardHeartbeatMs: this.#heard(name, facts.nodeMs),
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

function wasReplica({ incarnation, lineage = NEVER_A_REPLICA }: ContinuityFacts): boolean {
  return incarnation !== undefined && wasReplicaSince(lineageIn(incarnation) ?? NEVER_A_REPLICA, lineage)
}

/** The run that its incarnation names was seen to vote, and the clock ran on as ours since. */
function hasRunOn(incarnation: string | undefined, sample: ClockSample, voted: Seen['voted']): boolean {
  if (voted === undefined || incarnation?.startsWith(`1:${voted.runId}:`) !== true) return false
  return stepBetween(voted.sample, sample) === 0
}

function newest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : other === undefined ? one : Math.max(one, other)
}
