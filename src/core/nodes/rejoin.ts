/**
 * Drives the rejoining of the nodes of one cluster: founds it where it is brand-new, and sees each quarantine through.
 *
 * Owns when and by which sidecar a step is taken: one at a time works on a node, by a short claim that only saves work,
 * so that another goes on after a crash.
 */

import type { Random } from '../clock.ts'
import { errorText } from '../fault.ts'
import { type Backoff, jitteredDelayMs, pause } from '../retry.ts'
import { majorityOf } from '../units.ts'
import type { ContinuityTurn } from './continuing.ts'
import type { NodeFacts } from './fitness.ts'
import { hasOutlived, RESTART_EVERY_MS } from './hearsay.ts'
import type { ClusterNodes, Member } from './member.ts'
import type { NodeContinuity } from './node-continuity.ts'
import { DOUBTS } from './node-history.ts'
import { type CopyPorts, copyPages, type MergedKeys, mergedKeys } from './record-copying.ts'
import {
  type Cluster,
  type CopyProgress,
  foundingWindowMs,
  isQuarantined,
  LONGEST_QUARANTINE_MS,
  nextRejoinStep,
  type Peer,
  type Proposal,
  proposedBy,
  type RejoiningNode,
  type RejoinStep,
  type RejoinView,
} from './rejoin-rules.ts'

/**
 * Records read per second, for all nodes together: some 5 % of what a node can do beside its own work, and a quarter of
 * what a core of ours can compare, which has requests to answer.
 */
const COPY_KEYS_PER_SECOND = 5_000

/** How long a sidecar keeps the work on a node: longer than a turn, but a dead sidecar must not block for long. */
const OCCUPY_MS = 3_000

/** How long one turn goes on copying before it writes down its progress and polls the node again. */
const TURN_MS = 1_000

/** The shortest time between two reports of progress. */
const PROGRESS_EVERY_MS = 1_000

/** Sidecars that start together on a new cluster collide; one of them succeeds soon. */
const FOUNDING_ATTEMPTS = 5
const FOUNDING_BACKOFF: Backoff = { initialMs: 20, maxMs: 200 }

/** How often a waiting founder checks for an objection. */
const OBJECTIONS_EVERY_MS = 1_000

type AnyTurn = Turn | ContinuityTurn

type FirstSeen = { readonly nonce: string; readonly nodeMs: number; readonly monoMs: number }

export class Rejoin {
  readonly #nodes: ClusterNodes
  readonly #continuity: NodeContinuity
  readonly #who: string
  readonly #pursuing = new Set<Member>()
  readonly #firstSeen = new Map<Member, FirstSeen>()
  readonly #merged = new Map<Member, { readonly nonce: string; readonly keys: MergedKeys }>()
  readonly #blocked = new Set<Member>()
  readonly #reportedDuplicates = new Set<Member>()
  /** Nonces; one per quarantine, and quarantines are few. */
  readonly #reportedLosses = new Set<string>()
  #founding: Promise<void> | undefined
  #proposal: Proposal | undefined
  /** Until when the records read so far use up the bounded rate. */
  #paidUntilMonoMs = Number.NEGATIVE_INFINITY

  constructor(nodes: ClusterNodes, continuity: NodeContinuity) {
    this.#nodes = nodes
    this.#continuity = continuity
    this.#who = nodes.options.random.hex(8)
  }

  /** Only where all N nodes answer, none has ever joined, and no sidecar that knows better objects for a while. */
  foundIfNew(): Promise<void> {
    this.#founding ??= this.#found().finally(() => {
      this.#founding = undefined
    })
    return this.#founding
  }

  async #found(): Promise<void> {
    const { members, options } = this.#nodes
    const { clock, random } = options
    const windowMs = options.foundingWindowMs ?? foundingWindowMs(options.connectTimeoutMs)
    for (let attempt = 0; attempt < FOUNDING_ATTEMPTS; ) {
      const known = members.map(({ state }) => (state.kind === 'quarantined' ? state.facts : undefined))
      this.#proposal = proposedBy(known, this.#proposal, clock.monoMs())
      const proposal = this.#proposal
      if (proposal === undefined || options.watchOnly || options.mayFound?.() === false || this.#nodes.closed)
        return
      const remainingMs = proposal.sinceMonoMs + windowMs - clock.monoMs()
      if (remainingMs > 0) {
        await pause(clock, Math.min(remainingMs, OBJECTIONS_EVERY_MS))
        await this.#pollAll()
        continue
      }
      const founded = await foundCluster(this.#proposed(proposal), this.#nodes.cluster(), random)
      // Whichever sidecar founded it: see the result.
      await this.#pollAll()
      if (founded) {
        options.events.publish({ kind: 'cluster_founded', nodes: members.map(({ node }) => node.name) })
        return
      }
      await pause(clock, jitteredDelayMs(FOUNDING_BACKOFF, attempt, random))
      attempt += 1
    }
  }

  #proposed({ nonces }: Proposal) {
    return this.#nodes.members.flatMap((member, index) =>
      member.state.kind === 'quarantined'
        ? [{ node: this.#nodes.rejoiningNode(member, member.state.facts), nonce: nonces[index] ?? '' }]
        : [],
    )
  }

  async #pollAll(): Promise<void> {
    await Promise.all(this.#nodes.members.map((member) => this.#nodes.inspect(member)))
  }

  /** Continues a node's quarantine, unless this process is at it already. Returns at once. */
  pursue(member: Member): void {
    if (this.#nodes.options.watchOnly || this.#pursuing.has(member)) return
    this.#pursuing.add(member)
    void this.#pursue(member)
      // A node or a source went away: the next inspection resumes from the progress on the node.
      .catch((cause: unknown) => this.#stumbled(member, cause))
      .finally(() => this.#pursuing.delete(member))
  }

  async #pursue(member: Member): Promise<void> {
    const { options } = this.#nodes
    let reportedMonoMs = Number.NEGATIVE_INFINITY
    // Also called from inside an inspection, which must end first.
    await pause(options.clock, 0)
    while (!this.#nodes.closed && member.state.kind === 'quarantined') {
      const { facts } = member.state
      if (!isQuarantined(facts)) return
      if (facts.quarantine.origin === 'new') {
        await this.foundIfNew()
        if ((member.state as { kind: string }).kind !== 'quarantined') return
      }
      this.#reportLoss(member, facts)
      const turn = await this.#turn(member, facts)
      this.#report(member, turn, reportedMonoMs)
      switch (turn.kind) {
        case 'wait':
          // The watch polls every second; wake it in time for the rest of the last one.
          if (turn.remainingMs > (options.inspectEveryMs ?? OCCUPY_MS)) return
          await pause(options.clock, turn.remainingMs)
          break
        case 'blocked':
        case 'busy':
          return
        case 'copied':
        case 'progress':
          if (options.clock.monoMs() - reportedMonoMs > PROGRESS_EVERY_MS)
            reportedMonoMs = options.clock.monoMs()
          break
        case 'wait_anew':
        case 'gone':
        case 'joined':
          break
      }
      await this.#nodes.inspect(member)
    }
  }

  async #turn(member: Member, facts: NodeFacts): Promise<AnyTurn> {
    const { options, members } = this.#nodes
    if (!isQuarantined(facts)) return { kind: 'gone' }
    const { quarantine, nodeMs } = facts
    const target = this.#nodes.rejoiningNode(member, facts)
    const first = this.#sawFirst(member, quarantine.nonce, nodeMs)
    const peers = members.flatMap((other): Peer[] => {
      if (other === member || !('facts' in other.state)) return []
      const { state } = other
      const node = this.#nodes.rejoiningNode(other, state.facts)
      return [{ node, runId: state.facts.runId, voting: state.kind === 'voting' }]
    })
    const known = this.#nodes.cluster()
    // What a single node says counts for itself.
    const itsMs = facts.cluster?.quarantineMs ?? 0
    const quarantineMs = Math.max(known.quarantineMs, itsMs <= LONGEST_QUARANTINE_MS ? itsMs : 0)
    const cluster = { ...known, quarantineMs }
    const view = {
      quarantine,
      nodeMs,
      firstSeenNodeMs: first.nodeMs,
      observedForMs: options.clock.monoMs() - first.monoMs,
      quarantineMs,
      toleratedStepMs: options.clockStepMs,
      required: majorityOf(members.length),
    }
    const occupy = () => target.occupy(this.#who, OCCUPY_MS)
    const other = this.#continuity.duplicateOf(member)
    const waitedMs = nodeMs - quarantine.sinceNodeMs
    if (other !== undefined && hasOutlived(other, waitedMs)) {
      this.#continuity.outlived(member)
      this.#reportedDuplicates.delete(member)
    } else if (other !== undefined) {
      if (!this.#reportedDuplicates.has(member)) this.#stumbled(member, new Error(DOUBTS.duplicate_server))
      this.#reportedDuplicates.add(member)
      // The rest of its quarantine must not be over before the last lease that the other server granted.
      if (other.lives && waitedMs < Math.min(RESTART_EVERY_MS, view.quarantineMs))
        return { kind: 'wait', remainingMs: view.quarantineMs }
      if (!(await occupy())) return { kind: 'busy' }
      await target.restart(quarantine.nonce, options.random.hex(16), { duplicateServer: other.lives })
      return { kind: 'wait_anew' }
    }
    const goOn = this.#pace(() => member.state.kind === 'quarantined' && !this.#nodes.closed)
    const { random, events } = options
    const ports = { target, occupy, events, goOn }
    const continued = await this.#continuity
      .turn(member, facts, view.observedForMs, cluster, ports)
      .catch((cause: unknown) => this.#stumbled(member, cause))
    const { kind } = nextRejoinStep({ ...view, ...runIdsOf(peers) })
    // A node whose quarantine is over need not wait for what its data would allow.
    const over = kind === 'copy' || kind === 'finish'
    if (continued !== undefined && !(over && continued.kind === 'wait')) return continued
    // Every sidecar waits by itself; only one at a time works.
    if ((over || kind === 'wait_anew') && !(await occupy())) return { kind: 'busy' }
    const itsCluster = { ...known, id: known.id === '' ? options.random.hex(8) : known.id }
    const merged = this.#mergedKeys(member, quarantine.nonce)
    return takeRejoinTurn(target, peers, view, itsCluster, { random, events, goOn, merged })
  }

  /** Lets a turn copy at the bounded rate until its time is over. */
  #pace(wanted: () => boolean): (keys: number) => Promise<boolean> {
    const { clock } = this.#nodes.options
    const startedMonoMs = clock.monoMs()
    return async (keys) => {
      const dueMonoMs = Math.max(this.#paidUntilMonoMs, clock.monoMs())
      this.#paidUntilMonoMs = dueMonoMs + (keys * 1_000) / COPY_KEYS_PER_SECOND
      if (dueMonoMs > clock.monoMs()) await pause(clock, dueMonoMs - clock.monoMs())
      return wanted() && clock.monoMs() - startedMonoMs < TURN_MS
    }
  }

  #mergedKeys(member: Member, nonce: string): MergedKeys {
    const known = this.#merged.get(member)
    if (known?.nonce === nonce) return known.keys
    const keys = mergedKeys()
    this.#merged.set(member, { nonce, keys })
    return keys
  }

  #sawFirst(member: Member, nonce: string, nodeMs: number): FirstSeen {
    const known = this.#firstSeen.get(member)
    if (known?.nonce === nonce) return known
    const first = { nonce, nodeMs, monoMs: this.#nodes.options.clock.monoMs() }
    this.#firstSeen.set(member, first)
    return first
  }

  #report(member: Member, turn: AnyTurn, reportedMonoMs: number): void {
    const { events, clock } = this.#nodes.options
    const node = member.node.name
    if (turn.kind !== 'blocked') this.#blocked.delete(member)
    switch (turn.kind) {
      case 'blocked':
        if (this.#blocked.has(member)) return
        this.#blocked.add(member)
        events.publish({ kind: 'rejoin_blocked', node, voting: turn.voting, required: turn.required })
        return
      case 'copied':
      case 'progress': {
        if (clock.monoMs() - reportedMonoMs <= PROGRESS_EVERY_MS) return
        const { done, copied } = turn.progress
        events.publish({ kind: 'rejoin_progress', node, sourcesDone: done.length, copied })
        return
      }
      case 'joined':
        this.#merged.delete(member)
        events.publish({
          kind: 'node_joined',
          node,
          copied: 'copied' in turn ? (turn.copied ?? 0) : copiedSoFar(member),
        })
        return
      case 'wait':
      case 'wait_anew':
      case 'gone':
      case 'busy':
        return
    }
  }

  /** Each sidecar that meets the node while it waits reports it once; one that sees it only when it votes again does not. */
  #reportLoss(member: Member, { quarantine }: NodeFacts): void {
    if (quarantine?.declaredBy === undefined || this.#reportedLosses.has(quarantine.nonce)) return
    this.#reportedLosses.add(quarantine.nonce)
    const { events } = this.#nodes.options
    events.publish({ kind: 'loss_declared', node: member.node.name, by: quarantine.declaredBy })
  }

  #stumbled(member: Member, cause: unknown): void {
    if (this.#nodes.closed) return
    const reason = errorText(cause)
    this.#nodes.options.events.publish({ kind: 'rejoin_step_failed', node: member.node.name, reason })
  }
}

function copiedSoFar({ state }: Member): number {
  return 'facts' in state ? (state.facts.quarantine?.progress.copied ?? 0) : 0
}

/*
 * One step at a time, over any kind of node. Several sidecars may do and repeat every act at once: copying only raises, and what must
 * happen once is conditional on the nonce on the node. An act that fails rejects; its driver polls the nodes again and goes on.
 */

export type Turn =
  | Exclude<RejoinStep, { kind: 'copy' | 'finish' }>
  | { readonly kind: 'copied'; readonly progress: CopyProgress }
  | { readonly kind: 'joined' }
  /** The node forgot again meanwhile. */
  | { readonly kind: 'gone' }

export type RejoinPorts = CopyPorts & { readonly random: Random }

/**
 * One step for one node in quarantine.
 *
 * @param peers all other nodes that answer
 */
export async function takeRejoinTurn(
  target: RejoiningNode,
  peers: readonly Peer[],
  view: Omit<RejoinView, 'voting' | 'others'>,
  cluster: Cluster,
  ports: RejoinPorts,
): Promise<Turn> {
  const { quarantine } = view
  const step = nextRejoinStep({ ...view, ...runIdsOf(peers) })
  switch (step.kind) {
    case 'wait':
    case 'blocked':
      return step
    case 'wait_anew':
      await target.restart(quarantine.nonce, ports.random.hex(16))
      return step
    case 'finish':
      return { kind: (await target.join(quarantine.nonce, cluster)) ? 'joined' : 'gone' }
    case 'copy': {
      const progress = await copyPages(target, peers, view, step, ports)
      return (await target.save(quarantine.nonce, progress)) ? { kind: 'copied', progress } : { kind: 'gone' }
    }
  }
}

/** The other nodes as the rules name them. */
export function runIdsOf(peers: readonly Peer[]): Pick<RejoinView, 'voting' | 'others'> {
  const of = (voting: boolean) => peers.filter((peer) => peer.voting === voting).map(({ runId }) => runId)
  return { voting: of(true), others: of(false) }
}

/**
 * Lets all nodes of a brand-new cluster join at once, where all of them answer and can be claimed: each with the nonce
 * that was proposed on it and has stood for the founding window. A founder that dies between its first incarnation and its
 * last leaves a cluster that only a declared loss can restart.
 */
export async function foundCluster(
  proposed: readonly { readonly node: RejoiningNode; readonly nonce: string }[],
  of: Omit<Cluster, 'id'>,
  random: Random,
): Promise<boolean> {
  const nonce = random.hex(16)
  const nodes = proposed.map(({ node }) => node)
  const claims = await Promise.allSettled(proposed.map((one) => one.node.claimFounding(nonce, one.nonce)))
  if (!claims.every((claim) => claim.status === 'fulfilled' && claim.value)) {
    await Promise.allSettled(nodes.map((node) => node.abandonFounding(nonce)))
    return false
  }
  const cluster: Cluster = { ...of, id: random.hex(8) }
  const founded = await Promise.allSettled(nodes.map((node) => node.found(nonce, cluster)))
  return founded.every((one) => one.status === 'fulfilled' && one.value)
}
