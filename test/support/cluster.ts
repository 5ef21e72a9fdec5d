/**
 * N nodes inside the process behind the whole protocol, each of which can be silenced, deafened and brought back with what
 * it knew: for tests of what the quorum makes of it. Time is the test's.
 */
import type { CoreEvent } from '../../src/core/events.ts'
import { createLeases } from '../../src/core/leases.ts'
import type { Clock, Leases, NodeAnswer, Random, RecordNode } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record.ts'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../src/quorum/redlock.ts'

/** `deaf`: executes nothing. `mute`: executes, and its answer is lost. `quarantined`: executes, and does not count. */
export type Condition = 'well' | 'deaf' | 'mute' | 'quarantined'

export class ClusterNode implements RecordNode {
  readonly name: string
  condition: Condition = 'well'
  /** What it was asked to do, in order. */
  readonly asked: RecordCommand[] = []
  /** Called with each command before it is executed. */
  before: (command: RecordCommand) => void | Promise<void> = () => {}
  readonly #node: EmbeddedNode

  constructor(name: string, nodeMs: () => number, maxTokenAheadMs: number) {
    this.name = name
    this.#node = new EmbeddedNode(name, nodeMs, maxTokenAheadMs)
  }

  async execute(command: RecordCommand): Promise<NodeAnswer> {
    this.asked.push(command)
    await this.before(command)
    if (this.condition === 'deaf') return { kind: 'unreachable', reason: 'refused', detail: 'deaf' }
    const answer = this.#node.apply(command)
    if (this.condition === 'mute') return { kind: 'unreachable', reason: 'timeout', detail: 'mute' }
    if (this.condition === 'quarantined' && 'nodeMs' in answer)
      return { kind: 'quarantined', nodeMs: answer.nodeMs }
    return answer
  }

  /** Straight to the node, past its condition: what the test wants to have happened. */
  apply(command: RecordCommand): NodeAnswer {
    return this.#node.apply(command)
  }

  record(key: string): NodeRecord | undefined {
    const answer = this.#node.apply({ kind: 'read', key })
    return answer.kind === 'record' ? answer.record : undefined
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

export function createCluster(
  clock: Clock,
  random: Random,
  { count = 5, maxTokenAheadMs = 1_000 } = {},
): Cluster {
  const events: CoreEvent[] = []
  const publish = (event: CoreEvent) => void events.push(event)
  const nodes = Array.from(
    { length: count },
    (_, index) => new ClusterNode(`node-${index}`, () => clock.wallMs(), maxTokenAheadMs),
  )
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
