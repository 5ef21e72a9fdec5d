/**
 * One history: nodes, processes, an application, and a plan that is executed on them.
 *
 * Owns the order: the plan's operations and faults, then healing, then probes that must succeed. And the bound on lost
 * memory (assumption A1): the world skips a loss that would leave fewer than a majority of nodes that remember, unless
 * the plan is to overwhelm the cluster.
 */

import { memberList } from '../../src/core/nodes/fitness.ts'
import { type Cluster, incarnationFor, isQuarantined } from '../../src/core/nodes/rejoin-rules.ts'
import { majorityOf } from '../../src/core/units.ts'
import { type ActorPorts, perform } from './actors.ts'
import { Application } from './application.ts'
import { checkRemembered } from './checks.ts'
import { streamOf } from './dice.ts'
import { History, heldUntilMs } from './history.ts'
import { SimulatedNode } from './node.ts'
import {
  type Fault,
  HEAL_MS,
  LEASE_MS,
  LONGEST_LEASE_MS,
  type Operation,
  type Plan,
  RETENTION_MS,
} from './plan.ts'
import { SimulatedProcess } from './process.ts'
import { CLUSTER, membershipOf } from './rejoining-node.ts'
import { Scheduler } from './scheduler.ts'
import { type Sidecar, startSidecar } from './sidecar.ts'
import { campaignToSweep, checkOrphansTold } from './sweeping.ts'
import { Votes } from './votes.ts'

/** When every request has ended, and every node votes again. */
const IDLE_MS = HEAL_MS + 8_000
/** When no lease is held: the leader has finished its round of sweeping and resigned. */
const LEFT_MS = IDLE_MS + 4_000
/** Corrected clocks have jumped: their nodes have rejoined. */
const PROBE_MS = LEFT_MS + 5_000
/** Every node was polled once more after everything healed. */
const SETTLED_MS = HEAL_MS + 2_500
/** The part of a lease's margin that drift and the granularity of expiry leave. */
const STEP_TOLERATED_MS = 3
/**
 * A clock that was set back jumps ahead when it is corrected at the end. It must not jump past the lifetime of its
 * node's records: that is a loss of memory, against which only watched plans have the defence of production.
 */
const SET_BACK_MS_MAX = 31_500
/** Within this time a process that knows better has objected: a founding window, less the time of a poll. */
const OBJECTED_WITHIN_MS = 2_900
const END_MS = PROBE_MS + 14_000

export class World {
  readonly plan: Plan
  readonly scheduler = new Scheduler()
  readonly history = new History()
  readonly nodes: readonly SimulatedNode[]
  /** More memory was lost than the promises allow for. */
  overwhelmed = false
  /** More nodes may have forgotten at once than the others can restore: the cluster may stay closed, no worse. */
  tooManyDrained = false
  readonly #drained = new Set<number>()
  readonly #votes: Votes
  readonly #actors: ActorPorts
  readonly #sidecars: Sidecar[]
  /** Nodes whose clock was set beyond the tolerance, and by how much in all; never a majority. */
  readonly #stepped = new Map<number, number>()
  /** Nodes whose clock jumped ahead, with the incarnation under which they have forgotten since. */
  readonly #jumped = new Map<number, string | undefined>()
  readonly #candidates: (() => void)[] = []
  #started = 0
  #healed = false
  /** Only processes remember what was promised. */
  #wiped = false

  constructor(plan: Plan) {
    this.plan = plan
    const { scheduler, history } = this
    this.#votes = new Votes(history, plan.nodeCount, () => scheduler.nowMs)
    this.nodes = plan.nodes.map(({ ratePpm, wallOffsetMs }, index) => {
      const clock = { ratePpm, wallOffsetMs: wallOffsetMs + this.#aheadMs(index) }
      return new SimulatedNode(index, scheduler, clock, this.#votes.executed)
    })
    for (const node of this.nodes) {
      node.raise({ ...CLUSTER, members: memberList(this.#groupOf(node).map(({ name }) => name)) })
      if (plan.cluster === 'new') node.flush()
    }
    const application = new Application(scheduler, history, streamOf(plan.seed, 'application'))
    const sidecarOf = (slot: number) => this.#sidecars[slot % plan.processes.length]
    const retentionMs = plan.retentionMs ?? RETENTION_MS
    const [votes, network] = [this.#votes, plan.network]
    this.#actors = {
      ...{ seed: plan.seed, scheduler, history, application, sidecarOf, retentionMs },
      ...{ votes, network },
    }
    for (const node of this.nodes) node.durable = plan.drains?.durable[node.index] === true
    this.#sidecars = plan.processes.map((_, slot) => this.#start(slot))
  }

  /** Executes the plan, heals, probes. Then every operation of a living process has settled, or is reported. */
  async run(): Promise<void> {
    const { plan, scheduler } = this
    for (const [index, operation] of plan.operations.entries()) {
      scheduler.at(operation.atMs, () => this.#perform(operation, index))
    }
    for (const fault of plan.faults) scheduler.at(fault.atMs, () => this.#inflict(fault))
    await scheduler.run(HEAL_MS)
    this.#heal()
    await scheduler.run(IDLE_MS)
    if (plan.sweep !== 'no') {
      for (const stop of this.#candidates) stop()
      checkOrphansTold(this.nodes, this.history, scheduler.nowMs)
    }
    await scheduler.run(LEFT_MS)
    this.#expectNoHolder()
    this.#correctClocks()
    const revivedMs = this.#revivedLeasesMs()
    await scheduler.run(PROBE_MS + revivedMs)
    this.#probe()
    await scheduler.run(END_MS + revivedMs)
  }

  /** Time services correct rates that differ for this long, and undo steps: in a healthy cluster clocks stay together. */
  #correctClocks(): void {
    for (const { process } of this.#sidecars) process.correctDrift()
    for (const node of this.nodes) node.setClockRight(this.#aheadMs(node.index))
  }

  /**
   * A lease that was over by a clock that ran ahead is not over by the corrected one. Where that happens to a majority
   * at once, the key of a dead holder is blocked until the lease is over again: for as long as the clocks had been
   * wrong. On fewer nodes it blocks a key only together with copies on nodes that rejoin meanwhile, because their
   * clocks were corrected, too; no copy lasts longer than the longest lease.
   */
  #revivedLeasesMs(): number {
    const groups = [...Map.groupBy(this.nodes, (node) => this.#groupOf(node)[0]).values()]
    const setBack = groups.map((group) => group.filter(({ index }) => this.isStepped(index)))
    return Math.max(
      0,
      ...setBack.map((nodes) => {
        const revivedMs = Math.max(0, ...nodes.map((node) => node.longestLeaseMs()))
        return nodes.length >= majorityOf(this.plan.nodeCount)
          ? revivedMs
          : Math.min(revivedMs, LONGEST_LEASE_MS)
      }),
    )
  }

  /** To correct a node's clock is to step it: under a lease that would be a fault of the world itself. */
  #expectNoHolder(): void {
    const { nowMs } = this.scheduler
    const held = this.history.grants.find((grant) => heldUntilMs(grant) > nowMs)
    if (held !== undefined)
      throw new Error(`clocks are set right while ${held.process} holds ${held.lease.key}`)
  }

  #start(slot: number): Sidecar {
    const { ratePpm, wallOffsetMs } = this.plan.processes[slot] ?? { ratePpm: 0, wallOffsetMs: 0 }
    this.#started += 1
    const process = new SimulatedProcess(
      `sidecar-${slot}.${this.#started}`,
      this.scheduler,
      ratePpm,
      wallOffsetMs,
    )
    const { plan, nodes, scheduler, history } = this
    process.answersFirst = plan.answersFirst === true
    history.stops.set(process.name, process.stops)
    const sidecar = startSidecar(process, this.#started, {
      plan,
      nodes,
      scheduler,
      history,
      votes: this.#votes,
      healed: () => this.#healed,
      // Who no longer polls knows no clock well enough to take an expired lease over.
      settled: () => !plan.watched && scheduler.nowMs >= SETTLED_MS,
      onFounded: (_, cluster) => this.#founded(cluster),
      onJoined: ({ index }) => {
        if (this.#jumped.has(index) && this.#jumped.get(index) !== undefined) history.saw('joined_after_leap')
      },
    })
    if (this.#healed) for (const link of sidecar.links) link.heal()
    if (plan.sweep !== 'no') this.#campaign(sidecar)
    return sidecar
  }

  #campaign(sidecar: Sidecar): void {
    const { plan, nodes, scheduler, history } = this
    const { application } = this.#actors
    const healed = () => this.#healed
    const ports = { plan, nodes, scheduler, history, application, healed }
    this.#candidates.push(campaignToSweep(sidecar, this.#started, ports))
  }

  #perform(operation: Operation, index: number, healed = false): void {
    const sidecar = this.#sidecars[operation.process]
    if (sidecar === undefined) return
    sidecar.process.deliver(() => {
      perform(operation, index, sidecar, healed, this.#actors).catch((cause: unknown) => {
        const detail = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
        this.history.violated('rejected', this.scheduler.nowMs, detail)
      })
    })
  }

  #inflict(fault: Fault): void {
    const { history, scheduler } = this
    history.step(scheduler.nowMs, 6, () => `fault: ${JSON.stringify(fault)}`)
    switch (fault.kind) {
      case 'node_pause':
        this.#node(fault.node).stopFor(fault.ms)
        return
      case 'node_crash':
        this.#crashNode(fault)
        return
      case 'node_drain':
        this.#drain(fault)
        return
      case 'node_flush': {
        const node = this.#node(fault.node)
        if (!node.up || !this.#mayForget(node)) return
        node.flush()
        history.saw('node_flushed')
        this.#isNoticed(node)
        return
      }
      case 'node_rewind': {
        const node = this.#node(fault.node)
        if (!node.up || !isQuarantined(membershipOf(node))) return
        node.rewindTo(scheduler.nowMs - fault.ms)
        history.saw('rewound_while_it_waits')
        return
      }
      case 'node_evict': {
        const node = this.#node(fault.node)
        if (!node.up || !isQuarantined(membershipOf(node))) return
        const dice = streamOf(this.plan.seed, 'evictions', Math.floor(fault.atMs * 1_000))
        if (node.evict(() => dice.chance(fault.chance)) > 0) history.saw('evicted_while_it_waits')
        return
      }
      case 'node_step': {
        if (Math.abs(fault.ms) > STEP_TOLERATED_MS) {
          if (!this.#othersAreWell(this.#node(fault.node))) return
          const steppedMs = (this.#stepped.get(fault.node) ?? 0) + fault.ms
          if (steppedMs < -SET_BACK_MS_MAX) return
          this.#stepped.set(fault.node, steppedMs)
        }
        this.#node(fault.node).stepClock(fault.ms)
        return
      }
      case 'node_leap': {
        const node = this.#node(fault.node)
        if (!node.voting || !this.#othersAreWell(node)) return
        this.#jumped.set(fault.node, node.incarnation)
        node.stepClock(fault.ms)
        history.saw('node_leapt')
        return
      }
      case 'process_pause': {
        const { process } = this.#sidecar(fault.process)
        if (fault.ms > LEASE_MS && this.#holds(process)) history.saw('process_paused_beyond_lease')
        process.stopFor(fault.ms)
        return
      }
      case 'process_crash': {
        const { process } = this.#sidecar(fault.process)
        if (this.#holds(process)) history.saw('process_crashed_holding')
        process.kill()
        this.#sidecars[fault.process] = this.#start(fault.process)
        return
      }
      case 'process_step':
        this.#sidecar(fault.process).process.stepWall(fault.ms)
        return
      case 'partition':
        this.#sidecar(fault.process).links[fault.node]?.cut(fault.way, scheduler.nowMs + fault.ms)
        return
      case 'node_full':
        this.#node(fault.node).fill(fault.refuses, scheduler.nowMs + fault.ms)
        return
      case 'all_wiped':
        this.#wiped = true
        for (const node of this.nodes) {
          if (!node.up) continue
          node.crash()
          scheduler.after(fault.ms, () => node.restart(0))
        }
        return
      case 'delay':
        this.#sidecar(fault.process).links[fault.node]?.delay(scheduler.nowMs + fault.ms)
        return
      case 'rejoin_crash':
        this.#crashRejoin()
    }
  }

  /** The process that works on a node's rejoin, if any does. */
  #crashRejoin(): void {
    const workers = this.nodes.map((node) => (node.voting ? undefined : node.occupiedBy))
    const slot = this.#sidecars.findIndex(({ process }) => workers.includes(process.name))
    if (slot < 0) return
    this.#sidecar(slot).process.kill()
    this.#sidecars[slot] = this.#start(slot)
    this.history.saw('rejoin_crashed')
  }

  /** A request of one process finds out at once that the node has forgotten. */
  #isNoticed({ index }: SimulatedNode): void {
    const { process, forgot } = this.#sidecar(index % this.#sidecars.length)
    process.deliver(() => forgot(index))
  }

  #crashNode(fault: Extract<Fault, { kind: 'node_crash' }>): void {
    const node = this.#node(fault.node)
    if (!node.up || !this.#mayForget(node)) return
    node.crash()
    const { memory } = fault
    this.scheduler.after(fault.ms, () => {
      node.restart(memory)
      this.history.saw(
        memory === 0 ? 'node_wiped' : memory === 1 ? 'node_restarted_whole' : 'node_forgot_a_part',
      )
    })
  }

  /** At most as many nodes lose data at once as the others can restore; any number restart without a loss. */
  #drain({ node: index, ms, losesMs, setBack, stepMs }: Extract<Fault, { kind: 'node_drain' }>): void {
    const { plan, history, scheduler } = this
    const node = this.#node(index)
    if (!node.up) return
    const others = [...this.#drained].filter((other) => other !== index && !this.#hasItsRecords(other))
    const tooMany = losesMs > 0 && others.length >= plan.nodeCount - majorityOf(plan.nodeCount)
    if (tooMany && !plan.overwhelm) return
    if (tooMany) history.saw('too_many_drained')
    this.tooManyDrained ||= tooMany
    if (losesMs > 0) this.#drained.add(index)
    if (ms === 0) {
      node.flush()
      history.saw('drained_flushed')
      this.#isNoticed(node)
      return
    }
    const keptUntilMs = scheduler.nowMs - losesMs
    node.crash()
    scheduler.after(ms, () => {
      node.stepClock(stepMs)
      node.restartAsOf(losesMs === 0 ? scheduler.nowMs : keptUntilMs)
      history.saw(
        losesMs === Number.POSITIVE_INFINITY ? 'drained_empty' : setBack ? 'drained_set_back' : 'drained',
      )
    })
  }

  /** It runs, and has its records back. */
  #hasItsRecords(index: number): boolean {
    const node = this.#node(index)
    return node.up && node.voting
  }

  /** Assumption A1: a majority of nodes always remembers, and votes. */
  #mayForget(node: SimulatedNode): boolean {
    if (this.#othersAreWell(node)) return true
    if (!this.plan.overwhelm) {
      this.history.saw('loss_refused')
      return false
    }
    this.overwhelmed = true
    this.history.saw('overwhelmed')
    return true
  }

  /** A majority besides this node is up, votes, and has a right clock. */
  #othersAreWell(node: SimulatedNode): boolean {
    const well = this.#groupOf(node).filter(
      (other) =>
        other !== node &&
        other.up &&
        other.voting &&
        !this.#stepped.has(other.index) &&
        !this.#hasForgotten(other),
    )
    return well.length >= majorityOf(this.plan.nodeCount)
  }

  #aheadMs(node: number): number {
    return node < this.plan.nodeCount ? 0 : (this.plan.groupsAheadMs ?? 0)
  }

  /** The nodes of its quorum group. */
  #groupOf({ index }: SimulatedNode): readonly SimulatedNode[] {
    const { nodeCount } = this.plan
    const from = index - (index % nodeCount)
    return this.nodes.slice(from, from + nodeCount)
  }

  /** Its clock jumped, and it still has its vote. */
  #hasForgotten({ index, incarnation }: SimulatedNode): boolean {
    return this.#jumped.has(index) && this.#jumped.get(index) === incarnation
  }

  #heal(): void {
    this.#healed = true
    const { history, scheduler } = this
    history.step(scheduler.nowMs, 7, () => 'everything heals')
    for (const node of this.nodes) {
      node.resume()
      if (!node.up) node.restart(1)
    }
    for (const sidecar of this.#sidecars) {
      sidecar.process.resume()
      for (const link of sidecar.links) link.heal()
    }
    if (this.plan.cluster !== undefined) this.#lookAfterTheCluster()
    if (this.overwhelmed && this.nodes.filter((node) => node.voting).length < majorityOf(this.nodes.length)) {
      // The operator declares the loss: the remaining records count as complete.
      history.saw('loss_declared')
      for (const node of this.nodes) {
        node.raise(CLUSTER)
        node.setIncarnation(incarnationFor(String(node.runId), 'declared', Math.floor(node.nodeMs)))
      }
    }
  }

  /** F1: no cluster is founded in place of one that a running process with a connection to the nodes knows. */
  #founded({ id }: Cluster): void {
    const { history, scheduler, plan } = this
    history.saw('cluster_founded')
    const fromMs = scheduler.nowMs - OBJECTED_WITHIN_MS
    for (const { process, knownCluster } of this.#sidecars) {
      const known = knownCluster()
      if (known === undefined || known === id || !process.alive) continue
      const stood = process.stops.some(({ untilMs }) => untilMs > fromMs)
      const cut = plan.faults.some(
        (fault) =>
          fault.kind === 'partition' &&
          fault.atMs + fault.ms > fromMs &&
          process.name.startsWith(`sidecar-${fault.process}.`),
      )
      if (!stood && !cut)
        history.violated(
          'F1',
          scheduler.nowMs,
          `${id} is founded beside ${process.name}, which knows ${known}`,
        )
    }
    // No process that knew better could object: what the nodes forgot is lost.
    if (this.#wiped) this.overwhelmed = true
  }

  /** The operator of a cluster that does not come back declares the loss, and restarts processes of another cluster. */
  #lookAfterTheCluster(): void {
    if (this.nodes.filter((node) => node.voting).length < majorityOf(this.nodes.length)) {
      if (!this.overwhelmed) checkRemembered(this.history)
      this.overwhelmed = true
    }
    for (const [slot, sidecar] of this.#sidecars.entries()) {
      const known = sidecar.knownCluster()
      const stands = this.nodes.find((node) => node.voting)?.cluster?.id ?? CLUSTER.id
      if (known === undefined || known === stands) continue
      sidecar.process.kill()
      this.#sidecars[slot] = this.#start(slot)
    }
  }

  /** Every process sends every content of every key again: no key may be stuck. */
  #probe(): void {
    const { plan } = this
    const asked = new Map<string, Probed>()
    for (const operation of plan.operations) {
      if (operation.kind === 'read' || operation.kind === 'decision') continue
      const { content } = operation
      const takeover = operation.kind === 'request' ? operation.takeover : 'reexecute'
      const keys = operation.kind === 'session' ? operation.keys : [operation.key]
      for (const key of keys) asked.set(`${key} ${content}`, { key, content, takeover })
    }
    let index = plan.operations.length
    let delayMs = 0
    for (const probed of asked.values()) {
      for (let process = 0; process < this.#sidecars.length; process += 1) {
        const probe = probeOf(probed, process)
        const number = index
        this.scheduler.after(delayMs, () => this.#perform(probe, number, true))
        index += 1
        delayMs += 700
      }
    }
  }

  #holds(process: SimulatedProcess): boolean {
    const { nowMs } = this.scheduler
    return this.history.grants.some(
      (grant) => grant.process === process.name && grant.validUntilMs > nowMs && grant.ended === undefined,
    )
  }

  #node(index: number): SimulatedNode {
    const node = this.nodes[index]
    if (node === undefined) throw new RangeError(`no node ${index}`)
    return node
  }

  #sidecar(index: number): Sidecar {
    const sidecar = this.#sidecars[index]
    if (sidecar === undefined) throw new RangeError(`no process ${index}`)
    return sidecar
  }

  isStepped(node: number): boolean {
    return this.#stepped.has(node) || this.#jumped.has(node)
  }

  alive(processName: string): boolean {
    return this.#sidecars.some(({ process }) => process.name === processName && process.alive)
  }
}

type Probed = Pick<Extract<Operation, { kind: 'request' }>, 'key' | 'content' | 'takeover'>

function probeOf(probed: Probed, process: number): Operation {
  return {
    kind: 'request',
    atMs: PROBE_MS,
    process,
    ...probed,
    leaseMs: LONGEST_LEASE_MS,
    waitMs: 0,
    onQuorumLoss: 'fail-closed',
    work: { ends: 'answers', ms: 1 },
  }
}
