/**
 * N nodes, embedded by default, behind the whole protocol, each of which can be silenced, deafened and brought back
 * with its records: for tests of the quorum's conclusions.
 */

import { createLeases } from '../../src/core/claims/leases.ts'
import type { Clock, Random } from '../../src/core/clock.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import type { Leases, NodeAnswer, RecordNode } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record/record.ts'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'

/** `deaf`: does not execute. `mute`: executes, and its answer is lost. `quarantined`: executes, and does not count. */
type Condition = 'well' | 'deaf' | 'mute' | 'quarantined'

export class ClusterNode implements RecordNode {
  readonly name: string
  condition: Condition = 'well'
  /** Called with each command before it is executed. */
  before: (command: RecordCommand) => void | Promise<void> = () => {}
  /** Called with each command once its answer is known, before the answer is heard. */
  after: (command: RecordCommand) => void = () => {}
  readonly #node: RecordNode

  constructor(node: RecordNode) {
    this.name = node.name
    this.#node = node
  }

  async execute(command: RecordCommand): Promise<NodeAnswer> {
    await this.before(command)
    if (this.condition === 'deaf') return { kind: 'unreachable', reason: 'refused', detail: 'deaf' }
    const answer = await this.#node.execute(command)
    this.after(command)
    if (this.condition === 'mute') return { kind: 'unreachable', reason: 'timeout', detail: 'mute' }
    if (this.condition === 'quarantined' && 'nodeMs' in answer)
      return { kind: 'quarantined', nodeMs: answer.nodeMs }
    return answer
  }

  /** Straight to the node, past its condition: sets up the state of a test. */
  apply(command: RecordCommand): Promise<NodeAnswer> {
    return this.#node.execute(command)
  }

  async record(key: string): Promise<NodeRecord | undefined> {
    return (await this.#read(key)).record
  }

  async hasRunningLease(key: string): Promise<boolean> {
    const { record, nodeMs } = await this.#read(key)
    return record?.state === 'claimed' && record.leaseUntilNodeMs > nodeMs
  }

  async #read(key: string): Promise<Extract<NodeAnswer, { kind: 'record' }>> {
    const answer = await this.#node.execute({ kind: 'read', key })
    if (answer.kind !== 'record') throw new Error(`${this.name} can't be read: ${JSON.stringify(answer)}`)
    return answer
  }
}

export type Cluster = {
  readonly nodes: readonly ClusterNode[]
  readonly events: CoreEvent[]
  readonly leases: Leases
  /** Another sidecar on the same nodes. */
  sidecar(clock?: Clock): Leases
  set(condition: Condition, ...indexes: number[]): void
  publish(event: CoreEvent): void
}

/** How far a token may lie ahead of the nodes of a test. */
export const TEST_TOKEN_AHEAD_MS = 1_000

export function embeddedNodes(count: number, clock: Clock): readonly RecordNode[] {
  return Array.from(
    { length: count },
    (_, index) => new EmbeddedNode(`node-${index}`, () => clock.wallMs(), TEST_TOKEN_AHEAD_MS),
  )
}

export function createCluster(
  clock: Clock,
  random: Random,
  given: readonly RecordNode[] = embeddedNodes(5, clock),
): Cluster {
  const events: CoreEvent[] = []
  const publish = (event: CoreEvent) => void events.push(event)
  const nodes = given.map((node) => new ClusterNode(node))
  const sidecar = (of: Clock = clock) => {
    const quorum = createRedlockQuorum({ nodes, clock: of, events: { publish } })
    return createLeases({ quorum, clock: of, random, events: { publish } })
  }
  return {
    nodes,
    events,
    publish,
    leases: sidecar(),
    sidecar,
    set: (condition, ...indexes) => {
      for (const index of indexes) (nodes[index] as ClusterNode).condition = condition
    },
  }
}
