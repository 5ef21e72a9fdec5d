/**
 * One Redis node behind the `RecordNode` port: connection, deadline, batching, incarnation.
 *
 *   down → inspecting → voting | quarantined | unfit → down (connection lost)
 *
 * Owns a connection and what is known of the process at its other end. Commands travel together, as one call of the
 * batch script: with five nodes and two rounds per request, the number of calls is the cost, not their content. All
 * commands of one turn of the event loop are one call, and while a call is unanswered new ones wait for its answer, for
 * a millisecond at most: so calls grow with the load, and a lone command does not wait. Commands are never queued while
 * the connection is down nor sent again after it broke: the caller has a deadline and other nodes. `rejoin.ts`
 * decides whether a node may vote; how votes count is elsewhere.
 */

import type { Redis } from 'ioredis'
import { type Clock, type Instant, now, type Timer } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import { errorText } from '../core/fault.ts'
import { NO_INCARNATION, type Voter } from '../core/nodes/member.ts'
import { describeMemory, type NodeMemory, takesNewClaims } from '../core/nodes/node-stats.ts'
import type { NodeAnswer, RecordNode } from '../core/ports.ts'
import { ageMs } from '../core/quorum/tally.ts'
import type { RecordCommand } from '../core/record/record.ts'
import { callBatch, type Frame, frameOf } from './batch.ts'
import type { Script } from './scripts.ts'
import { type BatchReply, decodeAnswers } from './wire.ts'

/** Most commands in one call: bounds how long a node is busy with one sidecar (some 3 µs a command). */
export const BATCH_MAX_COMMANDS = 128

/**
 * Longest wait of a command for the answer to the call before it. A machine at its limits answers sooner; over a long
 * way the answer comes later, and waiting for it would cost a round trip.
 */
export const GATHER_MS = 1

/** Most bytes of arguments in one call; a single larger command still travels, alone. */
export const BATCH_MAX_BYTES = 1024 * 1024

/**
 * Most calls in flight to a node while one of them is overdue. A suspended process keeps its connection: without a
 * limit every command of that time would be kept, and executed when it resumes, long after its caller has given up.
 */
export const MAX_IN_FLIGHT_CALLS = 16

/** Read too late: this process was suspended for longer than an answer may be old, or than the lease in it lasts. */
const OVER: NodeAnswer = {
  kind: 'unreachable',
  reason: 'timeout',
  answered: true,
  detail: 'read later than an answer counts',
}

export type RedisNodeOptions = {
  readonly name: string
  readonly client: Redis
  readonly script: Script
  /** Longest wait for the answer to a call, from its sending; a command waits up to {@link GATHER_MS} before. */
  readonly deadlineMs: number
  readonly maxTokenAheadMs: number
  /** An answer that is read later than this after it was requested does not count (`core/quorum/tally.ts`). */
  readonly answerMaxAgeMs: number
  /** Share of its memory that new claims may fill. Default: all. */
  readonly claimsMemoryShare?: number
  readonly clock: Clock
  readonly events: Events
  /** Called when the node answers that its incarnation is outdated, or that it is a replica. */
  readonly onForgot?: () => void
}

type Pending = {
  readonly command: RecordCommand
  readonly frame: Frame
  readonly requestedAt: Instant
  readonly resolve: (answer: NodeAnswer) => void
}

/** A call under way; settled: its commands were answered, or given up because it is overdue. */
type Call = { readonly batch: readonly Pending[]; readonly deadlineMonoMs: number; settled: boolean }

export class RedisNode implements RecordNode, Voter {
  readonly name: string
  readonly #options: RedisNodeOptions
  #incarnation: string | undefined
  #calls = 0
  /** Why it is sent no new claims, with its numbers. */
  #full: string | undefined
  #waiting: Pending[] = []
  #waitingBytes = 0
  #flushing = false
  #gathering: Timer | undefined
  /** Calls without an answer yet, oldest first, and how many of them are overdue. Few, and no set: see `core/short-lived.ts`. */
  readonly #inFlight: Call[] = []
  #overdue = 0
  #deadline: Timer | undefined

  constructor(options: RedisNodeOptions) {
    this.name = options.name
    this.#options = options
  }

  /** While `undefined` no command is sent: the process at the other end is unknown, or must not be used. */
  useIncarnation(incarnation: string | undefined): void {
    this.#incarnation = incarnation
  }

  get incarnation(): string | undefined {
    return this.#incarnation
  }

  /** With commands, so far. */
  get calls(): number {
    return this.#calls
  }

  /** Everything that the node takes until the next poll must fit into the room that new claims leave free. */
  sawMemory(memory: NodeMemory): void {
    const { claimsMemoryShare: shareMax = 1, events } = this.#options
    const full = takesNewClaims(memory, shareMax) ? undefined : describeMemory(memory, shareMax)
    const changed = (full === undefined) !== (this.#full === undefined)
    this.#full = full
    if (changed) events.publish({ kind: 'node_memory', node: this.name, full: full !== undefined, ...memory })
  }

  execute(command: RecordCommand): Promise<NodeAnswer> {
    return new Promise((resolve) => {
      const requestedAt = now(this.#options.clock)
      if (this.#incarnation === undefined || this.#options.client.status !== 'ready') {
        const detail = `not connected (${this.#options.client.status})`
        this.#answer({ command, requestedAt, resolve }, { kind: 'unreachable', reason: 'refused', detail })
        return
      }
      let frame: Frame
      try {
        frame = frameOf(command)
      } catch (cause) {
        const detail = errorText(cause)
        this.#answer(
          { command, requestedAt, resolve },
          { kind: 'unreachable', reason: 'error', detail, answered: true },
        )
        return
      }
      this.#enqueue({ command, frame, requestedAt, resolve })
    })
  }

  #answer(
    { command, requestedAt, resolve }: Omit<Pending, 'frame'>,
    read: NodeAnswer,
    at = now(this.#options.clock),
  ): void {
    const durationMs = at.monoMs - requestedAt.monoMs
    const answer = this.#isOver(command, read, ageMs(requestedAt, at)) ? OVER : read
    const event = {
      kind: 'node_answered',
      node: this.name,
      command: command.kind,
      answer: answer.kind,
      durationMs,
    } as const
    this.#options.events.publish(
      answer.kind === 'unreachable'
        ? {
            ...event,
            unreachable: answer.reason,
            answered: answer.answered === true,
            detail: `${answer.reason}: ${answer.detail}`,
          }
        : event,
    )
    // It is a replica by now: whoever polls before it is promoted need not find that out afterwards.
    if (answer.kind === 'unreachable' && answer.detail.includes('READONLY')) this.#options.onForgot?.()
    resolve(answer)
  }

  /** A lease may be over sooner than that. A recorded outcome stays: a retry is answered the same. */
  #isOver(command: RecordCommand, answer: NodeAnswer, elapsedMs: number): boolean {
    if (answer.kind === 'unreachable') return false
    if (elapsedMs > this.#options.answerMaxAgeMs) return true
    if (command.kind !== 'claim' && command.kind !== 'renew') return false
    return (answer.kind === 'granted' || answer.kind === 'renewed') && elapsedMs >= command.leaseMs
  }

  #enqueue(pending: Pending): void {
    const bytes = pending.frame.bytes.length
    if (this.#waitingBytes + bytes > BATCH_MAX_BYTES && this.#waiting.length > 0) this.#send()
    this.#waiting.push(pending)
    this.#waitingBytes += bytes
    if (this.#waiting.length >= BATCH_MAX_COMMANDS) this.#send()
    else this.#flushSoon()
  }

  #flushSoon(): void {
    if (this.#flushing || this.#gathering !== undefined) return
    this.#flushing = true
    // After the callbacks of this turn, and before the loop waits for sockets again: a lone command loses no time.
    setImmediate(() => {
      this.#flushing = false
      if (this.#inFlight.length === this.#overdue) this.#send()
      else if (this.#waiting.length > 0)
        this.#gathering ??= this.#options.clock.timer(GATHER_MS, () => {
          this.#gathering = undefined
          this.#send()
        })
    })
  }

  #send(): void {
    this.#gathering?.cancel()
    this.#gathering = undefined
    const batch = this.#waiting
    if (batch.length === 0) return
    this.#waiting = []
    this.#waitingBytes = 0
    if (this.#overdue > 0 && this.#inFlight.length >= MAX_IN_FLIGHT_CALLS) {
      const detail = `${this.#inFlight.length} calls are unanswered, ${this.#overdue} of them overdue`
      for (const pending of batch)
        this.#answer(pending, { kind: 'unreachable', reason: 'refused', detail, silent: true })
      return
    }
    const deadlineMonoMs = this.#options.clock.monoMs() + this.#options.deadlineMs
    const call: Call = { batch, deadlineMonoMs, settled: false }
    this.#calls += 1
    this.#inFlight.push(call)
    this.#watchDeadline()
    void this.#carryOut(call)
  }

  /** Settles every command of the call, unless its deadline did. */
  async #carryOut(call: Call): Promise<void> {
    const { client, script, maxTokenAheadMs } = this.#options
    const incarnation = this.#incarnation ?? NO_INCARNATION
    const full = this.#full
    let answers: readonly NodeAnswer[] | Error
    try {
      const frames = call.batch.map((pending) => pending.frame)
      const batch = { incarnation, maxTokenAheadMs, frames, full: full !== undefined }
      answers = this.#answersOf(await callBatch(client, script, batch), incarnation, full)
    } catch (cause) {
      answers = cause instanceof Error ? cause : new Error(String(cause))
    }
    this.#inFlight.splice(this.#inFlight.indexOf(call), 1)
    if (call.settled) this.#overdue -= 1
    else this.#settle(call, answers)
    // Commands that waited for this answer go now, together with those that follow from it.
    if (this.#waiting.length > 0) {
      this.#gathering?.cancel()
      this.#gathering = undefined
      this.#flushSoon()
    }
  }

  #settle(call: Call, answers: readonly NodeAnswer[] | Error): void {
    call.settled = true
    const at = now(this.#options.clock)
    const detail = answers instanceof Error ? answers.message : 'no answer in the reply'
    const lost: NodeAnswer = { kind: 'unreachable', reason: 'error', detail }
    let index = 0
    for (const pending of call.batch) {
      this.#answer(pending, answers instanceof Error ? lost : (answers[index] ?? lost), at)
      index += 1
    }
  }

  /** One timer for all calls of the node, for the next deadline. */
  #watchDeadline(): void {
    if (this.#deadline !== undefined) return
    let next: Call | undefined
    for (const call of this.#inFlight) {
      if (call.settled) continue
      next = call
      break
    }
    if (next === undefined) return
    const { clock } = this.#options
    this.#deadline = clock.timer(Math.max(0, next.deadlineMonoMs - clock.monoMs()), () => {
      // Timers run before sockets are read: after a stall of our own loop the answer may be there already. It is read
      // first, so that only the node's own silence counts as silence.
      setImmediate(() => {
        this.#deadline = undefined
        this.#giveUp()
        this.#watchDeadline()
      })
    })
  }

  #giveUp(): void {
    const { clock, deadlineMs } = this.#options
    const monoMs = clock.monoMs()
    for (const call of this.#inFlight) {
      if (call.settled || call.deadlineMonoMs > monoMs) continue
      this.#overdue += 1
      call.settled = true
      const detail = `no answer within ${deadlineMs} ms`
      for (const pending of call.batch)
        this.#answer(pending, { kind: 'unreachable', reason: 'timeout', detail })
    }
  }

  /** @param incarnation the one that the call was sent with, as `full` */
  #answersOf(reply: BatchReply, incarnation: string, full: string | undefined): readonly NodeAnswer[] {
    if (this.#incarnation !== incarnation) throw new Error('the node was inspected anew meanwhile')
    if (reply.joined) return decodeAnswers(reply, full)
    // It was flushed, or its data were replaced, while the connection lived on.
    if (incarnation !== NO_INCARNATION) this.#options.onForgot?.()
    const uncounted: NodeAnswer = { kind: 'quarantined', nodeMs: reply.nodeMs }
    return reply.lines.map(() => uncounted)
  }
}
