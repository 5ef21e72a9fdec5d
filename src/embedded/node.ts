/**
 * A node inside this process, on the pure record rules: for a first run without Redis, for tests and for simulation.
 *
 * Owns a map and the expiry of its keys. Its records end with the process, so a cluster of embedded nodes protects
 * within one sidecar only; `fencepost serve` says so at the start.
 */

import { updateEntry, type WaitQueue, type WaitQueues } from '../core/claims/wait-queue.ts'
import type { Clock } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { NodeAnswer, RecordNode } from '../core/ports.ts'
import { fitsRecord, NOT_FITTING, type NodeRecord, type RecordCommand } from '../core/record/record.ts'
import { applyCommand, beginsWork, whatStands } from '../core/record/record-rules.ts'
import { ownBytes } from '../core/record/stored-outcome.ts'

/** Like Redis, a node still has a record in the millisecond in which it expires. */
type Kept = { readonly record: NodeRecord; readonly expiresNodeMs: number }

/** Size of a record besides its outcome: keys, numbers, the map's own. A generous estimate. */
const RECORD_OVERHEAD_BYTES = 512

/** Keys checked for expiry per command, so that unused records are dropped in time. */
const SWEEP_PER_COMMAND = 2

export class EmbeddedNode implements RecordNode {
  readonly name: string
  /** False stands for a Redis node that is short of memory: it takes no new claims, and completes granted ones. */
  takesNewClaims = true
  readonly #nodeMs: () => number
  readonly #maxTokenAheadMs: number
  readonly #bytesMax: number
  readonly #kept = new Map<string, Kept>()
  #keptBytes = 0

  /**
   * @param nodeMs this node's own clock, milliseconds since 1970
   * @param bytesMax of records; beyond it the node takes no new claims
   */
  constructor(
    name: string,
    nodeMs: () => number,
    maxTokenAheadMs: number,
    bytesMax = Number.POSITIVE_INFINITY,
  ) {
    this.name = name
    this.#nodeMs = nodeMs
    this.#maxTokenAheadMs = maxTokenAheadMs
    this.#bytesMax = bytesMax
  }

  execute(command: RecordCommand): Promise<NodeAnswer> {
    return Promise.resolve(this.apply(command))
  }

  apply(command: RecordCommand): NodeAnswer {
    if (!fits(command)) return { kind: 'unreachable', reason: 'error', answered: true, detail: NOT_FITTING }
    const nodeMs = Math.floor(this.#nodeMs())
    this.#sweep(nodeMs)
    const kept = this.#kept.get(command.key)
    const live = kept !== undefined && kept.expiresNodeMs >= nodeMs ? kept : undefined
    const ttlMs = live === undefined ? undefined : live.expiresNodeMs - nodeMs
    const effect = applyCommand(live?.record, command, nodeMs, this.#maxTokenAheadMs, ttlMs)
    if (!this.#takesNewClaims() && beginsWork(live?.record, effect))
      return { kind: 'unreachable', reason: 'refused', answered: true, full: true, detail: FULL }
    const { answer, write } = effect
    if (write !== undefined) {
      const expiresNodeMs = write.ttl === 'keep' ? (live?.expiresNodeMs ?? nodeMs) : nodeMs + write.ttl.ms
      const record = this.#bytesMax < Number.POSITIVE_INFINITY ? withOwnOutcome(write.record) : write.record
      this.#set(command.key, { record, expiresNodeMs })
    }
    return answer.kind === 'record' && ttlMs !== undefined ? { ...answer, ttlMs } : answer
  }

  #takesNewClaims(): boolean {
    return this.takesNewClaims && this.#keptBytes < this.#bytesMax
  }

  /** The live record and its remaining lifetime: a rejoin copies from it, and checkers read it. */
  kept(key: string): { readonly record: NodeRecord; readonly ttlMs: number } | undefined {
    const nodeMs = Math.floor(this.#nodeMs())
    const kept = this.#kept.get(key)
    const record = whatStands(kept?.record, nodeMs)
    if (kept === undefined || record === undefined || kept.expiresNodeMs < nodeMs) return undefined
    return { record, ttlMs: kept.expiresNodeMs - nodeMs }
  }

  /** Stores a record unchecked: a rejoin copies with it, before the node votes. */
  put(key: string, record: NodeRecord, ttlMs: number): void {
    this.#set(key, { record, expiresNodeMs: Math.floor(this.#nodeMs()) + ttlMs })
  }

  #set(key: string, kept: Kept): void {
    this.#keptBytes += bytesOf(key, kept) - bytesOf(key, this.#kept.get(key))
    this.#kept.set(key, kept)
  }

  /** Checks a few keys; live ones go to the end of the map's order. */
  #sweep(nodeMs: number): void {
    let checked = 0
    for (const [key, kept] of this.#kept) {
      if (checked >= SWEEP_PER_COMMAND) return
      checked += 1
      this.#kept.delete(key)
      if (kept.expiresNodeMs >= nodeMs) this.#kept.set(key, kept)
      else this.#keptBytes -= bytesOf(key, kept)
    }
  }

  /** The number of records. */
  get size(): number {
    return this.#kept.size
  }
}

/** Refuses what a Redis node refuses, whose fields have a fixed width. */
function fits(command: RecordCommand): boolean {
  switch (command.kind) {
    case 'claim':
      return fitsRecord(command.owner, command.fingerprint, 1)
    case 'renew':
    case 'complete':
      return fitsRecord(command.owner, command.fingerprint, command.attempt)
    case 'release':
    case 'read':
      return true
  }
}

const FULL = 'it keeps as much as it may'

function withOwnOutcome(record: NodeRecord): NodeRecord {
  return record.state === 'completed' ? { ...record, outcome: ownBytes(record.outcome) } : record
}

function bytesOf(key: string, kept: Kept | undefined): number {
  if (kept === undefined) return 0
  const { record } = kept
  return RECORD_OVERHEAD_BYTES + key.length + (record.state === 'completed' ? record.outcome.length : 0)
}

/** An embedded node that can be stopped like a process: for the demonstration and for tests. */
export type StoppableNode = RecordNode & {
  /** Refuses every command from now on; its records are gone. */
  stop(): void
  readonly stopped: boolean
}

/** @param count 5 by default: inside one process a majority protects against no failure, but the code is the same */
export function createEmbeddedNodes(
  count: number,
  clock: Clock,
  maxTokenAheadMs: number,
  events: Events,
  bytesMax?: number,
): readonly StoppableNode[] {
  // On the monotonic clock: a change of the wall clock must not expire what only this process remembers.
  const startedMs = clock.wallMs() - clock.monoMs()
  const nodeMs = () => startedMs + clock.monoMs()
  return Array.from({ length: count }, (_, index) => {
    let stopped = false
    const node = new EmbeddedNode(`embedded-${index}`, nodeMs, maxTokenAheadMs, bytesMax)
    return {
      name: node.name,
      get stopped() {
        return stopped
      },
      stop: () => {
        stopped = true
      },
      execute: (command) => {
        const answer: NodeAnswer = stopped
          ? { kind: 'unreachable', reason: 'refused', detail: 'the embedded node was stopped' }
          : node.apply(command)
        events.publish({
          kind: 'node_answered',
          node: node.name,
          command: command.kind,
          answer: answer.kind,
          ...(answer.kind === 'unreachable' ? { unreachable: answer.reason } : {}),
          durationMs: 0,
        })
        return Promise.resolve(answer)
      },
    }
  })
}

export function createEmbeddedWaitQueues(clock: Clock): WaitQueues {
  const queues = new Map<string, WaitQueue>()
  return {
    nodeCount: 1,
    update: (key, entry) => {
      const { queue, reply } = updateEntry(queues.get(key), entry, Math.floor(clock.monoMs()))
      if (queue === undefined) queues.delete(key)
      else queues.set(key, queue)
      return Promise.resolve([reply])
    },
  }
}
