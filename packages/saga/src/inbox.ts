/**
 * The consumer without its broker: a delivery in, a verdict out.
 *
 *     inbox row first → handler, in the same transaction → COMMIT → only then the broker gets its verdict
 *
 * Verdicts:
 *   processed, or processed before          ack
 *   held by another holder, not its turn     again later, no attempt spent
 *   failed                                   again later, one attempt spent, up to `maxAttempts`
 *   refused by the business, or compensated  its end, recorded with the reason, then ack; nothing waits behind it
 *   cannot succeed, or attempts exhausted    a dead letter, committed, then ack; its sequence waits behind it
 *   no mapping reads it, or no handler       a dead letter beside every sequence, then ack (`unhandled.ts`)
 * The inbox counts attempts, because brokers count differently or not at all.
 *
 * A delivery without an end means that its process died, and so did everything beside it. After `suspectAfter` of them a
 * message is a suspect and handled alone (`concurrent-deliveries.ts`); further ones count only from then on.
 */
import { inThisProcess } from './concurrent-deliveries.ts'
import { jitteredDelayMs, pause } from './core.ts'
import { asked, isOutage } from './database.ts'
import { errorCode, errorText, finalOutcomeOf, isHopeless } from './error-meaning.ts'
import {
  LockNotAcquiredError,
  NeverEndedError,
  OperationInProgressError,
  UnhandledTypeError,
} from './errors.ts'
import type { ConsumedOutcome } from './events.ts'
import { FirstCheck } from './first-check.ts'
import { dayMs } from './idempotency.ts'
import { type Arrival, readDelivery } from './inbound.ts'
import { fencepostMessages } from './inbound-formats.ts'
import {
  answering,
  type InboxOptions,
  keepResult,
  NotAnswered,
  orderingKeyOf,
  passOnKept,
  type RetryPolicy,
  retryPolicies,
  unreadableKey,
} from './inbox-options.ts'
import {
  type Cause,
  deadLetterInbound,
  type Entrance,
  type Entry,
  enter,
  noteAttempt,
  noteBegun,
  noteDeferred,
  noteFinal,
  storedId,
} from './inbox-rows.ts'
import { transactionOfInbox } from './inbox-transaction.ts'
import type { SagaKit } from './kit.ts'
import {
  type Delivery,
  type Handler,
  hashOfBody,
  type InboundMessage,
  type Received,
  type Verdict,
} from './messages.ts'
import { requireNotNegative, requirePositive } from './option-checks.ts'
import { payloadOf } from './payload.ts'
import { handlingMessage } from './saga-step-rows.ts'
import { inProcessSpan } from './trace-context.ts'
import { endUnhandled, type Unhandled, unmapped } from './unhandled.ts'

/** After this many deliveries without an end a message is a suspect: it may have killed its process, or a neighbour has. */
export const suspectAfter = 2

/** After this many deliveries without an end, the last of them alone, a message becomes a dead letter unopened. */
export const unfinishedMax = 5

/** Tries in place of one delivery, so that no message is kept from the broker for ever. */
const inPlaceMax = 10

/** Delay before the retry of a message that met an unreachable database. */
const outageDelayMs = 1_000

export class Inbox {
  readonly #options: InboxOptions
  readonly #policyOf: (type: string) => Required<RetryPolicy>
  readonly #retentionMs: number
  readonly #retryInPlaceMs: number
  readonly #firstCheck: FirstCheck | undefined
  #stopping = false
  /** The last delivery in flight for each ordering key, in this process. */
  readonly #tails = new Map<string, Promise<unknown>>()

  constructor(options: InboxOptions) {
    this.#options = options
    this.#retentionMs = options.retentionMs ?? 7 * dayMs
    this.#retryInPlaceMs = options.retryInPlaceMs ?? 1_000
    const { kit, consumerId, quorum } = options
    requirePositive({ retentionMs: this.#retentionMs })
    requireNotNegative({ retryInPlaceMs: this.#retryInPlaceMs })
    this.#firstCheck = quorum === undefined ? undefined : new FirstCheck(kit, consumerId, quorum)
    this.#policyOf = retryPolicies(options.retry ?? {}, this.#retentionMs)
  }

  /** Never rejects. */
  async deliver(delivery: Delivery): Promise<Verdict> {
    let arrival: Arrival
    try {
      arrival = readDelivery(this.#options.inbound ?? fencepostMessages, delivery)
    } catch (error) {
      return this.#endUnhandled({ reason: 'unmapped', delivery, error: unmapped(error) })
    }
    return this.#receive(arrival)
  }

  /** A message that is read already. Never rejects. */
  receive(message: InboundMessage): Promise<Verdict> {
    return this.#receive({ message })
  }

  async #receive(arrival: Arrival): Promise<Verdict> {
    const { handlers, consumerId } = this.#options
    const { message } = arrival
    const handler = Object.hasOwn(handlers, message.type) ? handlers[message.type] : undefined
    if (handler === undefined) {
      const error = new UnhandledTypeError(consumerId, message.type)
      return this.#endUnhandled({ reason: 'unhandled_type', ...arrival, error })
    }
    let key: string | null
    try {
      key = orderingKeyOf(this.#options.orderingKey, arrival)
    } catch (error) {
      return this.#handleInPlace(arrival, unreadableKey(error), null)
    }
    if (key === null) return this.#handleInPlace(arrival, handler, key)
    const before = this.#tails.get(key)
    const mine = (before ?? Promise.resolve()).then(() => this.#handleInPlace(arrival, handler, key))
    this.#tails.set(key, mine)
    const verdict = await mine
    if (this.#tails.get(key) === mine) this.#tails.delete(key)
    return verdict
  }

  async #endUnhandled(unhandled: Unhandled): Promise<Verdict> {
    const { kit, consumerId, onUnhandled = 'dead-letter' } = this.#options
    try {
      return await endUnhandled(kit, consumerId, this.#retentionMs, onUnhandled, unhandled)
    } catch (error) {
      kit.emit({ kind: 'consumer_error', consumerId, error })
      return { kind: 'again', delayMs: outageDelayMs }
    }
  }

  async #handleInPlace(arrival: Arrival, handler: Handler, key: string | null): Promise<Verdict> {
    const handle = () => this.#handle(arrival, handler, key)
    for (let attempt = 1; ; ) {
      const end: End = await (this.#firstCheck?.around(arrival.message, handle) ?? handle())
      const verdict: Verdict = end.kind === 'away' ? { ...end, kind: 'again' } : end
      if (verdict.kind !== 'again' || this.#stopping) return verdict
      if (end.kind !== 'away' || key === null) {
        if (verdict.delayMs > this.#retryInPlaceMs || attempt === inPlaceMax) return verdict
        attempt += 1
      }
      await pause(this.#options.kit.clock, verdict.delayMs)
    }
  }

  /** From now on gives messages back to the broker instead of retrying here. */
  stop(): void {
    this.#stopping = true
  }

  async #handle(arrival: Arrival, handler: Handler, orderingKey: string | null): Promise<End> {
    const { kit, consumerId } = this.#options
    const { message, delivery } = arrival
    const entry: Entry = {
      consumerId,
      message: { ...message, messageId: storedId(message.messageId) },
      hash: hashOfBody(delivery ?? message),
      orderingKey,
      retentionMs: this.#retentionMs,
      ...(delivery === undefined ? {} : { delivery }),
    }
    const beganMonoMs = kit.clock.monoMs()
    const report = (outcome: ConsumedOutcome, error?: unknown) =>
      kit.emit({
        kind: 'consumed',
        consumerId,
        type: message.type,
        outcome,
        durationMs: kit.clock.monoMs() - beganMonoMs,
        ...(outcome === 'processed' ? criticalTimeOf(kit, message) : {}),
        ...(error === undefined ? {} : { error }),
      })
    try {
      const wasStopping = this.#stopping
      const suspect = message.redelivered && (await noteBegun(kit, entry, suspectAfter)) >= suspectAfter
      const leave = await inThisProcess.enter(kit.clock, suspect)
      try {
        // It has waited until now: whoever takes over need not wait for it as well.
        if (this.#stopping && !wasStopping) return { kind: 'again', delayMs: 0 }
        if (suspect && (await noteBegun(kit, entry, unfinishedMax + 1)) > unfinishedMax)
          throw new NeverEndedError(unfinishedMax)
        return await inProcessSpan(message.headers, consumerId, message.messageId, () =>
          this.#attempt(arrival, entry, handler, report),
        )
      } finally {
        leave()
      }
    } catch (error) {
      return await this.#failed(entry, error, report).catch((second: unknown) => {
        kit.emit({ kind: 'consumer_error', consumerId, error: second })
        return isOutage(second) ? away : ({ kind: 'again', delayMs: outageDelayMs } as const)
      })
    }
  }

  async #attempt(arrival: Arrival, entry: Entry, handler: Handler, report: Report): Promise<Verdict> {
    const { kit, schemas, transaction } = this.#options
    const onProcessed = answering(this.#options.onProcessed)
    const received: Received = { ...arrival.message, payload: await payloadOf(arrival, schemas) }
    let result: unknown
    if (typeof handler !== 'function') {
      const early = await this.#lookAhead(entry)
      if (early?.kind === 'done') await passOnKept(kit, entry, received, onProcessed)
      if (early !== undefined) return this.#verdictOf(entry, early, report)
      const { consumerId, message } = entry
      result = await handlingMessage({ consumerId, messageId: message.messageId }, () =>
        handler.outside(received),
      )
    }
    const entrance = await transactionOfInbox(kit, transaction, async (tx, own) => {
      const entered = await asked(enter(kit, tx, entry))
      if (entered.kind === 'go') {
        if (typeof handler === 'function') result = await handler(tx, received, own)
        if (onProcessed !== undefined) result = await keepResult(kit, tx, entry, result)
      }
      if (entered.kind === 'behind') await deadLetterInbound(kit, tx, entry, behind, true)
      return entered
    })
    if (entrance.kind === 'go') await onProcessed?.(received, { replayed: false, result })
    if (entrance.kind === 'done') await passOnKept(kit, entry, received, onProcessed)
    return this.#verdictOf(entry, entrance, report)
  }

  /** For a handler that works outside: the same checks first, in a transaction that is rolled back. */
  async #lookAhead(entry: Entry): Promise<Entrance | undefined> {
    const { kit } = this.#options
    return kit
      .transaction(async (tx) => {
        const entered = await enter(kit, tx, entry)
        if (entered.kind === 'behind') await deadLetterInbound(kit, tx, entry, behind, true)
        if (entered.kind === 'go') throw new LookedAhead()
        return entered
      })
      .catch((error: unknown) => {
        if (error instanceof LookedAhead) return undefined
        throw error
      })
  }

  async #verdictOf(entry: Entry, entrance: Entrance, report: Report): Promise<Verdict> {
    switch (entrance.kind) {
      case 'go':
        report('processed')
        return { kind: 'ack' }
      case 'done':
        report('duplicate')
        return { kind: 'ack' }
      case 'later':
        await noteDeferred(this.#options.kit, entry)
        report('defer')
        return { kind: 'again', delayMs: entrance.delayMs }
      case 'behind':
        report('dead_letter')
        return { kind: 'ack' }
    }
  }

  #isUnrecoverable(error: unknown, message: InboundMessage): boolean {
    const { kit, consumerId, unrecoverable } = this.#options
    try {
      return unrecoverable?.(error, message) === true
    } catch (second) {
      kit.emit({ kind: 'consumer_error', consumerId, error: second })
      return false
    }
  }

  async #failed(entry: Entry, thrown: unknown, report: Report): Promise<End> {
    const { kit, onExhausted = 'park-sequence' } = this.#options
    const unanswered = thrown instanceof NotAnswered
    const error = unanswered ? thrown.cause : thrown
    if (error instanceof OperationInProgressError || error instanceof LockNotAcquiredError) {
      await noteDeferred(kit, entry)
      report('defer', error)
      return { kind: 'again', delayMs: error.retryAfterMs }
    }
    if (isOutage(error)) {
      report('defer', error)
      // If the database is back: the delivery has ended, and the message keeps its place.
      await noteDeferred(kit, entry)
      return { kind: 'again', delayMs: outageDelayMs }
    }
    const message = errorText(error)
    const final = unanswered ? undefined : finalOutcomeOf(error)
    if (final !== undefined) {
      await noteFinal(kit, entry, message)
      report(final, error)
      return { kind: 'ack' }
    }
    const { maxAttempts, backoff } = this.#policyOf(entry.message.type)
    if (!isHopeless(error) && !this.#isUnrecoverable(error, entry.message)) {
      const { attempts, delayMs } = await noteAttempt(kit, entry, message, (count) =>
        jitteredDelayMs(backoff, count - 1, kit.random),
      )
      if (attempts < maxAttempts) {
        report('retry', error)
        return { kind: 'again', delayMs }
      }
    }
    if (unanswered) {
      // Its work is committed: as a dead letter it would be replayed.
      kit.emit({ kind: 'parked', what: `the answer to message ${entry.message.messageId}`, error })
      report('processed', error)
      return { kind: 'ack' }
    }
    const cause = { code: errorCode(error), message }
    const died = await kit.transaction((tx) =>
      deadLetterInbound(kit, tx, entry, cause, onExhausted === 'park-sequence'),
    )
    if (!died) {
      report('duplicate', error)
      return { kind: 'ack' }
    }
    kit.emit({ kind: 'parked', what: `message ${entry.message.messageId}`, error })
    report('dead_letter', error)
    return { kind: 'ack' }
  }
}

/**
 * `away`: the database is out of reach, or was not asked because the message is in progress elsewhere. So only this
 * process knows, and keeps, the message's place.
 */
type End = Verdict | { readonly kind: 'away'; readonly delayMs: number }

const away: End = { kind: 'away', delayMs: outageDelayMs }

type Report = (outcome: ConsumedOutcome, error?: unknown) => void

class LookedAhead extends Error {}

const behind: Cause = { code: 'behind', message: 'an earlier message of its sequence is dead' }

function criticalTimeOf(kit: SagaKit, message: InboundMessage): { criticalTimeMs?: number } {
  const writtenMs = Date.parse(message.createdAt)
  return Number.isNaN(writtenMs) ? {} : { criticalTimeMs: Math.max(0, kit.clock.wallMs() - writtenMs) }
}
