/**
 * What a node that was started again with its data can have forgotten, and whether the others know all of it.
 *
 * A node that votes writes its own time into its data, its *pulse*, about twice a second. A file keeps a prefix of the writes:
 * what was written before a pulse that survives has survived, too. So a node that comes back with its epoch and its pulse can
 * have forgotten only what it did in its *loss window*, from that pulse to the start of the new process. It has none at all where
 * every write reached the disk before its answer (`appendfsync always`) — unless somebody knows of a later pulse: then its volume
 * was set back, or its file was cut. Who knows: this process, and the other nodes, which keep the newest pulses of each
 * other in their own data. An empty node can have forgotten whatever was before its start.
 *
 * The rule: where at every instant at most N − majority nodes are silent or may have forgotten what they did at that instant, a
 * node that comes back may be told what ALL nodes that answer show, itself among them, and votes again.
 *
 * Why that is sound. Take any fact that somebody acts upon: a claim that was granted, a renewal, a promise, an outcome, a release. It
 * was acknowledged because a majority of voting nodes answered, each of which carried it out between the moment at which it was
 * asked and {@link ContinuityView.answerMaxAgeMs} after that, or its answer would not have counted. The windows are widened by that
 * time and by what clocks may differ, so a node that forgot the fact has a widened window that contains the moment of asking. Of
 * those nodes and the silent ones there are at most N − majority, fewer than a majority. So one of the majority answers now and
 * has not forgotten: the union contains the fact. Copying begins only when nothing of the process before can be counted
 * any more, so there is no fact that is acknowledged later and rests on it. By that the target, when it gets its epoch, knows every
 * fact that it was ever counted for. This holds for each node that votes, at each moment (a node that never restarted has forgotten
 * nothing, one that was enrolled was told), and any majority of the nodes that vote meets the majority of any fact: in a node that
 * knows it. That is all that voting needs, also while only some of the nodes vote yet. What is acknowledged while a
 * node is told counts other nodes, and is theirs to know.
 *
 * Leases. The quarantine outlasts every lease that a node may have granted; a node that votes sooner must refuse others for as long
 * as the node that it was would have. What it shows as long as it does not vote is believed only as far as its clock is: its leases are
 * taken for longer, by what its clock may have been set back or forth between the two processes. A merge keeps the claim that
 * stands highest, and may drop a running lease below it: what the node does not keep after it was told is waited for
 * (`live-leases.ts`). A node that has forgotten nothing keeps its leases itself, where its clock was seen to run on; else it is told, too.
 *
 * A pulse is written only while the epoch
 * stands: a node that was told half of what it forgot, and dies, has the window of its first death, and not of its second.
 *
 * Owns these judgements, as pure functions of what nodes show. Times are those of the nodes, whose clocks agree within the
 * tolerated step (each with a majority of the others, when the pulse was written and now): that of a node whose clock does not is
 * not believed.
 */

import { enrolledAtNodeMs, isQuarantined, type Membership } from './enrolment-rules.ts'

/** What a node keeps of its own life, and of that of the others. */
export type Pulse = {
  /** Which node wrote it: a volume may be moved to another one. */
  readonly name: string
  readonly runId: string
  readonly nodeMs: number
  /** Every write reached the disk before it was answered, as the node was set then. */
  readonly durable: boolean
  /** The newest pulses of other nodes, by their names. */
  readonly others: ReadonlyMap<string, number>
}

/** Between two pulses of a node, by its own clock, however many look at it. */
export const PULSE_EVERY_MS = 500

/** When a process was started is known to the second. */
const START_GRANULARITY_MS = 1_000

/** Whoever has not heard of a node for longer, before its newest pulse that survives, can't tell whether there were later ones. */
const WITNESS_LAG_MS = 10_000

/** Ends included; a node that is silent may have forgotten everything. */
export type LossWindow = { readonly fromMs: number; readonly untilMs: number }

const EVERYTHING: LossWindow = { fromMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY }

/** A node that answers and does not vote. */
export type WaitingNode = {
  readonly kind: 'waiting'
  readonly name: string
  readonly membership: Membership
  readonly pulse: Pulse | undefined
  /** As it is set now. */
  readonly durable: boolean
  readonly startedNodeMs: number
  /** With the clocks of a majority, itself among them, within the tolerated step. */
  readonly clockAgrees: boolean
  /** This process saw its clock before it was started again, and it has run on as ours did. */
  readonly clockRanOn: boolean
  /** The newest pulse that this process itself saw there, while the node voted. */
  readonly seenPulseMs: number | undefined
  /** The newest one that this process has ever heard of, from whichever node. */
  readonly notedPulseMs: number | undefined
}

export type NodeView =
  | {
      readonly kind: 'voting'
      readonly name: string
      readonly membership: Membership
      readonly pulse: Pulse | undefined
    }
  /** Or its answers do not count. */
  | { readonly kind: 'silent'; readonly name: string }
  | WaitingNode

export type ContinuityView = {
  /** One entry a configured node. */
  readonly nodes: readonly NodeView[]
  readonly clusterId: string
  /** A majority of all N. */
  readonly required: number
  readonly toleratedStepMs: number
  readonly answerMaxAgeMs: number
}

export type Continuity =
  /** It has forgotten nothing: it may go on voting. */
  | { readonly kind: 'intact' }
  /** What it may have forgotten is known to those that answer. */
  | { readonly kind: 'union' }
  /** It is another's node, or an empty one: it waits as every node does that forgot. */
  | { readonly kind: 'unknown'; readonly reason: string }
  /** At some instant too many may have forgotten. */
  | { readonly kind: 'closed'; readonly reason: string }

export function judgeContinuity(target: WaitingNode, view: ContinuityView): Continuity {
  if (rememberedUntilMs(target, view.clusterId) === undefined)
    return { kind: 'unknown', reason: 'its data do not say until when it had voted' }
  if (!target.clockAgrees)
    return { kind: 'closed', reason: 'its clock does not agree with those of a majority' }
  if (target.clockRanOn && lossWindowOf(target, view) === undefined) return { kind: 'intact' }
  const { at, among } = mostForgetful(view)
  return among.length <= view.nodes.length - view.required
    ? { kind: 'union' }
    : { kind: 'closed', reason: whyClosed(at, among, view) }
}

/** Until when, by its own clock, all that the node wrote has surely survived; undefined where nothing says so. */
function rememberedUntilMs({ name, membership, pulse }: WaitingNode, clusterId: string): number | undefined {
  const { epoch, runId, cluster } = membership
  const [version, voted] = epoch?.split(':') ?? []
  if (epoch === undefined || version !== '1' || voted === undefined || voted === runId) return undefined
  if (pulse === undefined || pulse.name !== name || cluster?.id !== clusterId) return undefined
  const known = [enrolledAtNodeMs(epoch), ...(pulse.runId === voted ? [pulse.nodeMs] : [])]
  const times = known.filter((ms) => ms !== undefined && Number.isFinite(ms)) as number[]
  return times.length === 0 ? undefined : Math.max(...times)
}

/** What the node may have forgotten; undefined: nothing. */
export function lossWindowOf(node: NodeView, view: ContinuityView): LossWindow | undefined {
  if (node.kind === 'voting') return undefined
  if (node.kind === 'silent' || !node.clockAgrees) return EVERYTHING
  const untilMs = node.startedNodeMs + START_GRANULARITY_MS
  const fromMs = rememberedUntilMs(node, view.clusterId)
  if (fromMs === undefined) return { fromMs: Number.NEGATIVE_INFINITY, untilMs: forgotUntilMs(node) }
  // It remembers a time after its own start, or was started in what is to come: its clock was another one then.
  if (fromMs > untilMs + view.toleratedStepMs) return EVERYTHING
  if (node.startedNodeMs > node.membership.nodeMs + view.toleratedStepMs) return EVERYTHING
  return isIntact(node, view) ? undefined : { fromMs, untilMs }
}

/**
 * A node may forget while its process goes on: flushed, its epoch taken away because its clock jumped or it evicted keys. By then it was
 * noticed when its quarantine began, and it has been counted for nothing since.
 */
function forgotUntilMs({ membership, startedNodeMs }: WaitingNode): number {
  const { nodeMs } = membership
  const sinceMs = isQuarantined(membership) ? membership.quarantine.sinceNodeMs : nodeMs
  // Its clock was set back since.
  if (sinceMs > nodeMs) return Number.POSITIVE_INFINITY
  return Math.max(sinceMs, startedNodeMs + START_GRANULARITY_MS)
}

/** Every write was durable, and somebody who would know of a later pulse than the one that survives knows of none. */
function isIntact(node: WaitingNode, view: ContinuityView): boolean {
  const { pulse, membership, seenPulseMs, notedPulseMs } = node
  if (pulse === undefined || rememberedUntilMs(node, view.clusterId) === undefined) return false
  const sameRun = membership.epoch?.split(':')[1] === pulse.runId
  if (!sameRun || !pulse.durable || !node.durable) return false
  const notes = view.nodes.flatMap((other) => {
    if (other === node || other.kind === 'silent') return []
    if (other.kind === 'waiting' && rememberedUntilMs(other, view.clusterId) === undefined) return []
    const noted = other.pulse?.others.get(node.name)
    return noted === undefined ? [] : [noted]
  })
  if ([...notes, seenPulseMs ?? 0, notedPulseMs ?? 0].some((known) => known > pulse.nodeMs)) return false
  const lately = (known: number) => known >= pulse.nodeMs - WITNESS_LAG_MS
  // Of so many one at least is no node whose volume was set back as well, or more were than may be at once.
  if (notes.filter(lately).length >= view.nodes.length - view.required) return true
  return seenPulseMs !== undefined && lately(seenPulseMs)
}

/** The instant at which most nodes may have forgotten what they did, and which these are. */
function mostForgetful(view: ContinuityView): { readonly at: number; readonly among: readonly NodeView[] } {
  const clocksMs = 2 * view.toleratedStepMs
  const windows = view.nodes.flatMap((node) => {
    const window = lossWindowOf(node, view)
    if (window === undefined) return []
    const fromMs = window.fromMs - view.answerMaxAgeMs - clocksMs
    return [{ node, fromMs, untilMs: window.untilMs + clocksMs }]
  })
  let most: { readonly at: number; readonly among: readonly NodeView[] } = { at: 0, among: [] }
  // More begin to overlap only where one begins.
  for (const { fromMs: at } of windows) {
    const among = windows.flatMap(({ node, fromMs, untilMs }) =>
      fromMs <= at && at <= untilMs ? [node] : [],
    )
    if (among.length > most.among.length) most = { at, among }
  }
  return most
}

function whyClosed(at: number, among: readonly NodeView[], { nodes, required }: ContinuityView): string {
  const when = Number.isFinite(at) ? new Date(at).toISOString() : 'long ago'
  const who = among.map((node) => (node.kind === 'silent' ? `${node.name} (silent)` : node.name)).join(', ')
  return `what was done at ${when} may be forgotten by ${among.length} of ${nodes.length} nodes, and by ${nodes.length - required} it may be: ${who}`
}
