/**
 * A simulated node: the embedded node of production, on a machine that can stop, die, forget and have its clock set.
 *
 * Owns the machine: its clock, the run of its process, its log (from which a restart remembers all, a part, or nothing),
 * the incarnation that says that it has joined, and the nonce of a rejoin under way. What commands do to records is the
 * production code's business.
 */

import type { Heartbeat } from '../../src/core/nodes/continuity.ts'
import { type Counters, splitNote } from '../../src/core/nodes/node-history.ts'
import {
  type Cluster,
  hasJoined,
  incarnationFor,
  type Lineage,
  NEVER_A_REPLICA,
  type Quarantine,
} from '../../src/core/nodes/rejoin-rules.ts'
import type { NodeAnswer } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record/record.ts'
import { applyCommand } from '../../src/core/record/record-rules.ts'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import { LEADERSHIP, MAX_TOKEN_AHEAD_MS } from './plan.ts'
import { INCARNATION_WALL_MS } from './process.ts'
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
      /** How many calls of its quarantine had told it records by then. */
      readonly catchUps: number
    }
  | { readonly kind: 'incarnation'; readonly incarnation: string }
  | { readonly kind: 'cluster'; readonly cluster: Cluster }
  | { readonly kind: 'revoked' }
  | { readonly kind: 'quarantine'; readonly quarantine: Quarantine }
  | { readonly kind: 'heartbeat'; readonly heartbeat: Heartbeat | undefined; readonly counters: Counters }
  | { readonly kind: 'evicted'; readonly keys: ReadonlySet<string> }

/** One executed command, with the record before and after. */
export type Executed = {
  readonly node: number
  readonly command: RecordCommand
  readonly answer: NodeAnswer
  readonly voting: boolean
  readonly before: NodeRecord | undefined
  readonly after: NodeRecord | undefined
}

const FULL = 'memory is full'
const NO_COUNTERS: Counters = { own: 0, others: new Map() }

export class SimulatedNode {
  readonly index: number
  readonly name: string
  /** Unique to every start of every node's process. */
  runId: number
  up = true
  incarnation: string | undefined
  quarantine: Quarantine | undefined
  heartbeat: Heartbeat | undefined
  /** Of its heartbeats, and as it notes those of others. */
  counters: Counters = NO_COUNTERS
  /** Called where the run of its process ends. */
  readonly onGone = new Set<() => void>()
  #occupied = { by: '', untilMs: 0 }
  role: 'master' | 'slave' = 'master'
  lineage: Lineage = NEVER_A_REPLICA
  /** It syncs each write before its answer. */
  durable = false
  startedNodeMs: number
  /** The cluster that it belongs to, as far as it remembers. */
  cluster: Cluster | undefined
  /** The process that is about to found a cluster with it, and until when. */
  founder: { readonly nonce: string; readonly untilNodeMs: number } | undefined
  readonly keys = new Set<string>()
  /** In this run of its process. */
  evictedKeys = 0
  readonly #scheduler: Scheduler
  #rate: number
  readonly #onExecuted: (executed: Executed) => void
  #wallOffsetMs: number
  #stoppedUntilMs = 0
  #full = { refuses: 'new_records' as 'new_records' | 'writes', untilMs: 0 }
  #embedded: EmbeddedNode
  /** While a log is read, the time of the entry. */
  #replayedMs: number | undefined
  #log: (Logged & { readonly atMs: number })[] = []

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
    this.startedNodeMs = Math.floor(this.nodeMs)
    this.setIncarnation(incarnationFor(String(this.runId), 'first', Math.floor(this.nodeMs)))
  }

  get nodeMs(): number {
    return this.#replayedMs ?? INCARNATION_WALL_MS + this.#scheduler.nowMs * this.#rate + this.#wallOffsetMs
  }

  /** Its incarnation stands and names the process that runs now. */
  get voting(): boolean {
    return hasJoined({ runId: String(this.runId), incarnation: this.incarnation })
  }

  get size(): number {
    return this.#embedded.size
  }

  /** Executes a command of any sender, however late; `incarnation` is the one that the sender knows of this node. */
  execute(command: RecordCommand, incarnation: string | undefined): NodeAnswer {
    const before = this.peek(command.key)
    this.#embedded.takesNewClaims = !this.full
    const answer = this.#withoutMemory(command) ?? this.#embedded.apply(command)
    if (command.kind !== 'read') this.#write({ kind: 'command', command, nodeMs: this.nodeMs })
    this.keys.add(command.key)
    const voting = this.voting && incarnation === this.incarnation
    this.#onExecuted({ node: this.index, command, answer, voting, before, after: this.peek(command.key) })
    return voting
      ? answer
      : { kind: 'quarantined', nodeMs: answer.kind === 'unreachable' ? 0 : answer.nodeMs }
  }

  /** Until then it refuses new claims, or every write that grows. */
  fill(refuses: 'new_records' | 'writes', untilMs: number): void {
    this.#full = { refuses, untilMs }
  }

  get full(): boolean {
    return this.#scheduler.nowMs < this.#full.untilMs
  }

  /** Its refusal where it has no memory for a growing write; undefined where it executes the command. */
  #withoutMemory(command: RecordCommand): NodeAnswer | undefined {
    if (!this.full || this.#full.refuses !== 'writes') return undefined
    const { answer, write } = applyCommand(
      this.peek(command.key),
      command,
      Math.floor(this.nodeMs),
      MAX_TOKEN_AHEAD_MS,
    )
    // Promises, renewals and releases are no larger than the record that they replace.
    if (write === undefined || (answer.kind !== 'granted' && answer.kind !== 'recorded')) return undefined
    return { kind: 'unreachable', reason: 'refused', answered: true, full: true, detail: FULL }
  }

  /** The record that stands, for the checkers. */
  peek(key: string): NodeRecord | undefined {
    return this.#embedded.kept(key)?.record
  }

  kept(key: string): { readonly record: NodeRecord; readonly ttlMs: number } | undefined {
    return this.#embedded.kept(key)
  }

  /** Over the records of requests; a leadership record is kept for a day. */
  longestTtlMs(): number {
    const keys = [...this.keys].filter((key) => key !== LEADERSHIP)
    return Math.max(0, ...keys.map((key) => this.#embedded.kept(key)?.ttlMs ?? 0))
  }

  /** The remaining time of the lease that ends last. */
  longestLeaseMs(): number {
    const ends = [...this.keys].map((key) => {
      const record = this.#embedded.kept(key)?.record
      return record?.state === 'claimed' ? record.leaseUntilNodeMs : Number.NEGATIVE_INFINITY
    })
    return Math.max(0, ...ends.map((endMs) => endMs - this.nodeMs))
  }

  /** Stores a record as it is: the copy of a rejoin. */
  put(key: string, record: NodeRecord, ttlMs: number, catchUps: number): void {
    this.#embedded.put(key, record, ttlMs)
    this.#write({ kind: 'copy', key, record, ttlMs, nodeMs: this.nodeMs, catchUps })
    this.keys.add(key)
    this.#countCatchUps(catchUps)
  }

  /** Each of its records that is drawn. The process counts them, and its log has that they are gone. @returns how many */
  evict(drawn: (key: string) => boolean): number {
    const keys = new Set([...this.keys].filter((key) => this.kept(key) !== undefined && drawn(key)))
    this.evictedKeys += keys.size
    this.#lose(keys)
    this.#write({ kind: 'evicted', keys })
    return keys.size
  }

  #lose(keys: ReadonlySet<string>): void {
    const kept = [...this.keys].flatMap((key) => {
      const one = keys.has(key) ? undefined : this.kept(key)
      return one === undefined ? [] : [{ key, ...one }]
    })
    this.#embedded = this.#empty()
    for (const { key, record, ttlMs } of kept) this.#embedded.put(key, record, ttlMs)
    for (const key of keys) this.keys.delete(key)
  }

  #countCatchUps(catchUps: number): void {
    if (this.quarantine !== undefined) this.quarantine = { ...this.quarantine, catchUps }
  }

  setIncarnation(incarnation: string): void {
    this.incarnation = incarnation
    this.quarantine = undefined
    this.#write({ kind: 'incarnation', incarnation })
  }

  /** It may have forgotten promises of this incarnation. @param itLies what it says of others is taken away, too */
  revoke(incarnation: string, itLies = false): void {
    if (this.incarnation !== incarnation) return
    this.incarnation = undefined
    this.#write({ kind: 'revoked' })
    if (!itLies) return
    this.#keepHeartbeat(undefined, NO_COUNTERS)
    if (this.cluster !== undefined) this.#keepCluster({ ...this.cluster, quarantineMs: 0 })
  }

  /** The longest quarantine that anybody asked for stands. */
  raise(cluster: Cluster): void {
    const quarantineMs = Math.max(cluster.quarantineMs, this.cluster?.quarantineMs ?? 0)
    this.#keepCluster({ ...cluster, ...this.cluster, quarantineMs })
  }

  #keepCluster(cluster: Cluster): void {
    this.cluster = cluster
    this.#write({ kind: 'cluster', cluster })
  }

  setQuarantine(quarantine: Quarantine): void {
    this.quarantine = quarantine
    this.#write({ kind: 'quarantine', quarantine })
  }

  stepClock(ms: number): void {
    this.#wallOffsetMs += ms
  }

  /** Time service: the clock is right again, and keeps the right rate. Only while no lease is held, for this is a step itself. */
  setClockRight(aheadMs: number): void {
    this.#rate = 1
    this.#wallOffsetMs = aheadMs
  }

  stopFor(ms: number): void {
    this.#stoppedUntilMs = Math.max(this.#stoppedUntilMs, this.#scheduler.nowMs + ms)
  }

  resume(): void {
    this.#stoppedUntilMs = this.#scheduler.nowMs
  }

  /** A message arrives over a connection to the process `runId`: now, when the node resumes, or never. */
  arrive(runId: number, run: () => void): void {
    if (!this.up || this.runId !== runId) return
    if (this.#scheduler.nowMs >= this.#stoppedUntilMs) run()
    else this.#scheduler.at(this.#stoppedUntilMs, () => this.arrive(runId, run))
  }

  crash(): void {
    this.up = false
    for (const gone of this.onGone) gone()
  }

  /** Another run of the process, which reads the first `memory` of the log. */
  restart(memory: number): void {
    this.#startWith(this.#log.slice(0, Math.floor(this.#log.length * memory)))
  }

  /** Another run of the process, which reads the log up to that time on the clock of the history. */
  restartAsOf(untilMs: number): void {
    this.#startWith(this.#log.filter(({ atMs }) => atMs <= untilMs))
  }

  /**
   * @returns the heartbeat that stands; undefined where it does not vote under this incarnation. As `lua/heartbeat.lua` has it: at most one in
   * `everyMs`
   */
  writeHeartbeat(
    incarnation: string,
    { name, durable, others: known }: Pick<Heartbeat, 'name' | 'durable' | 'others'>,
    noted: ReadonlyMap<string, string>,
    everyMs: number,
  ): number | undefined {
    if (!this.voting || this.incarnation !== incarnation) return undefined
    const runId = String(this.runId)
    const [nodeMs, last] = [Math.floor(this.nodeMs), this.heartbeat]
    if (
      last?.runId === runId &&
      last.name === name &&
      last.durable === durable &&
      Math.abs(nodeMs - last.nodeMs) < everyMs
    )
      return last.nodeMs
    const others = new Map(last?.others)
    for (const [other, ms] of known) if (ms > (others.get(other) ?? 0)) others.set(other, ms)
    this.#keepHeartbeat({ name, durable, others, nodeMs, runId }, this.#noting(noted, this.counters.own + 1))
    return nodeMs
  }

  /** What is known of the counters of others. */
  note(incarnation: string, noted: ReadonlyMap<string, string>): void {
    if (this.voting && this.incarnation === incarnation)
      this.#keepHeartbeat(this.heartbeat, this.#noting(noted, this.counters.own))
  }

  #keepHeartbeat(heartbeat: Heartbeat | undefined, counters: Counters): void {
    this.heartbeat = heartbeat
    this.counters = counters
    this.#write({ kind: 'heartbeat', heartbeat, counters })
  }

  /** The counter of an earlier rejoin says nothing about a later one. */
  #noting(noted: ReadonlyMap<string, string>, own: number): Counters {
    const others = new Map(this.counters.others)
    for (const [name, note] of noted) {
      const [[nonce, counter], [before, known]] = [splitNote(note), splitNote(others.get(name) ?? '')]
      if (nonce !== before || counter > known) others.set(name, note)
    }
    return { own, others }
  }

  /** Whoever took the work on it first has it for so long. */
  occupy(by: string, ms: number): boolean {
    if (![undefined, by].includes(this.occupiedBy)) return false
    this.#occupied = { by, untilMs: this.#scheduler.nowMs + ms }
    return true
  }

  get occupiedBy(): string | undefined {
    const { by, untilMs } = this.#occupied
    return untilMs > this.#scheduler.nowMs ? by : undefined
  }

  #write(entry: Logged): void {
    this.#log.push({ ...entry, atMs: this.#scheduler.nowMs })
  }

  /** Its machine is restored, memory and processes included: the same run of the process has the data of then. Its clock is right. */
  rewindTo(atMs: number): void {
    this.#forget()
    this.#read(this.#log.filter((entry) => entry.atMs <= atMs))
  }

  #startWith(kept: (Logged & { readonly atMs: number })[]): void {
    this.#forget()
    this.runId += 1
    this.up = true
    for (const gone of this.onGone) gone()
    this.startedNodeMs = Math.floor(this.nodeMs)
    this.evictedKeys = 0
    this.#stoppedUntilMs = 0
    this.#read(kept)
  }

  #read(kept: (Logged & { readonly atMs: number })[]): void {
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
        this.#countCatchUps(entry.catchUps)
        return
      case 'incarnation':
        this.incarnation = entry.incarnation
        this.quarantine = undefined
        return
      case 'cluster':
        this.cluster = entry.cluster
        return
      case 'revoked':
        this.incarnation = undefined
        return
      case 'quarantine':
        this.quarantine = entry.quarantine
        return
      case 'heartbeat':
        this.heartbeat = entry.heartbeat
        this.counters = entry.counters
        return
      case 'evicted':
        this.#lose(entry.keys)
    }
  }

  #forget(): void {
    this.#embedded = this.#empty()
    this.keys.clear()
    this.incarnation = undefined
    this.quarantine = undefined
    this.heartbeat = undefined
    this.counters = NO_COUNTERS
    this.cluster = undefined
    this.founder = undefined
  }

  #empty(): EmbeddedNode {
    return new EmbeddedNode(this.name, () => this.nodeMs, MAX_TOKEN_AHEAD_MS)
  }
}
