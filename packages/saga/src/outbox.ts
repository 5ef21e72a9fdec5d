/**
 * The transactional outbox: an event is a row, written in the transaction that makes it true, and relayed later.
 *
 * Owns the insertion and its order. A row gets its id when it is written, not when its transaction commits, so two
 * transactions could commit events of one aggregate in the other order. By default publishing first takes a
 * transaction-level lock on the aggregate; then the order of ids is the order of commits.
 * Refuses: to publish outside a transaction of the caller's, and to talk to a broker (`relay.ts`).
 */
import { rowsWritten, safeInteger, type Tx } from './database.ts'
import { NonRetryableError, NotInTransactionError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { type Headers, uuidPattern } from './messages.ts'
import { isInTransaction } from './open-transactions.ts'
import { requireIndexedName, requireName } from './option-checks.ts'
import { withCreationContext } from './trace-context.ts'

export type OutboxEvent = {
  /** A UUID; default: a new one, which increases with time. */
  readonly id?: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  /** Becomes JSON. */
  readonly payload: unknown
  readonly headers?: Headers
  /** What the publisher reads; default: the aggregate type. */
  readonly destination?: string
  /** Not sent earlier. Such a message is outside the order of its aggregate. */
  readonly availableAt?: Date
  /** Keep the order of commits within the aggregate. Default true. */
  readonly ordered?: boolean
}

/** Small enough that a transaction with a million events does not fill the server's lock table. */
const orderingLocks = 1024

/**
 * Writes the event; returns its message id.
 * @throws NotInTransactionError if `tx` is a connection or a pool without a transaction
 */
export async function publish(kit: SagaKit, tx: Tx, event: OutboxEvent): Promise<string> {
  const { aggregateType, aggregateId, type, destination = aggregateType, ordered = true } = event
  for (const name of ['aggregateType', 'aggregateId'] as const)
    requireIndexedName(`the ${name} of an event`, event[name])
  requireName('the type of an event', type)
  const messageId = event.id ?? newMessageId(kit)
  if (!uuidPattern.test(messageId)) throw new NonRetryableError(`a message id is a UUID, not ${messageId}`)
  const payload = JSON.stringify(event.payload)
  if (payload === undefined) throw new NonRetryableError('the payload of an event must be a JSON value')
  const headers = withCreationContext(event.headers ?? {}, destination, messageId)
  const hash = hashOf(aggregateType, aggregateId)
  const values = [
    messageId,
    aggregateType,
    aggregateId,
    hash % kit.partitions,
    type,
    destination,
    payload,
    JSON.stringify(headers),
    event.availableAt ?? null,
    event.availableAt !== undefined,
  ]
  // A subquery, so that the lock is taken before the row gets its id.
  const order = ordered
    ? `(SELECT pg_advisory_xact_lock(hashtext('${kit.schemaName}/outbox'), $11::integer)) AS ordered`
    : '(SELECT $11::integer) AS unordered'
  const mark = await markOf(kit, tx)
  const written = await tx.query(
    `INSERT INTO ${kit.schema}.outbox
       (message_id, aggregate_type, aggregate_id, partition, type, destination, payload, headers, available_at, scheduled)
     SELECT $1::uuid, $2, $3, $4::smallint, $5, $6, $7::text::json, $8::text::jsonb, coalesce($9::timestamptz, clock_timestamp()), $10::boolean
     FROM ${order}${mark === undefined ? '' : ` WHERE current_setting('${markName}', true) = $12`}`,
    [...values, hash % orderingLocks, ...(mark === undefined ? [] : [mark])],
  )
  if (rowsWritten(written) === 0) throw new NotInTransactionError('publish')
  return messageId
}

const markName = 'fencepost.transaction'

/** A setting that lasts as long as the transaction. Where there is none, it is gone before the event is written. */
async function markOf(kit: SagaKit, tx: Tx): Promise<string | undefined> {
  const known = isInTransaction(tx)
  if (known === false) throw new NotInTransactionError('publish')
  if (known === true) return undefined
  const mark = kit.random.hex(8)
  await tx.query(`SELECT set_config('${markName}', $1, true)`, [mark])
  return mark
}

export type OutboxLag = {
  /** Messages that could be sent now. */
  readonly pending: number
  /** Messages whose aggregate is parked. */
  readonly parked: number
  /** Age of the oldest pending one; 0 without one. */
  readonly oldestAgeMs: number
}

export async function outboxLag(kit: SagaKit): Promise<OutboxLag> {
  const s = kit.schema
  const { rows } = await kit.query<{ pending: string; parked: string; age_ms: string }>(
    `SELECT count(*) FILTER (WHERE NOT parked) AS pending, count(*) FILTER (WHERE parked) AS parked,
       coalesce(max(extract(epoch FROM clock_timestamp() - created_at)) FILTER (WHERE NOT parked), 0) * 1000 AS age_ms
     FROM (SELECT o.created_at, EXISTS (SELECT 1 FROM ${s}.outbox_stops t
             WHERE t.aggregate_type = o.aggregate_type AND t.aggregate_id = o.aggregate_id AND t.until = 'infinity') AS parked
           FROM ${s}.outbox o WHERE o.available_at <= clock_timestamp()) AS due`,
  )
  const { pending, parked, age_ms } = rows[0]!
  return {
    pending: safeInteger(pending),
    parked: safeInteger(parked),
    oldestAgeMs: Math.round(Number(age_ms)),
  }
}

/** UUID version 7: the first 48 bits are the millisecond, so new rows are adjacent in the index. */
export function newMessageId(kit: SagaKit): string {
  const time = kit.clock.wallMs().toString(16).slice(0, 12).padStart(12, '0')
  const random = kit.random.hex(10)
  const variant = (8 + (Number.parseInt(random[3]!, 16) % 4)).toString(16)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-${variant}${random.slice(4, 7)}-${random.slice(7, 19)}`
}

export function partitionOf(aggregateType: string, aggregateId: string, partitions: number): number {
  return hashOf(aggregateType, aggregateId) % partitions
}

/** FNV-1a, 32 bits: distributes aggregates over partitions, the same in every process and version. */
function hashOf(aggregateType: string, aggregateId: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(`${aggregateType}\0${aggregateId}`))
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash
}
