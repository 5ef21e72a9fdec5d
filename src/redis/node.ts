/**
 * One Redis node behind the `RecordNode` port: connection, deadline, batching, epoch.
 *
 *   down → inspecting → voting | quarantined | unfit → down (connection lost)
 *
 * Owns a connection and what is known of the process at its other end. All commands that fall into one turn of the event
 * loop travel as one call of the batch script: five nodes and two rounds a request make the number of calls, not their
 * content, the cost. Nothing is queued while the connection is down and nothing is sent again after it broke: whoever
 * asked has a deadline and other nodes. Whether a node may vote is decided in `enrolment.ts`; how votes count, elsewhere.
 */

import type { Redis } from 'ioredis'
import type { Events } from '../core/events.ts'
import type { Clock, NodeAnswer, RecordNode } from '../core/ports.ts'
import type { RecordCommand } from '../core/record/record.ts'
import { callBatch } from './batch.ts'
import type { Script } from './scripts.ts'
import { decodeAnswer, encodeCommand } from './wire.ts'

/** Most commands in one call: bounds how long a node is busy with one sidecar (some 10 µs a command). */
export const BATCH_MAX_COMMANDS = 128

/** Most bytes of arguments in one call; a single larger command still travels, alone. */
export const BATCH_MAX_BYTES = 1024 * 1024

/**
 * Most calls that a node may owe us while one of them is overdue. A process that stands still keeps its connection: without
 * a limit every command of that time would be kept, and carried out when it goes on, long after anybody waits.
 */
export const OWED_MAX_CALLS = 16

/** A vote for a lease that was over when we read it: this process stood still for longer than the lease lasts. */
const OVER: NodeAnswer = {
  kind: 'unreachable',
  reason: 'timeout',
  answered: true,
  detail: 'read when the lease that it speaks of was over',
}

/** An epoch that no node has: its scripts answer that the epoch does not stand. */
export const NO_EPOCH = ''

export type RedisNodeOptions = {
  readonly name: string
  readonly client: Redis
  readonly script: Script
  /** Longest wait for the answer to a command, from the moment it was asked. */
  readonly deadlineMs: number
  readonly maxTokenAheadMs: number
  readonly clock: Clock
  readonly events: Events
  /** Called when the node answers that its epoch does not stand any more. */
  readonly onForgot?: () => void
}

type Asked = {
  readonly command: RecordCommand
  readonly askedMonoMs: number
  readonly answer: (answer: NodeAnswer) => void
}

export class RedisNode implements RecordNode {
  readonly name: string
  readonly #options: RedisNodeOptions
  #epoch: string | undefined
  #waiting: Asked[] = []
  #waitingBytes = 0
  #flushing = false
  /** Calls that are not answered yet, and those of them whose deadline is over. */
  #owed = 0
  #overdue = 0

  constructor(options: RedisNodeOptions) {
    this.name = options.name
    this.#options = options
  }

  /** Where `undefined`, nothing is sent: the process at the other end is not known, or must not be used. */
  useEpoch(epoch: string | undefined): void {
    this.#epoch = epoch
  }

  get epoch(): string | undefined {
    return this.#epoch
  }

  execute(command: RecordCommand): Promise<NodeAnswer> {
    const askedMonoMs = this.#options.clock.monoMs()
    return new Promise((resolve) => {
      const asked: Asked = {
        command,
        askedMonoMs,
        answer: (answer) => this.#answered(asked, answer, resolve),
      }
      if (this.#epoch === undefined || this.#options.client.status !== 'ready') {
        asked.answer({
          kind: 'unreachable',
          reason: 'refused',
          detail: `not connected (${this.#options.client.status})`,
        })
        return
      }
      this.#enqueue(asked)
    })
  }

  #answered(asked: Asked, read: NodeAnswer, resolve: (answer: NodeAnswer) => void): void {
    const durationMs = this.#options.clock.monoMs() - asked.askedMonoMs
    const answer = isOver(asked.command, read, durationMs) ? OVER : read
    const detail =
      answer.kind === 'unreachable'
        ? { unreachable: answer.reason, detail: `${answer.reason}: ${answer.detail}` }
        : {}
    const { name: node } = this
    this.#options.events.publish({
      kind: 'node_answered',
      node,
      command: asked.command.kind,
      answer: answer.kind,
      durationMs,
      ...detail,
    })
    resolve(answer)
  }

  #enqueue(asked: Asked): void {
    const bytes = asked.command.kind === 'complete' ? asked.command.outcome.length : 0
    if (this.#waiting.length >= BATCH_MAX_COMMANDS || this.#waitingBytes + bytes > BATCH_MAX_BYTES)
      this.#flush()
    this.#waiting.push(asked)
    this.#waitingBytes += bytes
    if (this.#flushing) return
    this.#flushing = true
    // After the callbacks of this turn, and before the loop waits for sockets again: a lone command loses no time.
    setImmediate(() => {
      this.#flushing = false
      this.#flush()
    })
  }

  #flush(): void {
    const batch = this.#waiting
    if (batch.length === 0) return
    this.#waiting = []
    this.#waitingBytes = 0
    if (this.#overdue > 0 && this.#owed >= OWED_MAX_CALLS) {
      const detail = `${this.#owed} calls are unanswered, ${this.#overdue} of them overdue`
      for (const asked of batch)
        asked.answer({ kind: 'unreachable', reason: 'refused', detail, silent: true })
      return
    }
    void this.#send(batch)
  }

  /** Settles every command of the batch, within the deadline of the node, exactly once. */
  async #send(batch: readonly Asked[]): Promise<void> {
    const { deadlineMs, clock } = this.#options
    let settled = false
    const settle = (answers: (index: number) => NodeAnswer) => {
      if (settled) return
      settled = true
      for (const [index, asked] of batch.entries()) asked.answer(answers(index))
    }
    const detail = `no answer within ${deadlineMs} ms`
    // Timers run before sockets are read: after a stall of our own loop the answer may lie there already. It is read
    // first, so that only the node's own silence counts as silence.
    let overdue = false
    const timer = clock.timer(deadlineMs, () => {
      setImmediate(() => {
        if (settled) return
        overdue = true
        this.#overdue += 1
        settle(() => ({ kind: 'unreachable', reason: 'timeout', detail }))
      })
    })
    this.#owed += 1
    try {
      const answers = await this.#call(batch.map((asked) => asked.command))
      settle(
        (index) =>
          answers[index] ?? { kind: 'unreachable', reason: 'error', detail: 'no answer in the reply' },
      )
    } catch (cause) {
      settle(() => ({
        kind: 'unreachable',
        reason: 'error',
        detail: cause instanceof Error ? cause.message : String(cause),
      }))
    } finally {
      timer.cancel()
      this.#owed -= 1
      if (overdue) this.#overdue -= 1
    }
  }

  async #call(commands: readonly RecordCommand[]): Promise<NodeAnswer[]> {
    const { client, script, maxTokenAheadMs, onForgot } = this.#options
    const epoch = this.#epoch ?? NO_EPOCH
    const { nodeMs, enrolled, answers } = await callBatch(client, script, {
      epoch,
      maxTokenAheadMs,
      keys: commands.map((command) => command.key),
      args: commands.flatMap(encodeCommand),
    })
    if (this.#epoch !== epoch) throw new Error('the node was inspected anew meanwhile')
    if (!enrolled) {
      // It was flushed, or its data were replaced, while the connection lived on.
      if (epoch !== NO_EPOCH) onForgot?.()
      return answers.map(() => ({ kind: 'quarantined', nodeMs }))
    }
    return answers.map((answer) => {
      try {
        return decodeAnswer(answer, nodeMs)
      } catch (cause) {
        return {
          kind: 'unreachable',
          reason: 'error',
          detail: cause instanceof Error ? cause.message : String(cause),
          answered: true,
        }
      }
    })
  }
}

/** What was done stays true however late it is read, an outcome that was recorded above all. A lease does not. */
function isOver(command: RecordCommand, answer: NodeAnswer, elapsedMs: number): boolean {
  if (command.kind !== 'claim' && command.kind !== 'renew') return false
  return (answer.kind === 'granted' || answer.kind === 'renewed') && elapsedMs >= command.leaseMs
}
