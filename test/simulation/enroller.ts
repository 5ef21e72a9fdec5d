/**
 * The process on enrolment duty brings nodes that forgot back to voting, over a network that loses messages.
 *
 * Owns the port `EnrolmentNode` over simulated nodes, and the loop that production has in `core/nodes/enroller.ts`. The
 * steps and their order are production code.
 */

import { SILENT } from '../../src/core/events.ts'
import { CatchUpCounter } from '../../src/core/nodes/catch-up.ts'
import { takeEnrolmentTurn } from '../../src/core/nodes/enrolment.ts'
import type { Adoption, EnrolmentNode, Peer } from '../../src/core/nodes/enrolment-node.ts'
import {
  type Cluster,
  type CopyProgress,
  epochFor,
  FIRST_CURSOR,
  hasEvictedSince,
  isEnrolled,
  isQuarantined,
  type Membership,
  mayBeTold,
  NOTHING_COPIED,
  type Origin,
  quarantineMsFor,
} from '../../src/core/nodes/enrolment-rules.ts'
import type { WatchedNodes } from '../../src/core/nodes/node-clocks.ts'
import type { RecordSnapshot } from '../../src/core/record/record-merge.ts'
import { adoptRecord } from '../../src/core/record/record-merge.ts'
import { SHOWN_BYTES } from '../../src/core/record/stored-outcome.ts'
import { pause } from '../../src/core/retry.ts'
import { majorityOf } from '../../src/core/units.ts'
import type { Dice } from './dice.ts'
import type { History } from './history.ts'
import type { Keeper } from './keeper.ts'
import type { SimulatedNode } from './node.ts'
import { LONGEST_LEASE_MS, type Plan } from './plan.ts'
import type { SimulatedProcess } from './process.ts'
import type { Scheduler } from './scheduler.ts'

/** How far a node's clock may be stepped before its memory is no longer trusted. */
export const CLOCK_STEP_MS = 50
export const CLUSTER: Cluster = {
  id: 'simulated',
  quarantineMs: quarantineMsFor(LONGEST_LEASE_MS, CLOCK_STEP_MS),
}

const RETRY_MS = 250

/** How long a founder's claim on a node stands. */
const FOUNDER_MS = 1_000
const CALL_DEADLINE_MS = 100

export type EnrollerPorts = {
  readonly process: SimulatedProcess
  readonly nodes: readonly SimulatedNode[]
  readonly scheduler: Scheduler
  readonly history: History
  readonly network: Plan['network']
  readonly healed: () => boolean
  readonly dice: Dice
  /** Gets the clock sample of an answer; returns whether the node's votes count for this process. */
  readonly counts: WatchedNodes['saw']
  /** Knows the continuity of the nodes; absent: every restarted node has forgotten. */
  readonly keeper?: Keeper | undefined
  /** What is known of the calls that told the node records; absent: nothing. */
  readonly told?: CatchUpCounter
  /** It is about to get the first epoch of a new cluster. */
  readonly onFounded?: (node: SimulatedNode, cluster: Cluster) => void
}

/** What a look shows. */
export type Shown = Membership & { readonly evictedKeys: number }

/** As production has it: a source that was merged under a nonce is not read again. */
type FirstSeen = {
  readonly nonce: string
  readonly nodeMs: number
  readonly monoMs: number
  readonly merged: Set<string>
}

/** Runs until the node votes. One at a time for each node and process. */
export async function enrol(node: SimulatedNode, given: EnrollerPorts): Promise<void> {
  const told = new CatchUpCounter()
  const ports = { ...given, told }
  let firstSeen: FirstSeen | undefined
  for (;;) {
    try {
      const shown = told.asked()
      const members =
        (await ports.keeper?.look()) ?? (await Promise.all(ports.nodes.map((one) => look(one, ports))))
      const member = members[ports.nodes.indexOf(node)]
      shown(member?.quarantine)
      if (member !== undefined && isEnrolled(member)) return
      if (member !== undefined) {
        firstSeen = await takeTurn(node, member, members, firstSeen, ports)
        continue
      }
    } catch {
      // A call was lost or the node forgot again: start over, as production does.
    }
    await pause(ports.process.clock, RETRY_MS)
  }
}

async function takeTurn(
  node: SimulatedNode,
  member: Shown,
  members: readonly (Shown | undefined)[],
  known: FirstSeen | undefined,
  ports: EnrollerPorts & { readonly told: CatchUpCounter },
): Promise<FirstSeen | undefined> {
  const { dice, history, nodes, process } = ports
  const target = new SimulatedEnrolmentNode(node, member, ports)
  if (!isQuarantined(member)) {
    await target.begin(dice.hex(8), 'forgot')
    return undefined
  }
  const { quarantine, nodeMs } = member
  const { evictedKeys: evictedBefore = member.evictedKeys } = quarantine
  // As in `catch-up.ts`.
  if (ports.told.isLacking(quarantine.nonce) || hasEvictedSince(evictedBefore, member.evictedKeys)) {
    await target.restart(quarantine.nonce, dice.hex(8))
    history.saw('told_once_more')
    return undefined
  }
  const monoMs = process.clock.monoMs()
  const first =
    known?.nonce === quarantine.nonce
      ? known
      : { nonce: quarantine.nonce, nodeMs, monoMs, merged: new Set<string>() }
  if (await continues(node, target, monoMs - first.monoMs, ports)) return first
  const peers = members.flatMap((other, index): Peer[] => {
    const its = nodes[index]
    if (other === undefined || its === undefined || its === node) return []
    const enrolmentNode = new SimulatedEnrolmentNode(its, other, ports)
    return [{ node: enrolmentNode, runId: other.runId, voting: isEnrolled(other) }]
  })
  const view = {
    quarantine,
    nodeMs,
    firstSeenNodeMs: first.nodeMs,
    observedForMs: monoMs - first.monoMs,
    quarantineMs: CLUSTER.quarantineMs,
    toleratedStepMs: CLOCK_STEP_MS,
    required: majorityOf(nodes.length),
  }
  // As in production: a node that is enrolled gets the cluster of those that vote.
  const cluster = members.find((other) => other !== undefined && isEnrolled(other))?.cluster ?? CLUSTER
  const turn = await takeEnrolmentTurn(target, peers, view, cluster, {
    random: dice,
    events: SILENT,
    merged: first.merged,
  })
  switch (turn.kind) {
    case 'enrolled':
      history.saw('enrolled')
      break
    case 'gone':
      history.saw('enrolment_superseded')
      break
    case 'wait':
      await pause(process.clock, turn.remainingMs)
      break
    case 'blocked':
      await pause(process.clock, RETRY_MS)
      break
    case 'copied':
    case 'wait_anew':
  }
  return first
}

/** Takes the step that its data allow, if any. */
async function continues(
  node: SimulatedNode,
  target: EnrolmentNode,
  observedForMs: number,
  { keeper, history, process }: EnrollerPorts,
): Promise<boolean> {
  const turn = await keeper?.turn(target, node.index, observedForMs)
  switch (turn?.kind) {
    case 'enrolled':
      history.saw(turn.told === undefined ? 'continued' : 'told_by_all')
      return true
    case 'wait':
      await pause(process.clock, turn.remainingMs)
      return true
    case undefined:
      return false
    default:
      return true
  }
}

export function enrolmentNodeOf(
  node: SimulatedNode,
  member: Membership,
  ports: EnrollerPorts,
): EnrolmentNode {
  return new SimulatedEnrolmentNode(node, member, ports)
}

function look(node: SimulatedNode, ports: EnrollerPorts): Promise<Shown | undefined> {
  return call(node, node.runId, ports, () => membershipOf(node)).catch(() => undefined)
}

export function membershipOf(node: SimulatedNode): Shown {
  return {
    runId: runIdOf(node),
    nodeMs: Math.floor(node.nodeMs),
    epoch: node.epoch,
    quarantine: node.quarantine,
    cluster: node.cluster,
    evictedKeys: node.evictedKeys,
  }
}

function runIdOf(node: SimulatedNode): string {
  return String(node.runId)
}

export class SimulatedEnrolmentNode implements EnrolmentNode {
  readonly name: string
  readonly #node: SimulatedNode
  readonly #runId: number
  readonly #epoch: string | undefined
  readonly #ports: EnrollerPorts

  constructor(node: SimulatedNode, member: Membership, ports: EnrollerPorts) {
    this.name = node.name
    this.#node = node
    this.#runId = Number(member.runId)
    this.#epoch = member.epoch
    this.#ports = ports
  }

  async begin(nonce: string, origin: Origin): Promise<void> {
    await this.#call(() => {
      const { quarantine, voting } = this.#node
      if (voting) return
      const stays = quarantine?.runId === runIdOf(this.#node)
      if (origin === 'forgot' && quarantine?.origin === 'new') this.#ports.history.saw('founding_objected')
      if (stays && (origin === 'new' || quarantine.origin === 'forgot')) return
      this.#begin(nonce, origin)
    })
  }

  async restart(nonce: string, nextNonce: string): Promise<void> {
    await this.#call(() => {
      if (this.#isMeant(nonce)) this.#begin(nextNonce, 'forgot')
    })
  }

  save(nonce: string, progress: CopyProgress): Promise<boolean> {
    return this.#call(() => {
      const { quarantine } = this.#node
      if (quarantine === undefined || !this.#stands(nonce)) return false
      this.#node.setQuarantine({ ...quarantine, progress })
      return true
    })
  }

  enrol(nonce: string, cluster: Cluster): Promise<boolean> {
    const known = this.#ports.told?.known(nonce) ?? 0
    return this.#call(() => this.#hasAllThatItWasTold(nonce, known) && this.#voteFromNow(nonce, cluster))
  }

  #voteFromNow(nonce: string, cluster: Cluster): true {
    const { nodeMs, cluster: known } = this.#node
    this.#node.setEpoch(epochFor(runIdOf(this.#node), nonce, Math.floor(nodeMs)), known ?? cluster)
    return true
  }

  /** Names its cluster to a node that has forgotten it. */
  async raise(cluster: Cluster): Promise<void> {
    await this.#call(() => {
      this.#node.cluster ??= cluster
    })
  }

  keys(cursor: string): Promise<{ readonly keys: readonly string[]; readonly cursor: string }> {
    return this.#call(() => {
      const all = [...this.#node.keys].sort()
      const at = Number(cursor)
      return { keys: all.slice(at, at + 1), cursor: at + 1 < all.length ? String(at + 1) : FIRST_CURSOR }
    })
  }

  async inspect(keys: readonly string[], whole: boolean) {
    const { clock } = this.#ports.process
    const [sentMonoMs, sentWallMs] = [clock.monoMs(), clock.wallMs()]
    const { nodeMs, voting, snapshots } = await this.#call(() => ({
      nodeMs: Math.floor(this.#node.nodeMs),
      voting: this.#node.voting && this.#node.epoch === this.#epoch,
      snapshots: keys.map((key) => snapshotOf(this.#node, key, whole)),
    }))
    const sample = { nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    return { voting: this.#ports.counts(this.#node.index, sample, sentWallMs) && voting, nodeMs, snapshots }
  }

  async adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void> {
    const told = await this.#call(() => {
      if (!mayBeTold(membershipOf(this.#node), nonce)) {
        this.#ports.history.saw('adoption_refused')
        return undefined
      }
      const calls = (this.#node.quarantine?.told ?? 0) + 1
      for (const { key, merged } of adoptions) {
        const own = this.#node.kept(key)
        if (merged.record.state === 'completed') this.#ports.history.saw('enrolment_copied_outcome')
        if (merged.record.state === 'completed' && merged.record.copied === true)
          this.#ports.history.saw('enrolment_copied_sighting')
        const { record, ttlMs } = adoptRecord(own, merged, Math.floor(this.#node.nodeMs))
        this.#node.put(key, record, ttlMs, calls)
      }
      return adoptions.length > 0 ? calls : 0
    }, true)
    if (told === undefined) throw new Error('it waits under another nonce by now, or votes')
    if (told > 0) this.#ports.told?.learn(nonce, told)
  }

  claimFounding(nonce: string, proposed: string): Promise<boolean> {
    return this.#call(() => {
      const { founder, nodeMs, epoch, quarantine } = this.#node
      if (epoch !== undefined || !this.#stands(proposed) || quarantine?.origin !== 'new') return false
      if (founder !== undefined && founder.untilNodeMs > nodeMs) return false
      this.#node.founder = { nonce, untilNodeMs: nodeMs + FOUNDER_MS }
      return true
    })
  }

  found(nonce: string, cluster: Cluster): Promise<boolean> {
    return this.#call(() => {
      const { epoch, founder } = this.#node
      if (epoch !== undefined || founder?.nonce !== nonce) return false
      this.#ports.onFounded?.(this.#node, cluster)
      return this.#voteFromNow(nonce, cluster)
    })
  }

  async abandonFounding(nonce: string): Promise<void> {
    await this.#call(() => {
      if (this.#node.founder?.nonce === nonce) this.#node.founder = undefined
    })
  }

  #begin(nonce: string, origin: Origin): void {
    const sinceNodeMs = Math.floor(this.#node.nodeMs)
    this.#node.setQuarantine({
      runId: runIdOf(this.#node),
      nonce,
      sinceNodeMs,
      origin,
      progress: NOTHING_COPIED,
      evictedKeys: this.#node.evictedKeys,
    })
  }

  /** By its nonce and by its count: where it forgot again, either would do. */
  #hasAllThatItWasTold(nonce: string, calls: number): boolean {
    return this.#stands(nonce) && (this.#node.quarantine?.told ?? 0) >= calls
  }

  /** As in `membership.lua`: what was copied to a node that evicts may be gone. */
  #stands(nonce: string): boolean {
    const { quarantine, evictedKeys } = this.#node
    return this.#isMeant(nonce) && !hasEvictedSince(quarantine?.evictedKeys ?? evictedKeys, evictedKeys)
  }

  #isMeant(nonce: string): boolean {
    const { quarantine } = this.#node
    return quarantine?.nonce === nonce && quarantine.runId === runIdOf(this.#node)
  }

  #call<T>(execute: () => T, mayBeLate = false): Promise<T> {
    return call(this.#node, this.#runId, this.#ports, execute, mayBeLate)
  }
}

function snapshotOf(node: SimulatedNode, key: string, whole: boolean): RecordSnapshot | undefined {
  const kept = node.kept(key)
  if (kept === undefined) return undefined
  const { record, ttlMs } = kept
  const header =
    record.state === 'completed' && !whole
      ? { ...record, outcome: record.outcome.subarray(0, SHOWN_BYTES) }
      : record
  return { record: header, ttlMs, nodeMs: Math.floor(node.nodeMs) }
}

/** One call to one run of a node, executed at most once; rejects where no answer comes. */
export function call<T>(
  node: SimulatedNode,
  runId: number,
  { process, scheduler, network, healed, dice }: Omit<EnrollerPorts, 'nodes' | 'history' | 'counts'>,
  execute: () => T,
  mayBeLate = false,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const lost = () => !healed() && dice.chance(network.lossRate)
    const late = () => mayBeLate && network.lateCallRate !== undefined && dice.chance(network.lateCallRate)
    const delayMs = () =>
      network.latencyMs + (healed() ? 0 : dice.fraction() * (late() ? network.lateMs : network.jitterMs))
    const deadline = process.clock.timer(CALL_DEADLINE_MS, () => reject(new Error('no answer')))
    if (lost()) return
    scheduler.after(delayMs(), () =>
      node.arrive(runId, () => {
        const answer = execute()
        if (lost()) return
        scheduler.after(delayMs(), () =>
          process.deliver(() => {
            deadline.cancel()
            resolve(answer)
          }),
        )
      }),
    )
  })
}
