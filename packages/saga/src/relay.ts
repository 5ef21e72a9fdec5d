/**
 * Relays the outbox to a broker: at least once, and in order within an aggregate.
 *
 *     lease a partition → oldest rows of aggregates that are not stopped → send, in order within each aggregate,
 *     different aggregates concurrently → delete the confirmed rows, in one statement
 *
 * The second message of an aggregate is sent after the first one is confirmed, so a failure between them cannot reorder
 * them. A message that fails stops its aggregate for a while; after `maxAttempts` it is parked, by default with its
 * aggregate. A broker that is out of reach, says nothing or has no room costs no message an attempt.
 * Polling is the guarantee. NOTIFY (`notify.ts`) only wakes the poll earlier.
 */

import { keepProcessAlive } from './ambient.ts'
import { type Backoff, jitteredDelayMs } from './core.ts'
import { errorCode, errorText } from './error-meaning.ts'
import { BrokerUnavailableError, PublishDeferredError, PublishRefusedError } from './errors.ts'
import { type Housekeeping, startHousekeeping } from './housekeeping.ts'
import type { SagaKit } from './kit.ts'
import type { MessagePublisher } from './messages.ts'
import { outsideTransactions } from './open-transactions.ts'
import { given, requireBackoff, requirePositive, requireWhole } from './option-checks.ts'
import {
  type Batch,
  deadLetterOutbound,
  deleteConfirmed,
  nextBatch,
  noteFailed,
  type OutboxRow,
  partitionsWithWork,
} from './outbox-rows.ts'
import { PartitionLeases } from './partition-leases.ts'
import { explained } from './setup-errors.ts'
import { inSendSpan } from './trace-context.ts'

export type RelayOptions = {
  readonly kit: SagaKit
  readonly publisher: MessagePublisher
  /** Default: random. */
  readonly relayId?: string
  /** Messages of one partition that are read together, fewer if they are large. Default 100. */
  readonly batchSize?: number
  /** Between two polls of an empty outbox: the latency without NOTIFY. Default 100. */
  readonly pollIntervalMs?: number
  /** Within this time another relay takes over from a killed one. Default 10 s. */
  readonly leaseMs?: number
  /**
   * After this time without a confirm a message is sent again. On a webhook that costs it an attempt: a broker that says
   * nothing is away. Default 10 s.
   */
  readonly publishTimeoutMs?: number
  readonly retry?: { readonly maxAttempts?: number; readonly backoff?: Backoff }
  /** Default `park-aggregate`: events after a lost one may make no sense without it. */
  readonly onExhausted?: 'park-aggregate' | 'park-message'
}

export interface OutboxRelay extends AsyncDisposable {
  readonly relayId: string
  start(): void
  /** Sends what can be sent now, once; returns how many messages were confirmed. */
  drainOnce(): Promise<number>
  /** Polls now instead of at the next interval. */
  wake(): void
  /**
   * Finishes messages in flight, hands the partitions back (where the database is away they expire), and closes the publisher: the last relay that was created
   * with it does, so that nothing keeps the process.
   */
  stop(): Promise<void>
}

/** How many relays that are not stopped share a publisher. */
const relaysOf = new WeakMap<MessagePublisher, number>()

/** How much longer than a long look a partition is then left alone: a backlog that has to wait must not keep the database busy. */
const restFactor = 9

const unavailableBackoff: Backoff = { initialMs: 100, maxMs: 5_000 }

type Sent =
  | { readonly kind: 'confirmed'; readonly row: OutboxRow }
  | { readonly kind: 'failed'; readonly row: OutboxRow; readonly error: unknown }

export function createOutboxRelay(options: RelayOptions): OutboxRelay {
  return new Relay(options)
}

class Relay implements OutboxRelay {
  readonly relayId: string
  readonly #kit: SagaKit
  readonly #publisher: MessagePublisher
  readonly #settings: Required<Omit<RelayOptions, 'kit' | 'publisher' | 'relayId' | 'retry'>>
  readonly #maxAttempts: number
  readonly #backoff: Backoff
  readonly #leases: PartitionLeases
  readonly #draining = new Map<number, Promise<number>>()
  /** Until when partitions are left alone. */
  readonly #restingUntilMonoMs = new Map<number, number>()
  #refreshedMonoMs = Number.NEGATIVE_INFINITY
  #pausedUntilMonoMs = Number.NEGATIVE_INFINITY
  /** Failures to reach the broker in a row. */
  #outages = 0
  #running: Promise<void> | undefined
  #stopped = false
  #stopping: Promise<void> | undefined
  #housekeeping: Housekeeping | undefined
  #wake = Promise.withResolvers<void>()

  constructor({ kit, publisher, relayId, retry, ...settings }: RelayOptions) {
    this.#kit = kit
    this.#publisher = publisher
    this.relayId = relayId ?? `relay-${kit.random.hex(8)}`
    this.#settings = {
      batchSize: 100,
      pollIntervalMs: 100,
      leaseMs: 10_000,
      publishTimeoutMs: 10_000,
      onExhausted: 'park-aggregate',
      ...given(settings),
    }
    const { batchSize, pollIntervalMs, leaseMs, publishTimeoutMs } = this.#settings
    this.#maxAttempts = retry?.maxAttempts ?? 10
    this.#backoff = retry?.backoff ?? { initialMs: 100, maxMs: 60_000 }
    requireWhole({ batchSize, 'retry.maxAttempts': this.#maxAttempts })
    requirePositive({ pollIntervalMs, leaseMs, publishTimeoutMs })
    requireBackoff('retry.backoff', this.#backoff)
    this.#leases = new PartitionLeases(kit, this.relayId, this.#settings.leaseMs)
    relaysOf.set(publisher, (relaysOf.get(publisher) ?? 0) + 1)
  }

  start(): void {
    if (this.#stopped) return
    this.#housekeeping ??= startHousekeeping(this.#kit)
    this.#running ??= outsideTransactions(() => this.#run())
  }

  wake(): void {
    this.#wake.resolve()
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    this.#stopped = true
    this.wake()
    try {
      await Promise.all([this.#running, this.#housekeeping?.stop()])
      await Promise.allSettled(this.#draining.values())
      // They expire by themselves: who stops many things at once must not lose the others to a database that is away.
      await this.#leases.leave().catch((error: unknown) => this.#report(error))
    } finally {
      const others = (relaysOf.get(this.#publisher) ?? 1) - 1
      relaysOf.set(this.#publisher, others)
      if (others === 0) await this.#publisher.close()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  drainOnce(): Promise<number> {
    // In a transaction it would see what may never be committed.
    return outsideTransactions(() => this.#drainOnce())
  }

  async #drainOnce(): Promise<number> {
    await this.#leases.refresh()
    const ready = await partitionsWithWork(this.#kit, this.#leases.held)
    const counts = await Promise.all(ready.map((partition) => this.#drain(partition)))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  async #run(): Promise<void> {
    const release = keepProcessAlive()
    while (!this.#stopped) {
      this.#wake = Promise.withResolvers<void>()
      try {
        await this.#tick()
      } catch (error) {
        this.#report(error)
      }
      const timer = this.#kit.clock.timer(this.#settings.pollIntervalMs, () => this.wake())
      await this.#wake.promise
      timer.cancel()
    }
    release()
  }

  #report(error: unknown): void {
    this.#kit.emit({ kind: 'relay_error', relayId: this.relayId, error: explained(this.#kit, error) })
  }

  async #tick(): Promise<void> {
    const { clock } = this.#kit
    if (clock.monoMs() - this.#refreshedMonoMs >= this.#settings.leaseMs / 4) {
      await this.#leases.refresh()
      this.#refreshedMonoMs = clock.monoMs()
    }
    const idle = this.#leases.held.filter((partition) => !this.#draining.has(partition))
    await this.#leases.release(idle.slice(0, this.#leases.excess))
    const mine = idle.filter((partition) => this.#leases.holds(partition) && !this.#rests(partition))
    if (mine.length === 0 || clock.monoMs() < this.#pausedUntilMonoMs) return
    for (const partition of await partitionsWithWork(this.#kit, mine)) {
      const drained = this.#drain(partition)
        .catch((error: unknown) => {
          this.#report(error)
          return 0
        })
        .finally(() => this.#draining.delete(partition))
      this.#draining.set(partition, drained)
    }
  }

  #rests(partition: number): boolean {
    return (this.#restingUntilMonoMs.get(partition) ?? 0) > this.#kit.clock.monoMs()
  }

  /** A look is long where it reads past many messages that wait, of an aggregate that is stopped. */
  async #look(partition: number): Promise<Batch> {
    const { clock } = this.#kit
    const { batchSize, pollIntervalMs } = this.#settings
    const beganMonoMs = clock.monoMs()
    const batch = await nextBatch(this.#kit, partition, batchSize)
    const endedMonoMs = clock.monoMs()
    const overdueMs = endedMonoMs - beganMonoMs - pollIntervalMs
    if (!batch.full && overdueMs > 0)
      this.#restingUntilMonoMs.set(partition, endedMonoMs + overdueMs * restFactor)
    return batch
  }

  /** Batch after batch, while they are full, the lease is ours, and the broker accepts messages. */
  async #drain(partition: number): Promise<number> {
    let confirmed = 0
    for (;;) {
      const { rows, full } = await this.#look(partition)
      if (rows.length === 0) return confirmed
      const sent = await this.#sendAll(partition, rows)
      const through = sent.filter(({ kind }) => kind === 'confirmed')
      if (through.length > 0)
        await deleteConfirmed(
          this.#kit,
          through.map(({ row }) => row),
        )
      confirmed += through.length
      for (const one of sent) if (one.kind === 'failed') await this.#failed(one.row, one.error)
      const goOn = through.length > 0 && full
      if (!goOn || this.#stopped || this.#outages > 0 || !this.#leases.holds(partition)) return confirmed
    }
  }

  async #sendAll(partition: number, rows: readonly OutboxRow[]): Promise<readonly Sent[]> {
    const sequences = Map.groupBy(rows, ({ message }) => `${message.aggregateType}\0${message.aggregateId}`)
    const sent = await Promise.all(
      [...sequences.values()].map((sequence) => this.#sendInOrder(partition, sequence)),
    )
    return sent.flat()
  }

  /** Stops at the first failure: later messages must not overtake the failed one. */
  async #sendInOrder(partition: number, sequence: readonly OutboxRow[]): Promise<readonly Sent[]> {
    const sent: Sent[] = []
    for (const row of sequence) {
      if (!this.#leases.holds(partition)) break
      try {
        await this.#send(row)
        sent.push({ kind: 'confirmed', row })
        this.#outages = 0
      } catch (error) {
        sent.push({ kind: 'failed', row, error })
        break
      }
    }
    return sent
  }

  async #send(row: OutboxRow): Promise<void> {
    const { clock, emit } = this.#kit
    const { destination, headers, messageId } = row.message
    const beganMonoMs = clock.monoMs()
    const abort = new AbortController()
    const late = Promise.withResolvers<never>()
    const timer = clock.timer(this.#settings.publishTimeoutMs, () => {
      const error = this.#noConfirm()
      abort.abort(error)
      late.reject(error)
    })
    try {
      await inSendSpan(headers, destination, messageId, () =>
        Promise.race([this.#publisher.publish(row.message, abort.signal), late.promise]),
      )
      const durationMs = clock.monoMs() - beganMonoMs
      emit({ kind: 'published', destination, durationMs, ageMs: row.ageMs + durationMs })
    } finally {
      timer.cancel()
    }
  }

  #noConfirm(): Error {
    const { publishTimeoutMs } = this.#settings
    const words = `no confirm within ${publishTimeoutMs} ms`
    // Not the whole broker: one queue may have lost its majority, and the others go on.
    return this.#publisher.silenceIsOutage === true
      ? new PublishDeferredError(words, publishTimeoutMs)
      : new PublishRefusedError(words)
  }

  async #failed(row: OutboxRow, error: unknown): Promise<void> {
    const { clock, emit, random } = this.#kit
    emit({ kind: 'publish_failed', destination: row.message.destination, error })
    if (error instanceof BrokerUnavailableError) {
      // One outage, however many messages and partitions met it.
      if (clock.monoMs() < this.#pausedUntilMonoMs) return
      const pauseMs = jitteredDelayMs(unavailableBackoff, this.#outages, random)
      this.#outages += 1
      this.#pausedUntilMonoMs = clock.monoMs() + pauseMs
      return
    }
    const message = errorText(error)
    if (error instanceof PublishDeferredError) {
      await noteFailed(this.#kit, row, row.attempts, message, error.retryAfterMs)
      return
    }
    const attempts = row.attempts + 1
    if (attempts < this.#maxAttempts) {
      await noteFailed(
        this.#kit,
        row,
        attempts,
        message,
        jitteredDelayMs(this.#backoff, row.attempts, random),
      )
      return
    }
    const failure = { code: errorCode(error), message }
    await deadLetterOutbound(this.#kit, row, failure, this.#settings.onExhausted === 'park-aggregate')
    emit({ kind: 'parked', what: `message ${row.message.messageId}`, error })
  }
}
