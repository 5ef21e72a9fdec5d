/**
 * Dead letters: given up, kept with the reason until a person decides to replay or discard them.
 *
 * A dead letter of the outbox returns with its old id, that is to the head of its aggregate, which then continues. A
 * consumer replays the dead letters of its inbox (`dead-letter-replay.ts`), and after each the messages parked behind
 * it, in their order.
 */
import { isoText, safeInteger, type Tx } from './database.ts'
import type { SagaKit } from './kit.ts'
import type { Headers } from './messages.ts'
import { partitionOf } from './outbox.ts'

export type DeadLetter = {
  readonly id: number
  readonly source: 'outbox' | 'inbox'
  readonly consumerId: string
  readonly messageId: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  readonly destination: string
  readonly payload: unknown
  /** Of the message; of one that no mapping read, as its sender wrote them. */
  readonly headers: Headers
  /** What its broker said of it. Empty where it came from the outbox. */
  readonly properties: Headers
  readonly errorCode: string
  readonly errorMessage: string
  readonly attempts: number
  readonly diedAt: Date
  readonly status: 'dead' | 'replaying' | 'replayed' | 'discarded'
}

export type DeadLetterFilter = {
  readonly source?: 'outbox' | 'inbox'
  readonly consumerId?: string
  readonly limit?: number
}

type AsText = 'id' | 'payload' | 'headers' | 'properties' | 'diedAt'
type LetterRow = Omit<DeadLetter, AsText> & Readonly<Record<AsText, string>>

/** Open ones, which wait for a decision or for their consumer, oldest first. */
export async function listDeadLetters(
  kit: SagaKit,
  filter: DeadLetterFilter = {},
): Promise<readonly DeadLetter[]> {
  const { rows } = await kit.query<LetterRow>(
    `SELECT id, source, consumer_id AS "consumerId", message_id AS "messageId", aggregate_type AS "aggregateType",
            aggregate_id AS "aggregateId", type, destination, payload::text AS payload,
            coalesce(delivery->>'headers', headers::text) AS headers, coalesce(delivery->>'properties', '{}') AS properties,
            error_code AS "errorCode", error_message AS "errorMessage", attempts, ${isoText('died_at')} AS "diedAt", status
     FROM ${kit.schema}.dead_letters
     WHERE status IN ('dead', 'replaying') AND ($1::text IS NULL OR source = $1) AND ($2::text IS NULL OR consumer_id = $2)
     ORDER BY id LIMIT $3`,
    [filter.source ?? null, filter.consumerId ?? null, filter.limit ?? 100],
  )
  return rows.map((row) => ({
    ...row,
    id: safeInteger(row.id),
    payload: JSON.parse(row.payload),
    headers: JSON.parse(row.headers),
    properties: JSON.parse(row.properties),
    diedAt: new Date(row.diedAt),
  }))
}

type Touched = {
  id: string
  source: 'outbox' | 'inbox'
  consumer_id: string
  ordering_key: string | null
  aggregate_type: string
  aggregate_id: string
}

/** Requests their replay; returns how many of the ids were dead letters. */
export async function replayDeadLetters(kit: SagaKit, ids: readonly number[]): Promise<number> {
  const s = kit.schema
  return kit.transaction(async (tx) => {
    const { rows } = await tx.query<Touched>(
      `UPDATE ${s}.dead_letters
       SET status = CASE source WHEN 'outbox' THEN 'replayed' ELSE 'replaying' END,
           replayed_at = CASE source WHEN 'outbox' THEN clock_timestamp() END
       WHERE id = ANY($1) AND status = 'dead' RETURNING id, source, consumer_id, ordering_key, aggregate_type, aggregate_id`,
      [ids],
    )
    await toOutbox(
      kit,
      tx,
      rows.filter(({ source }) => source === 'outbox'),
    )
    await letGo(tx, s, rows)
    return rows.length
  })
}

/**
 * To the head of their aggregates, in the partition that the aggregate has today: their number may have changed since. One that was
 * published again under its id is in the outbox already, and moves up.
 */
async function toOutbox(kit: SagaKit, tx: Tx, deadLetters: readonly Touched[]): Promise<void> {
  const s = kit.schema
  const { rows } = await tx.query(`SELECT count(*)::int AS partitions FROM ${s}.outbox_partitions`)
  const partitions = safeInteger(rows[0]!.partitions)
  await tx.query(
    `INSERT INTO ${s}.outbox AS o (id, message_id, aggregate_type, aggregate_id, partition, type, destination, payload, headers, created_at)
     SELECT outbox_id, message_id::uuid, aggregate_type, aggregate_id, a.partition, type, destination, payload, headers, created_at
     FROM ${s}.dead_letters d JOIN unnest($1::bigint[], $2::smallint[]) AS a (id, partition) USING (id)
     ON CONFLICT (message_id) DO UPDATE SET id = least(o.id, EXCLUDED.id)`,
    [
      deadLetters.map(({ id }) => id),
      deadLetters.map((deadLetter) =>
        partitionOf(deadLetter.aggregate_type, deadLetter.aggregate_id, partitions),
      ),
    ],
  )
}

/** Gives them up for good; what was parked behind them continues without them. */
export function discardDeadLetters(kit: SagaKit, ids: readonly number[]): Promise<number> {
  return discard(kit, `id = ANY($1) AND status IN ('dead', 'replaying')`, [ids])
}

/**
 * Discards those that have waited longer than `ageMs`, the newest first: where `limit` cuts a sequence, its earliest stays
 * dead, and what is behind it is not let go before its time.
 */
export function expireDeadLetters(kit: SagaKit, ageMs: number, limit: number): Promise<number> {
  const which = `id IN (SELECT id FROM ${kit.schema}.dead_letters
                        WHERE status = 'dead' AND died_at < clock_timestamp() - $1 * interval '1 ms'
                        ORDER BY id DESC LIMIT $2 FOR UPDATE SKIP LOCKED)`
  return discard(kit, which, [ageMs, limit])
}

function discard(kit: SagaKit, which: string, values: unknown[]): Promise<number> {
  const s = kit.schema
  return kit.transaction(async (tx) => {
    const { rows } = await tx.query<Touched>(
      `UPDATE ${s}.dead_letters SET status = 'discarded', replayed_at = clock_timestamp() WHERE ${which}
       RETURNING id, source, consumer_id, ordering_key, aggregate_type, aggregate_id`,
      values,
    )
    await letGo(tx, s, rows)
    return rows.length
  })
}

/** What waited behind them continues, unless the same sequence has a further dead letter. */
async function letGo(tx: Tx, s: string, rows: readonly Touched[]): Promise<void> {
  const outbox = rows.filter(({ source }) => source === 'outbox')
  await tx.query(
    `DELETE FROM ${s}.outbox_stops t USING unnest($1::text[], $2::text[]) AS a (type, id)
     WHERE t.aggregate_type = a.type AND t.aggregate_id = a.id AND NOT EXISTS (
       SELECT 1 FROM ${s}.dead_letters d WHERE d.source = 'outbox' AND d.status = 'dead'
         AND d.aggregate_type = a.type AND d.aggregate_id = a.id)`,
    [outbox.map((row) => row.aggregate_type), outbox.map((row) => row.aggregate_id)],
  )
  const inbox = rows.filter(({ source, ordering_key }) => source === 'inbox' && ordering_key !== null)
  await tx.query(
    `UPDATE ${s}.dead_letters b SET status = 'replaying'
     FROM unnest($1::text[], $2::text[]) AS a (consumer_id, ordering_key)
     WHERE b.source = 'inbox' AND b.status = 'dead' AND b.error_code = 'behind'
       AND b.consumer_id = a.consumer_id AND b.ordering_key = a.ordering_key AND NOT EXISTS (
         SELECT 1 FROM ${s}.dead_letters d WHERE d.source = 'inbox' AND d.status = 'dead' AND d.error_code <> 'behind'
           AND d.consumer_id = a.consumer_id AND d.ordering_key = a.ordering_key)`,
    [inbox.map((row) => row.consumer_id), inbox.map((row) => row.ordering_key)],
  )
}
