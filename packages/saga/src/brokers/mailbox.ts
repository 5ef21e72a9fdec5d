/**
 * Delivery inside the database, without a broker: the relay moves a message from the outbox into the queue that its
 * destination names, and a consumer takes it from there.
 *
 * Owns the table `mailbox`. A taken message is invisible for `visibilityMs`, renewed while its handler runs, and
 * becomes visible again when its consumer dies. Until then, what is behind it in its aggregate waits: only the session
 * that has the earlier message may take it, and its inbox keeps the order. For one database that serves both sides; throughput is that of the
 * database.
 */
import { isOutage } from '../database.ts'
import { BrokerUnavailableError, PublishRefusedError } from '../errors.ts'
import type { SagaKit } from '../kit.ts'
import { type MessagePublisher, type MessageSubscriber, propertiesOf, propertyHeader } from '../messages.ts'
import { requirePositive } from '../option-checks.ts'
import { type Deliveries, type Session, subscriberOf } from './deliveries.ts'

/** Publishes into the queues that the destination names, separated by commas. */
export function createMailboxPublisher(kit: SagaKit): MessagePublisher {
  return {
    silenceIsOutage: true,
    async publish(message) {
      const queues = message.destination.split(',').map((queue) => queue.trim())
      try {
        await kit.query(
          `INSERT INTO ${kit.schema}.mailbox (queue, message_id, body, properties)
           SELECT unnest($1::text[]), $2, $3, $4`,
          [queues, message.messageId, message.body, { ...message.headers, ...propertiesOf(message) }],
        )
      } catch (error) {
        if (isOutage(error)) throw new BrokerUnavailableError('database out of reach', { cause: error })
        throw new PublishRefusedError('the mailbox refused the message', { cause: error })
      }
    },
    async close() {},
  }
}

export type MailboxOptions = {
  readonly kit: SagaKit
  readonly queue: string
  /** Between two polls of an empty queue. Default 100. */
  readonly pollIntervalMs?: number
  /** After this time a dead consumer's message is redelivered. Default 30 s. */
  readonly visibilityMs?: number
}

type Taken = { id: string; body: string; properties: string; deliveries: number }

/** As in the index `mailbox_taken`. A message of another system without an aggregate waits for none. */
const aggregateOf = (row: string) =>
  `(${row}.properties->>'${propertyHeader.aggregateType}', ${row}.properties->>'${propertyHeader.aggregateId}')`

export function createMailboxSubscriber(options: MailboxOptions): MessageSubscriber {
  const { pollIntervalMs, visibilityMs } = options
  requirePositive({ pollIntervalMs, visibilityMs })
  return subscriberOf('the database', (deliveries) => new MailboxSession(options, deliveries))
}

class MailboxSession implements Session {
  readonly #kit: SagaKit
  readonly #queue: string
  readonly #pollIntervalMs: number
  readonly #visibilityMs: number
  readonly #deliveries: Deliveries
  readonly #me: string
  #reading: Promise<void> = Promise.resolve()
  #renewal: { cancel(): void } | undefined

  constructor(options: MailboxOptions, deliveries: Deliveries) {
    this.#kit = options.kit
    this.#queue = options.queue
    this.#pollIntervalMs = options.pollIntervalMs ?? 100
    this.#visibilityMs = options.visibilityMs ?? 30_000
    this.#deliveries = deliveries
    this.#me = options.kit.random.hex(8)
  }

  async begin(): Promise<void> {
    this.#renewLater()
    this.#reading = this.#deliveries.repeat(this.#kit.clock, this.#pollIntervalMs, () => this.#readOnce())
  }

  async stop(): Promise<void> {
    await this.#reading
  }

  async leave(): Promise<void> {
    this.#renewal?.cancel()
  }

  async #readOnce(): Promise<void> {
    const { room } = this.#deliveries
    const taken = room > 0 ? await this.#take(room) : []
    for (const one of taken) this.#deliveries.begin(one.id, () => this.#deliver(one))
    if ((taken.length === room && room > 0) || this.#deliveries.stopped) return
    await this.#deliveries.pause(this.#kit.clock, this.#pollIntervalMs)
  }

  async #take(room: number): Promise<readonly Taken[]> {
    const { schema } = this.#kit
    // With OFFSET it is asked for each message until there are enough, by the index of taken ones, and never joined.
    const { rows } = await this.#kit.query<Taken>(
      `WITH next AS (SELECT id FROM ${schema}.mailbox m WHERE queue = $1 AND available_at <= clock_timestamp()
                       AND NOT EXISTS (SELECT FROM ${schema}.mailbox e WHERE e.queue = m.queue AND e.id < m.id AND e.taken_by <> $4
                                         AND ${aggregateOf('e')} = ${aggregateOf('m')} OFFSET 0)
                     ORDER BY available_at, id LIMIT $2 FOR UPDATE OF m SKIP LOCKED)
       UPDATE ${schema}.mailbox m SET available_at = clock_timestamp() + $3 * interval '1 ms', taken_by = $4, deliveries = deliveries + 1
       FROM next WHERE m.id = next.id RETURNING m.id, m.body, m.properties::text AS properties, m.deliveries`,
      [this.#queue, room, this.#visibilityMs, this.#me],
    )
    return rows.sort((a, b) => Number(a.id) - Number(b.id))
  }

  async #deliver({ id, body, properties, deliveries }: Taken): Promise<void> {
    const kit = this.#kit
    const { schema } = kit
    const verdict = await this.#deliveries.verdictOn({
      headers: JSON.parse(properties) as Record<string, string>,
      properties: { queue: this.#queue },
      body,
      redelivered: deliveries > 1,
      deliveryId: `${this.#queue} ${id}`,
    })
    switch (verdict.kind) {
      case 'ack':
      case 'refuse':
        await kit.query(`DELETE FROM ${schema}.mailbox WHERE id = $1`, [id])
        return
      case 'again':
        await kit.query(
          `UPDATE ${schema}.mailbox SET available_at = clock_timestamp() + $2 * interval '1 ms', taken_by = NULL, deliveries = 0
           WHERE id = $1 AND taken_by = $3`,
          [id, verdict.delayMs, this.#me],
        )
        return
    }
  }

  /** Keeps messages in flight invisible to other consumers. */
  #renewLater(): void {
    this.#renewal = this.#kit.clock.timer(this.#visibilityMs / 3, () => {
      this.#kit
        .query(
          `UPDATE ${this.#kit.schema}.mailbox SET available_at = clock_timestamp() + $1 * interval '1 ms'
           WHERE id = ANY($2::bigint[]) AND taken_by = $3`,
          [this.#visibilityMs, this.#deliveries.underWay, this.#me],
        )
        .catch(this.#deliveries.report)
      this.#renewLater()
    })
  }
}
