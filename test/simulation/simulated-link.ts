/**
 * One connection of a simulated process to a simulated node: the port that the driver of production has to a node.
 *
 * Owns what a connection is here: it breaks where the run of the node's process ends, and is made again by dialling.
 */

import { troubleOf } from '../../src/core/node-faults.ts'
import type { NodeFacts } from '../../src/core/nodes/fitness.ts'
import type { Dialled, LightPoll, MemberActs, NodeLink, SeenRun } from '../../src/core/nodes/member.ts'
import type { SimulatedNode } from './node.ts'
import { call, membershipOf, type NodePorts, SimulatedRejoiningNode } from './rejoining-node.ts'

/** At once where a connection was lost, and then again and again. */
const DIAL_AT_ONCE_MS = 2
const REDIAL_MS = 250

export type LinkedPorts = NodePorts & { readonly heartbeatEveryMs: number }

export class SimulatedLink implements NodeLink {
  readonly #node: SimulatedNode
  readonly #ports: LinkedPorts
  #told: Dialled | undefined
  /** The run of the process at the other end. */
  #run: number | undefined
  #closed = false
  /** What is asked over this connection ends with it. */
  readonly #underWay = new Set<(cause: Error) => void>()

  constructor(node: SimulatedNode, ports: LinkedPorts) {
    this.#node = node
    this.#ports = ports
    node.onGone.add(() => ports.process.deliver(() => this.#lost()))
  }

  get status(): NodeLink['status'] {
    return this.#run !== undefined && this.#node.up && this.#run === this.#node.runId ? 'ready' : 'down'
  }

  dial(told: Dialled): Promise<void> {
    this.#told = told
    return this.#dial()
  }

  redial(): void {
    this.#lost()
  }

  close(): void {
    this.#closed = true
  }

  async inspect(): Promise<NodeFacts> {
    const node = this.#node
    return this.#call(() => ({
      ...membershipOf(node),
      heartbeat: node.heartbeat,
      counters: node.counters,
      durable: node.durable,
      startedNodeMs: node.startedNodeMs,
      role: node.role,
      lineage: node.lineage,
      evictionPolicy: 'noeviction',
      memory: { usedBytes: 0, limitBytes: 0 },
      program: 'Redis' as const,
      version: '8.0.0',
      format: '1',
      refusal: undefined,
    }))
  }

  lightPoll(): Promise<LightPoll | undefined> {
    const node = this.#node
    this.#ports.history.saw('node_polled_lightly')
    return this.#call(() => ({
      nodeMs: Math.floor(node.nodeMs),
      incarnation: node.incarnation,
      quarantineMs: node.cluster?.quarantineMs,
      heartbeat: node.heartbeat,
    }))
  }

  writeHeartbeat(
    ...[incarnation, heartbeat, counters]: Parameters<NodeLink['writeHeartbeat']>
  ): ReturnType<NodeLink['writeHeartbeat']> {
    return this.#call(() => {
      const ms = this.#node.writeHeartbeat(incarnation, heartbeat, counters, this.#ports.heartbeatEveryMs)
      return ms === undefined ? undefined : { ms, counter: this.#node.counters.own }
    })
  }

  writeNotes(incarnation: string, counters: ReadonlyMap<string, string>): Promise<void> {
    return this.#call(() => this.#node.note(incarnation, counters))
  }

  acts(seen: SeenRun): MemberActs {
    return new SimulatedRejoiningNode(this.#node, seen, this.#ports)
  }

  async #dial(): Promise<void> {
    const { runId } = this.#node
    try {
      await call(this.#node, runId, this.#ports, () => {}, 'resent')
      this.#run = runId
      this.#told?.ready()
    } catch {
      this.#dialLater(REDIAL_MS)
    }
  }

  #lost(): void {
    if (this.#run === undefined || this.#closed) return
    this.#run = undefined
    for (const fail of this.#underWay) fail(new Error('the connection ended'))
    this.#told?.down(troubleOf('lost'), false)
    this.#dialLater(DIAL_AT_ONCE_MS)
  }

  #dialLater(afterMs: number): void {
    const { process, dice } = this.#ports
    if (!this.#closed) process.clock.timer(afterMs * (0.5 + dice.fraction()), () => void this.#dial())
  }

  /** Where it stays silent only a new connection can tell that the node is back. */
  async #call<T>(execute: () => T): Promise<T> {
    const run = this.#run
    const { promise: ended, reject } = Promise.withResolvers<never>()
    this.#underWay.add(reject)
    try {
      return await Promise.race([call(this.#node, run ?? -1, this.#ports, execute, 'resent'), ended])
    } catch (cause) {
      if (this.#run === run) this.redial()
      throw cause
    } finally {
      this.#underWay.delete(reject)
    }
  }
}
