/**
 * A simulated node: the embedded node of production, on a machine that can stop, die, forget and be set another time.
 *
 * Owns the machine: its clock, the run of its process, its log (from which a restart remembers all, a part, or nothing),
 * the epoch that says that it is enrolled, and the nonce of an enrolment under way. What commands do to records is the
 * production code's business.
 */

import { epochFor, isEnrolled, type Quarantine } from '../../src/core/nodes/enrolment-rules.ts'
import type { NodeAnswer } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record/record.ts'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import { MAX_TOKEN_AHEAD_MS, OFFICE } from './plan.ts'
import { EPOCH_WALL_MS } from './process.ts'
import type { Scheduler } from './scheduler.ts'

/** One write, as an append-only file keeps it. */
type Logged =
  | { readonly kind: 'command'; readonly command: RecordCommand; readonly nodeMs: number }
  | {
      readonly kind: 'copy'
      readonly key: string
      readonly record: NodeRecord
      readonly ttlMs: number
      readonly nodeMs: number
    }
  | { readonly kind: 'epoch'; readonly epoch: string }
  | { readonly kind: 'revoked' }
  | { readonly kind: 'quarantine'; readonly quarantine: Quarantine }

/** Told of every command that was executed, with the record before and after. */
export type Executed = {
  readonly node: number
  readonly command: RecordCommand
  readonly answer: NodeAnswer
  readonly voting: boolean
  readonly before: NodeRecord | undefined
  readonly after: NodeRecord | undefined
}

export class SimulatedNode {
  readonly index: number
  readonly name: string
  /** Changes with every start of the node's process, and is no other node's. */
  runId: number
  up = true
  epoch: string | undefined
  quarantine: Quarantine | undefined
  readonly keys = new Set<string>()
  readonly #scheduler: Scheduler
  readonly #rate: number
  readonly #onExecuted: (executed: Executed) => void
  #wallOffsetMs: number
  #stoppedUntilMs = 0
  #embedded: EmbeddedNode
  /** While a log is read, the time of the entry. */
  #replayedMs: number | undefined
  #log: Logged[] = []

  constructor(
    index: number,
    scheduler: Scheduler,
    clock: { readonly ratePpm: number; readonly wallOffsetMs: number },
    onExecuted: (executed: Executed) => void,
  ) {
    this.index = index
    this.runId = (index + 1) * 1_000
    this.name = `node-${index}`
    this.#scheduler = scheduler
    this.#rate = 1 + clock.ratePpm / 1_000_000
    this.#wallOffsetMs = clock.wallOffsetMs
    this.#onExecuted = onExecuted
    this.#embedded = this.#empty()
    this.setEpoch(epochFor(String(this.runId), 'first', Math.floor(this.nodeMs)))
  }

  get nodeMs(): number {
    return this.#replayedMs ?? EPOCH_WALL_MS + this.#scheduler.nowMs * this.#rate + this.#wallOffsetMs
  }

  /** Its epoch stands, and was written for the process that runs now. */
  get voting(): boolean {
    return isEnrolled({ runId: String(this.runId), epoch: this.epoch })
  }

  get size(): number {
    return this.#embedded.size
  }

  /** Executes a command, whoever sent it and however late; `epoch` is the one that its sender knows of this node. */
  execute(command: RecordCommand, epoch: string | undefined): NodeAnswer {
    const before = this.peek(command.key)
    const answer = this.#embedded.apply(command)
    if (command.kind !== 'read') this.#log.push({ kind: 'command', command, nodeMs: this.nodeMs })
    this.keys.add(command.key)
    const voting = this.voting && epoch === this.epoch
    this.#onExecuted({ node: this.index, command, answer, voting, before, after: this.peek(command.key) })
    return voting
      ? answer
      : { kind: 'quarantined', nodeMs: answer.kind === 'unreachable' ? 0 : answer.nodeMs }
  }

  /** The record that stands, for the checkers. */
  peek(key: string): NodeRecord | undefined {
    return this.#embedded.kept(key)?.record
  }

  kept(key: string): { readonly record: NodeRecord; readonly ttlMs: number } | undefined {
    return this.#embedded.kept(key)
  }

  /** Of the records of requests; that of an office is kept for a day. */
  longestTtlMs(): number {
    const keys = [...this.keys].filter((key) => key !== OFFICE)
    return Math.max(0, ...keys.map((key) => this.#embedded.kept(key)?.ttlMs ?? 0))
  }

  /** Puts a record as it is to stand: what enrolment copies. */
  put(key: string, record: NodeRecord, ttlMs: number): void {
    this.#embedded.put(key, record, ttlMs)
    this.#log.push({ kind: 'copy', key, record, ttlMs, nodeMs: this.nodeMs })
    this.keys.add(key)
  }

  setEpoch(epoch: string): void {
    this.epoch = epoch
    this.quarantine = undefined
    this.#log.push({ kind: 'epoch', epoch })
  }

  /** What it promised under this epoch it may have forgotten. */
  revoke(epoch: string): void {
    if (this.epoch !== epoch) return
    this.epoch = undefined
    this.#log.push({ kind: 'revoked' })
  }

  setQuarantine(quarantine: Quarantine): void {
    this.quarantine = quarantine
    this.#log.push({ kind: 'quarantine', quarantine })
  }

  stepClock(ms: number): void {
    this.#wallOffsetMs += ms
  }

  /** Time service: the clock is right again. Only while nobody holds a lease, for it is a step itself. */
  setClockRight(): void {
    this.#wallOffsetMs = -this.#scheduler.nowMs * (this.#rate - 1)
  }

  stopFor(ms: number): void {
    this.#stoppedUntilMs = Math.max(this.#stoppedUntilMs, this.#scheduler.nowMs + ms)
  }

  resume(): void {
    this.#stoppedUntilMs = this.#scheduler.nowMs
  }

  /** Something arrives over a connection to the process `runId`: now, when the node goes on, or never. */
  arrive(runId: number, run: () => void): void {
    if (!this.up || this.runId !== runId) return
    if (this.#scheduler.nowMs >= this.#stoppedUntilMs) run()
    else this.#scheduler.at(this.#stoppedUntilMs, () => this.arrive(runId, run))
  }

  crash(): void {
    this.up = false
  }

  /** Another run of the process, which reads the first `memory` of the log. */
  restart(memory: number): void {
    const kept = this.#log.slice(0, Math.floor(this.#log.length * memory))
    this.#forget()
    this.runId += 1
    this.up = true
    this.#stoppedUntilMs = 0
    for (const entry of kept) this.#remember(entry)
    this.#replayedMs = undefined
    this.#log = kept
  }

  flush(): void {
    this.#forget()
    this.#log = []
  }

  #remember(entry: Logged): void {
    switch (entry.kind) {
      case 'command':
        this.#replayedMs = entry.nodeMs
        this.#embedded.apply(entry.command)
        this.keys.add(entry.command.key)
        return
      case 'copy':
        this.#replayedMs = entry.nodeMs
        this.#embedded.put(entry.key, entry.record, entry.ttlMs)
        this.keys.add(entry.key)
        return
      case 'epoch':
        this.epoch = entry.epoch
        this.quarantine = undefined
        return
      case 'revoked':
        this.epoch = undefined
        return
      case 'quarantine':
        this.quarantine = entry.quarantine
    }
  }

  #forget(): void {
    this.#embedded = this.#empty()
    this.keys.clear()
    this.epoch = undefined
    this.quarantine = undefined
  }

  #empty(): EmbeddedNode {
    return new EmbeddedNode(this.name, () => this.nodeMs, MAX_TOKEN_AHEAD_MS)
  }
}
