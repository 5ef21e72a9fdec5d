/**
 * One connection of a simulated process to a simulated node: the port that the driver of production has to a node.
 *
 * Owns what a connection is here: it breaks where the run of the node's process ends, and is made again by dialling.
 */

import { troubleOf } from '../../src/core/node-faults.ts'
import type { EnrolmentNode } from '../../src/core/nodes/enrolment-node.ts'
import type { Cluster } from '../../src/core/nodes/enrolment-rules.ts'
import type { NodeFacts } from '../../src/core/nodes/fitness.ts'
import type { Glance } from '../../src/core/nodes/glance.ts'
import type { Dialled, MemberActs, NodeLink, SeenRun } from '../../src/core/nodes/node-link.ts'
import { call, type EnrollerPorts, membershipOf, SimulatedEnrolmentNode } from './enroller.ts'
import type { SimulatedNode } from './node.ts'

const REDIAL_MS = 250

export type LinkedPorts = Omit<EnrollerPorts, 'counts' | 'keeper' | 'told'>

export class SimulatedLink implements NodeLink {
  readonly #node: SimulatedNode
  readonly #ports: LinkedPorts
  #told: Dialled | undefined
  /** The run of the process at the other end. */
  #run: number | undefined
  #closed = false

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
      pulse: node.pulse,
      counters: node.counters,
      durable: node.durable,
      startedNodeMs: node.startedNodeMs,
      role: 'master',
      lineage: '0',
      evictionPolicy: 'noeviction',
      memory: { usedBytes: 0, limitBytes: 0 },
      program: 'Redis' as const,
      version: '8.0.0',
      format: '1',
      refusal: undefined,
    }))
  }

  glance(): Promise<Glance | undefined> {
    const node = this.#node
    return this.#call(() => ({
      nodeMs: Math.floor(node.nodeMs),
      epoch: node.epoch,
      quarantineMs: node.cluster?.quarantineMs,
      pulse: node.pulse,
    }))
  }

  writePulse(
    ...[epoch, pulse, counters]: Parameters<NodeLink['writePulse']>
  ): ReturnType<NodeLink['writePulse']> {
    return this.#call(() => {
      const ms = this.#node.beat(epoch, pulse, counters)
      return ms === undefined ? undefined : { ms, counter: this.#node.counters.own }
    })
  }

  writeNotes(epoch: string, counters: ReadonlyMap<string, string>): Promise<void> {
    return this.#call(() => this.#node.note(epoch, counters))
  }

  acts({ runId, epoch, told, counts, sameConnection }: SeenRun): MemberActs {
    const ports = {
      ...this.#ports,
      told,
      counts: (_: number, ...reading: Parameters<typeof counts>) => counts(...reading) && sameConnection(),
    }
    const node = this.#node
    const seen = { ...membershipOf(node), runId, epoch }
    const enrolmentNode: EnrolmentNode & { raise(cluster: Cluster): Promise<void> } =
      new SimulatedEnrolmentNode(node, seen, ports)
    const on = <T>(execute: () => T) => call(node, Number(runId), this.#ports, execute)
    return Object.assign(enrolmentNode, {
      revoke: (revoked: string) => on(() => node.revoke(revoked)),
      declare: () => Promise.resolve(false),
      occupy: (who: string, ms: number) => on(() => node.occupy(who, ms)),
    })
  }

  async #dial(): Promise<void> {
    const { runId } = this.#node
    try {
      await call(this.#node, runId, this.#ports, () => {})
      this.#run = runId
      this.#told?.ready()
    } catch {
      this.#dialLater()
    }
  }

  #lost(): void {
    if (this.#run === undefined || this.#closed) return
    this.#run = undefined
    this.#told?.down(troubleOf('lost'), false)
    this.#dialLater()
  }

  #dialLater(): void {
    const { process, dice } = this.#ports
    if (!this.#closed) process.clock.timer(REDIAL_MS * (0.5 + dice.fraction()), () => void this.#dial())
  }

  #call<T>(execute: () => T): Promise<T> {
    return call(this.#node, this.#run ?? -1, this.#ports, execute)
  }
}
