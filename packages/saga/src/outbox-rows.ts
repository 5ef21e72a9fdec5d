/**
 * The rows of the outbox as the relay sees them: a batch to send, confirmed ones, failed ones.
 *
 * Owns the SQL. Confirmed rows are deleted by id, never by a cursor: ids become visible out of order, and `id > last`
 * would miss the late ones. A failure stops only its aggregate, by a row in `outbox_stops`.
 */
import { isoText } from './database.ts'
import type { SagaKit } from './kit.ts'
import type { OutboundMessage } from './messages.ts'

export type OutboxRow = {
  readonly id: string
  readonly attempts: number
  readonly lastError: string | null
  readonly ageMs: number
  readonly message: OutboundMessage
}

/** The partitions among these that have messages to send. */
export async function partitionsWithWork(
  kit: SagaKit,
  partitions: readonly number[],
): Promise<readonly number[]> {
  const s = kit.schema
  // In the order of the two indexes, so that each look reads one entry, whatever the planner believes the table to hold.
  const { rows } = await kit.query<{ p: number }>(
    `SELECT p FROM unnest($1::smallint[]) AS p
     WHERE (SELECT partition FROM ${s}.outbox WHERE NOT scheduled AND partition >= p ORDER BY partition, id LIMIT 1) = p
        OR (SELECT available_at FROM ${s}.outbox WHERE scheduled AND partition = p ORDER BY available_at LIMIT 1) <= clock_timestamp()`,
    [partitions],
  )
  return rows.map(({ p }) => p)
}

type BatchRow = Omit<OutboxRow, 'message'> &
  Omit<OutboundMessage, 'headers'> & {
    readonly headers: string
    /** Of the payloads up to this one. */
    readonly bytes: number
  }

/** The clock in a subquery is one instant, and so a bound of the index. */
const dueOf = (s: string) =>
  `SELECT id FROM ${s}.outbox d WHERE partition = $1 AND available_at <= (SELECT clock_timestamp())
     AND NOT EXISTS (SELECT 1 FROM ${s}.outbox_stops t WHERE t.aggregate_type = d.aggregate_type
                     AND t.aggregate_id = d.aggregate_id AND t.until > (SELECT clock_timestamp()))`

/**
 * As PostgreSQL stores them, which is known without reading them. A relay has a batch of each partition in memory, and the backlog
 * of an outage must not be more than it can take.
 */
const batchBytesMax = 1024 * 1024

export type Batch = {
  readonly rows: readonly OutboxRow[]
  /** There may be more. */
  readonly full: boolean
}

/** The oldest messages of a partition, without stopped aggregates: `size` at most, and fewer if they are large. */
export async function nextBatch(kit: SagaKit, partition: number, size: number): Promise<Batch> {
  const s = kit.schema
  const { rows } = await kit.query<BatchRow>(
    `SELECT o.id::text AS id, attempts, last_error AS "lastError",
              (extract(epoch FROM clock_timestamp() - created_at) * 1000)::float8 AS "ageMs", bytes::float8 AS bytes,
              message_id AS "messageId", aggregate_type AS "aggregateType", aggregate_id AS "aggregateId", type, destination,
              payload::text AS body, headers::text AS headers, ${isoText('created_at')} AS "createdAt"
       FROM (SELECT *, sum(pg_column_size(payload)) OVER (ORDER BY id) AS bytes FROM ${s}.outbox
       WHERE id = ANY(ARRAY((${dueOf(s)} AND NOT scheduled ORDER BY id LIMIT $2) UNION ALL (${dueOf(s)} AND scheduled ORDER BY available_at LIMIT $2)))
       ORDER BY id LIMIT $2) AS o
       WHERE bytes - pg_column_size(payload) < $3 ORDER BY o.id`,
    [partition, size, batchBytesMax],
  )
  const full = rows.length === size || (rows.at(-1)?.bytes ?? 0) >= batchBytesMax
  return { rows: rows.map(messageOf), full }
}

function messageOf({ id, attempts, lastError, ageMs, bytes: _, headers, ...message }: BatchRow): OutboxRow {
  return { id, attempts, lastError, ageMs, message: { ...message, headers: JSON.parse(headers) } }
}

export async function deleteConfirmed(kit: SagaKit, rows: readonly OutboxRow[]): Promise<void> {
  const s = kit.schema
  await kit.query(`DELETE FROM ${s}.outbox WHERE id = ANY($1::bigint[])`, [rows.map(({ id }) => id)])
  const recovered = rows.filter(({ lastError }) => lastError !== null).map(({ message }) => message)
  if (recovered.length === 0) return
  await kit.query(
    `DELETE FROM ${s}.outbox_stops USING unnest($1::text[], $2::text[]) AS a (type, id)
     WHERE aggregate_type = a.type AND aggregate_id = a.id AND until <> 'infinity'`,
    [recovered.map(({ aggregateType }) => aggregateType), recovered.map(({ aggregateId }) => aggregateId)],
  )
}

/** Stops the aggregate for a while; `attempts` is 1 more, or unchanged if the failure costs none. */
export async function noteFailed(
  kit: SagaKit,
  row: OutboxRow,
  attempts: number,
  reason: string,
  pauseMs: number,
): Promise<void> {
  const s = kit.schema
  await kit.transaction(async (tx) => {
    const { rowCount } = await tx.query(
      `UPDATE ${s}.outbox SET attempts = $3, last_error = $2 WHERE id = $1`,
      [row.id, reason, attempts],
    )
    // The row is gone: another relay got it confirmed.
    if (rowCount === 0) return
    await tx.query(
      `INSERT INTO ${s}.outbox_stops AS t VALUES ($1, $2, clock_timestamp() + $3 * interval '1 ms', $4)
       ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET until = EXCLUDED.until, reason = EXCLUDED.reason
       WHERE t.until <> 'infinity'`,
      [row.message.aggregateType, row.message.aggregateId, pauseMs, reason],
    )
  })
}

/**
 * Moves the message to the dead letters; on request its aggregate stops until a person decides. One that was published again under
 * the id of an open dead letter takes the place of that.
 */
export async function deadLetterOutbound(
  kit: SagaKit,
  row: OutboxRow,
  failure: { readonly code: string; readonly message: string },
  parkAggregate: boolean,
): Promise<void> {
  const s = kit.schema
  await kit.transaction(async (tx) => {
    const { rowCount } = await tx.query(
      `WITH gone AS (DELETE FROM ${s}.outbox WHERE id = $1 RETURNING *)
       INSERT INTO ${s}.dead_letters (source, message_id, outbox_id, partition, aggregate_type, aggregate_id, type, destination,
                                      payload, headers, error_code, error_message, attempts, created_at)
       SELECT 'outbox', message_id, id, partition, aggregate_type, aggregate_id, type, destination, payload, headers, $2, $3,
              attempts + 1, created_at FROM gone
       ON CONFLICT (source, consumer_id, message_id) WHERE status IN ('dead', 'replaying') DO UPDATE
         SET type = EXCLUDED.type, destination = EXCLUDED.destination, payload = EXCLUDED.payload, headers = EXCLUDED.headers,
             error_code = EXCLUDED.error_code, error_message = EXCLUDED.error_message, attempts = EXCLUDED.attempts,
             died_at = clock_timestamp()`,
      [row.id, failure.code, failure.message],
    )
    if (rowCount === 0) return
    const { aggregateType, aggregateId } = row.message
    if (parkAggregate)
      await tx.query(
        `INSERT INTO ${s}.outbox_stops VALUES ($1, $2, 'infinity', $3)
         ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET until = 'infinity', reason = EXCLUDED.reason`,
        [aggregateType, aggregateId, failure.message],
      )
    else
      await tx.query(
        `DELETE FROM ${s}.outbox_stops WHERE aggregate_type = $1 AND aggregate_id = $2 AND until <> 'infinity'`,
        [aggregateType, aggregateId],
      )
  })
}
