/**
 * The port between the driver of the nodes of one cluster (`node-driver.ts`) and a node of any kind: how it is dialled, looked at and
 * written to.
 */

import { type Trouble, told } from '../node-faults.ts'
import type { CatchUpCounter } from './catch-up.ts'
import type { ClockSample } from './clock-samples.ts'
import type { Pulse } from './continuity.ts'
import type { EnrolmentNode } from './enrolment-node.ts'
import type { Cluster } from './enrolment-rules.ts'
import type { NodeFacts } from './fitness.ts'
import type { Glance } from './glance.ts'
import type { NodeMemory } from './node-memory.ts'

/** A server that answers, and that no setting of ours makes a node. */
export class UnsuitableServer extends Error {
  readonly trouble: Trouble

  constructor(trouble: Trouble) {
    super(told(trouble))
    this.trouble = trouble
  }
}

/** An epoch that no node has: its scripts answer that the epoch is outdated. */
export const NO_EPOCH = ''

/** Far above any healthy answer: a connection silent for so long is redialled, or a broken path would stay in use. */
export const INSPECT_DEADLINE_MS = 1_000

/** One connection to one node, made again by itself. Calls reject where they are not answered in time. */
export interface NodeLink {
  /** `open`: it was accepted, and is not ready. */
  readonly status: 'ready' | 'open' | 'down'
  /** Dials until it is closed. Resolves when it is ready, or could not be reached in time. */
  dial(told: Dialled): Promise<void>
  redial(): void
  close(): void
  /** Everything. One that stays silent is redialled. @throws UnsuitableServer */
  inspect(): Promise<NodeFacts>
  /** As `inspect`; undefined where the node refuses a part of it. */
  glance(): Promise<Glance | undefined>
  /** @returns the heartbeat after that, and its counter; undefined where the node does not vote under this epoch */
  writePulse(
    epoch: string,
    pulse: Pick<Pulse, 'name' | 'durable' | 'others'>,
    counters: ReadonlyMap<string, string>,
  ): Promise<{ readonly ms: number; readonly counter: number } | undefined>
  /** What is known of other nodes' counters, and no heartbeat. */
  writeNotes(epoch: string, counters: ReadonlyMap<string, string>): Promise<void>
  acts(seen: SeenRun): MemberActs
}

export type Dialled = {
  readonly ready: () => void
  /** `isUnsuitable`: no other dial will find a node there. */
  readonly down: (trouble: Trouble, isUnsuitable: boolean) => void
}

/** The run of a node's process for which acts are meant, and what they report. */
export type SeenRun = {
  readonly runId: string
  /** The epoch that the node is known to have; undefined while it does not vote. */
  readonly epoch: string | undefined
  readonly told: CatchUpCounter
  /** Called with a reading of the node's clock; returns whether the node's votes count now. */
  readonly counts: (sample: ClockSample, sentWallMs: number) => boolean
  /** The connection is the one over which the node was inspected. */
  readonly sameConnection: () => boolean
}

/** Each on the run that was seen, or not at all. */
export interface MemberActs extends EnrolmentNode {
  /**
   * It forgot by itself, and what it forgot is unknown. Not executed where it has been enrolled anew since.
   *
   * @param itLies what it says of others is taken away, too
   */
  revoke(epoch: string, itLies?: boolean): Promise<void>
  /** A sidecar that restarts or takes over a node's quarantine must wait as long as any sidecar's longest lease. */
  raise(cluster: Cluster): Promise<void>
  /** An operator decides to go on with what is left. False where the node votes, and so does not wait. */
  declare(by: string, clusterId: string): Promise<boolean>
  /** Takes the work of copying to this node, for a while; it only saves work that another sidecar is doing already. */
  occupy(who: string, lifetimeMs: number): Promise<boolean>
}

/** The node as requests use it. */
export interface Voter {
  readonly name: string
  /** With commands, so far. */
  readonly calls: number
  /** While `undefined` no command is sent: the process at the other end is unknown, or must not be used. */
  useEpoch(epoch: string | undefined): void
  /** Everything that the node takes until the next look must fit into the room that new claims leave free. */
  sawMemory(memory: NodeMemory): void
}
