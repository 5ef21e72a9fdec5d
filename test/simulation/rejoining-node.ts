/**
 * A simulated node as a rejoin sees it, over a network that loses messages: what `src/redis/lua/membership.lua` decides on a node.
 *
 * Owns the acts on the node, and their way there. Which act is taken when is production code (`core/nodes/`).
 */

import { INSPECT_DEADLINE_MS, type MemberActs, type SeenRun } from '../../src/core/nodes/member.ts'
import {
  type Adoption,
  type Cluster,
  type CopyProgress,
  FIRST_CURSOR,
  hasEvictedSince,
  incarnationFor,
  type Membership,
  mayGetRecords,
  NOTHING_COPIED,
  type Origin,
  quarantineMsFor,
  type WhyAnew,
} from '../../src/core/nodes/rejoin-rules.ts'
import { adoptRecord, type RecordSnapshot } from '../../src/core/record/record-merge.ts'
import { SHOWN_BYTES } from '../../src/core/record/stored-outcome.ts'
import type { Dice } from './dice.ts'
import type { History } from './history.ts'
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

/** How long a founder's claim on a node stands. */
const FOUNDER_MS = 1_000
const CALL_DEADLINE_MS = 100

/** A message that is lost is sent again, where its call has time for that. */
const RESEND_MS = 40

/** The way to a node. */
export type Way = {
  readonly process: SimulatedProcess
  readonly scheduler: Scheduler
  readonly network: Plan['network']
  readonly healed: () => boolean
  readonly dice: Dice
}

export type NodePorts = Way & {
  readonly history: History
  /** It is about to get the first incarnation of a new cluster. */
  readonly onFounded: (node: SimulatedNode, cluster: Cluster) => void
  /** It votes again. */
  readonly onJoined: (node: SimulatedNode) => void
}

/** What a poll shows. */
export type Shown = Membership & { readonly evictedKeys: number }

export function membershipOf(node: SimulatedNode): Shown {
  return {
    runId: runIdOf(node),
    nodeMs: Math.floor(node.nodeMs),
    incarnation: node.incarnation,
    quarantine: node.quarantine,
    cluster: node.cluster,
    evictedKeys: node.evictedKeys,
  }
}

function runIdOf(node: SimulatedNode): string {
  return String(node.runId)
}

export class SimulatedRejoiningNode implements MemberActs {
  readonly name: string
  readonly #node: SimulatedNode
  readonly #seen: SeenRun
  readonly #ports: NodePorts

  constructor(node: SimulatedNode, seen: SeenRun, ports: NodePorts) {
    this.name = node.name
    this.#node = node
    this.#seen = seen
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

  async restart(nonce: string, nextNonce: string, why: WhyAnew = {}): Promise<void> {
    await this.#call(() => {
      if (!this.#isMeant(nonce)) return
      this.#begin(nextNonce, this.#node.quarantine?.origin ?? 'forgot')
      if (why.forgot) this.#ports.history.saw('told_once_more')
    })
  }

  revoke(incarnation: string, itLies?: boolean): Promise<void> {
    return this.#call(() => this.#node.revoke(incarnation, itLies))
  }

  declare(): Promise<boolean> {
    return Promise.resolve(false)
  }

  occupy(_: string, lifetimeMs: number): Promise<boolean> {
    return this.#call(() => this.#node.occupy(this.#ports.process.name, lifetimeMs))
  }

  save(nonce: string, progress: CopyProgress): Promise<boolean> {
    return this.#call(() => {
      const { quarantine } = this.#node
      if (quarantine === undefined || !this.#stands(nonce)) return false
      this.#node.setQuarantine({ ...quarantine, progress })
      return true
    })
  }

  join(nonce: string, cluster: Cluster): Promise<boolean> {
    const known = this.#seen.catchUp.known(nonce)
    return this.#call(() => {
      const { history, onJoined } = this.#ports
      if (!this.#hasAllThatItWasTold(nonce, known)) {
        history.saw('rejoin_superseded')
        return false
      }
      const { quarantine, nodeMs } = this.#node
      const early = nodeMs - (quarantine?.sinceNodeMs ?? 0) < cluster.quarantineMs
      history.saw(!early ? 'joined' : quarantine?.catchUps === undefined ? 'continued' : 'told_by_all')
      this.#voteFromNow(nonce, cluster)
      onJoined(this.#node)
      return true
    })
  }

  #voteFromNow(nonce: string, cluster: Cluster): void {
    const { nodeMs } = this.#node
    this.#node.raise(cluster)
    this.#node.setIncarnation(
      `${incarnationFor(runIdOf(this.#node), nonce, Math.floor(nodeMs))}:${this.#node.lineage}`,
    )
  }

  async raise(cluster: Cluster): Promise<void> {
    await this.#call(() => this.#node.raise(cluster))
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
      voting: this.#node.voting && this.#node.incarnation === this.#seen.incarnation,
      snapshots: keys.map((key) => snapshotOf(this.#node, key, whole)),
    }))
    const sample = { nodeMs, sentMonoMs, receivedMonoMs: clock.monoMs() }
    const { counts, sameConnection } = this.#seen
    return { voting: counts(sample, sentWallMs) && sameConnection() && voting, nodeMs, snapshots }
  }

  async adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void> {
    const told = await this.#call(() => {
      if (!mayGetRecords(membershipOf(this.#node), nonce)) {
        this.#ports.history.saw('adoption_refused')
        return undefined
      }
      const calls = (this.#node.quarantine?.catchUps ?? 0) + 1
      for (const { key, merged } of adoptions) {
        const own = this.#node.kept(key)
        if (merged.record.state === 'completed') this.#ports.history.saw('rejoin_copied_outcome')
        if (merged.record.state === 'completed' && merged.record.copied === true)
          this.#ports.history.saw('rejoin_copied_sighting')
        const { record, ttlMs } = adoptRecord(own, merged, Math.floor(this.#node.nodeMs))
        this.#node.put(key, record, ttlMs, calls)
      }
      return adoptions.length > 0 ? calls : 0
    }, true)
    if (told === undefined) throw new Error('it waits under another nonce by now, or votes')
    if (told > 0) this.#seen.catchUp.learn(nonce, told)
  }

  claimFounding(nonce: string, proposed: string): Promise<boolean> {
    return this.#call(() => {
      const { founder, nodeMs, incarnation, quarantine } = this.#node
      if (incarnation !== undefined || !this.#stands(proposed) || quarantine?.origin !== 'new') return false
      if (founder !== undefined && founder.untilNodeMs > nodeMs) return false
      this.#node.founder = { nonce, untilNodeMs: nodeMs + FOUNDER_MS }
      return true
    })
  }

  found(nonce: string, cluster: Cluster): Promise<boolean> {
    return this.#call(() => {
      const { incarnation, founder } = this.#node
      if (incarnation !== undefined || founder?.nonce !== nonce) return false
      this.#ports.onFounded(this.#node, cluster)
      this.#voteFromNow(nonce, cluster)
      return true
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
      lineage: this.#node.lineage,
      progress: NOTHING_COPIED,
      evictedKeys: this.#node.evictedKeys,
    })
  }

  /** By its nonce and by its count: where it forgot again, either would do. */
  #hasAllThatItWasTold(nonce: string, calls: number): boolean {
    return this.#stands(nonce) && (this.#node.quarantine?.catchUps ?? 0) >= calls
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
    return call(this.#node, Number(this.#seen.runId), this.#ports, execute, mayBeLate ? 'late' : 'once')
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
  { process, scheduler, network, healed, dice }: Way,
  execute: () => T,
  how: 'once' | 'late' | 'resent' = 'once',
): Promise<T> {
  return new Promise((resolve, reject) => {
    const isLost = () => !healed() && dice.chance(network.lossRate)
    const late = () =>
      how === 'late' && network.lateCallRate !== undefined && dice.chance(network.lateCallRate)
    const delayMs = () =>
      network.latencyMs + (healed() ? 0 : dice.fraction() * (late() ? network.lateMs : network.jitterMs))
    /** Undefined: it is lost. */
    const underWayMs = () => {
      let ms = delayMs()
      for (; isLost(); ms += RESEND_MS) if (how !== 'resent') return undefined
      return ms
    }
    const deadlineMs = how === 'resent' ? INSPECT_DEADLINE_MS : CALL_DEADLINE_MS
    const deadline = process.clock.timer(deadlineMs, () => reject(new Error('no answer')))
    const thereMs = underWayMs()
    if (thereMs === undefined) return
    scheduler.after(thereMs, () => {
      // Nobody listens there, or nobody knows this connection.
      if (!node.up || node.runId !== runId)
        scheduler.after(network.latencyMs, () => process.deliver(() => reject(new Error('refused'))))
      node.arrive(runId, () => {
        const answer = execute()
        const backMs = underWayMs()
        if (backMs === undefined) return
        scheduler.after(backMs, () =>
          process.deliver(() => {
            deadline.cancel()
            resolve(answer)
          }),
        )
      })
    })
  })
}
