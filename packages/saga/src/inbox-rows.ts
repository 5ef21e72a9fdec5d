/**
 * The inbox: one row for each (consumer, message), which makes a second delivery harmless.
 *
 * Owns the SQL and the states: absent → processed; absent → retrying → … → processed | dead; dead → processed by
 * replay. `waiting` keeps the place of a message behind a retried one of its sequence.
 * `received` is a message whose processing neither finished nor failed: its process died. Once it is a suspect (`inbox.ts`)
 * it is `waiting`, to keep its place.
 * The row is written *first*, in the handler's transaction; a rival with the same message waits in that INSERT.
 *
 * Source: Eventuate Tram (received_messages), MassTransit (inbox state).
 */
import { rowsWritten, sqlStateOf, storable, type Tx } from './database.ts'
import { IdempotencyKeyReuseError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { type Delivery, type Headers, type InboundMessage, uuidPattern } from './messages.ts'
import { indexedMaxBytes } from './option-checks.ts'
import { derivedKey, hashOfText, sameHash } from './request-hash.ts'

export type Entry = {
  readonly consumerId: string
  /** Its id as {@link storedId} has it. */
  readonly message: InboundMessage
  /** As the broker handed it over; kept with its dead letter. */
  readonly delivery?: Delivery
  readonly hash: Buffer
  /** null: not part of any order. */
  readonly orderingKey: string | null
  readonly retentionMs: number
}

export type Entrance =
  | { readonly kind: 'go' }
  | { readonly kind: 'done' }
  /** Its own next attempt is not due, or an earlier message of its sequence is being retried. */
  | { readonly kind: 'later'; readonly delayMs: number }
  /** An earlier message of its sequence is dead: this one is parked with it. */
  | { readonly kind: 'behind' }

/** Bounds of the delay for a message that waits for its predecessor. */
const behindDelayMs = { min: 100, max: 1_000 }

/** Messages of the same sequence that must come first. */
const open = (s: string) =>
  `SELECT FROM ${s}.inbox b WHERE b.consumer_id = $1 AND b.ordering_key = $4 AND b.status IN ('retrying', 'waiting')`
const dead = (s: string) =>
  `SELECT FROM ${s}.dead_letters d WHERE d.consumer_id = $1 AND d.ordering_key = $4 AND d.status IN ('dead', 'replaying')`

type InboxRow = { request_hash: Uint8Array; status: string; arrival: string; wait_ms: number }

/** As the tables can store and index it. */
export function storedKey(key: string): string {
  return Buffer.byteLength(key) > indexedMaxBytes ? derivedKey([key]) : storable(key)
}

/** One spelling for one message: the case of a UUID makes no difference (RFC 9562), that of any other id does. */
export function storedId(id: string): string {
  return uuidPattern.test(id) ? id.toLowerCase() : storedKey(id)
}

/** $1 to $5 of the statements below. */
const valuesOf = ({ consumerId, message, hash, orderingKey, retentionMs }: Entry) => [
  consumerId,
  message.messageId,
  hash,
  orderingKey,
  retentionMs,
]

/** Marks the message as processed, which takes effect with the commit of the handler's work. */
export async function enter(kit: SagaKit, tx: Tx, entry: Entry): Promise<Entrance> {
  const { consumerId, message, hash } = entry
  const s = kit.schema
  const inserted = await tx.query(
    `INSERT INTO ${s}.inbox (consumer_id, message_id, request_hash, ordering_key, status, processed_at, expires_at)
     SELECT $1, $2::text, $3, $4::text, 'processed', clock_timestamp(), clock_timestamp() + $5 * interval '1 ms'
     WHERE $4::text IS NULL OR NOT (EXISTS (${open(s)} AND b.message_id <> $2) OR EXISTS (${dead(s)} AND d.message_id <> $2))
     ON CONFLICT DO NOTHING`,
    valuesOf(entry),
  )
  if (rowsWritten(inserted) === 1) return { kind: 'go' }
  const { rows } = await tx.query<InboxRow>(
    `SELECT request_hash, status, arrival::text AS arrival,
            (extract(epoch FROM coalesce(next_attempt_at, clock_timestamp()) - clock_timestamp()) * 1000)::float8 AS wait_ms
     FROM ${s}.inbox WHERE consumer_id = $1 AND message_id = $2 FOR UPDATE`,
    [consumerId, message.messageId],
  )
  const row = rows[0]
  if (row !== undefined && !sameHash(row.request_hash, hash))
    throw new IdempotencyKeyReuseError(consumerId, message.messageId)
  if (row?.status === 'processed' || row?.status === 'dead') return { kind: 'done' }
  if (row !== undefined && row.wait_ms > 0) return { kind: 'later', delayMs: row.wait_ms }
  const obstacle = await obstacleOf(tx, s, entry, row)
  if (obstacle !== undefined) return obstacle
  const taken = await tx.query(
    `INSERT INTO ${s}.inbox AS i (consumer_id, message_id, request_hash, ordering_key, status, processed_at, expires_at)
     VALUES ($1, $2, $3, $4, 'processed', clock_timestamp(), clock_timestamp() + $5 * interval '1 ms')
     ON CONFLICT (consumer_id, message_id) DO UPDATE
       SET status = 'processed', processed_at = clock_timestamp(), unfinished = 0, next_attempt_at = NULL,
           expires_at = EXCLUDED.expires_at
       WHERE i.status NOT IN ('processed', 'dead')`,
    valuesOf(entry),
  )
  // There was no row before: a rival may have written one since, and finished.
  return { kind: rowsWritten(taken) === 1 ? 'go' : 'done' }
}

/** The message of its sequence that must come first: a dead one, or an earlier one that is not finished. */
async function obstacleOf(
  tx: Tx,
  s: string,
  entry: Entry,
  row: InboxRow | undefined,
): Promise<Entrance | undefined> {
  const { consumerId, message, orderingKey } = entry
  if (orderingKey === null) return undefined
  // Held until the messages behind them are recorded: otherwise a discard that releases those would miss them.
  await tx.query(
    `SELECT FROM ${s}.dead_letters WHERE consumer_id = $1 AND ordering_key = $2 AND status = 'dead' AND error_code <> 'behind'
       AND message_id <> $3 ORDER BY id FOR SHARE`,
    [consumerId, orderingKey, message.messageId],
  )
  const { rows } = await tx.query<{ status: string; wait_ms: number | null }>(
    `SELECT status, 0 AS wait_ms FROM ${s}.dead_letters
     WHERE consumer_id = $1 AND ordering_key = $2 AND status IN ('dead', 'replaying') AND message_id <> $3
     UNION ALL
     SELECT status, (extract(epoch FROM next_attempt_at - clock_timestamp()) * 1000)::float8 FROM ${s}.inbox
     WHERE consumer_id = $1 AND ordering_key = $2 AND status IN ('retrying', 'waiting') AND message_id <> $3
       AND ($4::bigint IS NULL OR arrival < $4)`,
    [consumerId, orderingKey, message.messageId, row?.arrival ?? null],
  )
  if (rows.length === 0) return undefined
  if (rows.some(({ status }) => status === 'dead')) return { kind: 'behind' }
  // Keeps its place: later messages of the sequence must wait for it.
  await tx.query(
    `INSERT INTO ${s}.inbox AS i (consumer_id, message_id, request_hash, ordering_key, status, expires_at)
     VALUES ($1, $2, $3, $4, 'waiting', clock_timestamp() + $5 * interval '1 ms')
     ON CONFLICT (consumer_id, message_id) DO UPDATE SET status = 'waiting' WHERE i.status = 'received'`,
    valuesOf(entry),
  )
  const waitMs = Math.max(...rows.map(({ wait_ms }) => wait_ms ?? 0))
  return { kind: 'later', delayMs: Math.min(behindDelayMs.max, Math.max(behindDelayMs.min, waitMs)) }
}

/**
 * Counts deliveries that began and never ended, up to `most`, to detect a message that kills its consumer. Returns how
 * many there are. From `most` on an ordered message keeps its place: it may have to wait before it can begin.
 */
export async function noteBegun(kit: SagaKit, entry: Entry, most: number): Promise<number> {
  const { rows } = await kit.query<{ unfinished: number }>(
    `INSERT INTO ${kit.schema}.inbox AS i (consumer_id, message_id, request_hash, ordering_key, status, unfinished, expires_at)
     VALUES ($1, $2, $3, $4, 'received', 1, clock_timestamp() + $5 * interval '1 ms')
     ON CONFLICT (consumer_id, message_id) DO UPDATE
         SET unfinished = i.unfinished + (i.unfinished < $6
               AND i.status NOT IN ('processed', 'dead') AND i.request_hash = EXCLUDED.request_hash)::int,
             status = CASE WHEN i.status = 'received' AND i.ordering_key IS NOT NULL AND i.unfinished + 1 >= $6
                           THEN 'waiting' ELSE i.status END
       RETURNING unfinished`,
    [...valuesOf(entry), most],
  )
  return rows[0]!.unfinished
}

/** The delivery ended without costing an attempt; an ordered message keeps its place. */
export async function noteDeferred(kit: SagaKit, entry: Entry): Promise<void> {
  await kit.query(
    `INSERT INTO ${kit.schema}.inbox AS i (consumer_id, message_id, request_hash, ordering_key, status, expires_at)
     VALUES ($1, $2, $3, $4, 'waiting', clock_timestamp() + $5 * interval '1 ms')
     ON CONFLICT (consumer_id, message_id) DO UPDATE
       SET unfinished = 0, status = CASE WHEN i.status = 'received' THEN 'waiting' ELSE i.status END`,
    valuesOf(entry),
  )
}

/** The handler's error is the outcome: the message is processed, and the reason kept. The handler wrote nothing. */
export async function noteFinal(kit: SagaKit, entry: Entry, reason: string): Promise<void> {
  await kit.query(
    `INSERT INTO ${kit.schema}.inbox AS i
         (consumer_id, message_id, request_hash, ordering_key, status, last_error, processed_at, expires_at)
       VALUES ($1, $2, $3, $4, 'processed', $6, clock_timestamp(), clock_timestamp() + $5 * interval '1 ms')
       ON CONFLICT (consumer_id, message_id) DO UPDATE
         SET status = 'processed', processed_at = clock_timestamp(), unfinished = 0, next_attempt_at = NULL,
             last_error = EXCLUDED.last_error, expires_at = EXCLUDED.expires_at
         WHERE i.status NOT IN ('processed', 'dead') AND i.request_hash = EXCLUDED.request_hash`,
    [...valuesOf(entry), reason],
  )
}

/**
 * A message that is passed over is at its end. It has a row where a version of the consumer that handles its type has begun
 * it, and what is behind it in its sequence would wait for that.
 */
export async function notePassed(kit: SagaKit, { consumerId, message, hash }: Entry): Promise<void> {
  await kit.query(
    `UPDATE ${kit.schema}.inbox SET status = 'processed', processed_at = clock_timestamp(), unfinished = 0, next_attempt_at = NULL
     WHERE consumer_id = $1 AND message_id = $2 AND request_hash = $3 AND status IN ('received', 'waiting', 'retrying')`,
    [consumerId, message.messageId, hash],
  )
}

/** Counts one more attempt; returns how many there were. */
export async function noteAttempt(
  kit: SagaKit,
  entry: Entry,
  reason: string,
  delayOf: (attempts: number) => number,
): Promise<{ readonly attempts: number; readonly delayMs: number }> {
  const s = kit.schema
  return kit.transaction(async (tx) => {
    const { rows } = await tx.query<{ attempts: number }>(
      `INSERT INTO ${s}.inbox AS i (consumer_id, message_id, request_hash, ordering_key, status, attempts, last_error, expires_at)
       VALUES ($1, $2, $3, $4, 'retrying', 1, $6, clock_timestamp() + $5 * interval '1 ms')
       ON CONFLICT (consumer_id, message_id) DO UPDATE
         SET attempts = i.attempts + 1, unfinished = 0, last_error = EXCLUDED.last_error,
             status = CASE WHEN i.status IN ('processed', 'dead') THEN i.status ELSE 'retrying' END
       RETURNING attempts`,
      [...valuesOf(entry), reason],
    )
    const { attempts } = rows[0]!
    const delayMs = delayOf(attempts)
    await tx.query(
      `UPDATE ${s}.inbox SET next_attempt_at = clock_timestamp() + $3 * interval '1 ms' WHERE consumer_id = $1 AND message_id = $2`,
      [entry.consumerId, entry.message.messageId, delayMs],
    )
    return { attempts, delayMs }
  })
}

export type Cause = { readonly code: string; readonly message: string }

/**
 * Makes the message a dead letter, so that its broker can forget it. A message that was processed meanwhile stays
 * processed: then it returns false. Another body under the same id is another message, of unknown sequence: it becomes a dead letter under an
 * id of its own, and the first one continues.
 */
export async function deadLetterInbound(
  kit: SagaKit,
  tx: Tx,
  entry: Entry,
  cause: Cause,
  parkSequence: boolean,
): Promise<boolean> {
  const { consumerId, message, hash, orderingKey, retentionMs } = entry
  const s = kit.schema
  const { rows } = await tx.query<{ attempts: number }>(
    `INSERT INTO ${s}.inbox AS i (consumer_id, message_id, request_hash, ordering_key, status, expires_at)
     VALUES ($1, $2, $3, $4, 'dead', clock_timestamp() + $5 * interval '1 ms')
     ON CONFLICT (consumer_id, message_id) DO UPDATE SET status = 'dead', unfinished = 0
       WHERE i.status <> 'processed' AND i.request_hash = EXCLUDED.request_hash
     RETURNING attempts`,
    valuesOf(entry),
  )
  if (rows[0] !== undefined) {
    await writeDeadLetter(tx, s, entry, cause, parkSequence ? orderingKey : null, rows[0].attempts)
    return true
  }
  const first = await tx.query<{ request_hash: Uint8Array }>(
    `SELECT request_hash FROM ${s}.inbox WHERE consumer_id = $1 AND message_id = $2`,
    [consumerId, message.messageId],
  )
  if (first.rows[0] === undefined || sameHash(first.rows[0].request_hash, hash)) return false
  const other: Entry = { ...entry, message: { ...message, messageId: idOfReuse(message.messageId, hash) } }
  const written = await tx.query(
    `INSERT INTO ${s}.inbox (consumer_id, message_id, request_hash, status, expires_at)
     VALUES ($1, $2, $3, 'dead', clock_timestamp() + $4 * interval '1 ms') ON CONFLICT DO NOTHING`,
    [consumerId, other.message.messageId, hash, retentionMs],
  )
  const reused = `${cause.message} (it came under the id ${message.messageId}, which belongs to another body)`
  if (rowsWritten(written) === 1) await writeDeadLetter(tx, s, other, { ...cause, message: reused }, null, 0)
  return true
}

/** Derived from the body: a further delivery makes no second dead letter. A UUID of version 8 (RFC 9562). */
function idOfReuse(messageId: string, hash: Buffer): string {
  const digest = hashOfText(`${messageId} ${hash.toString('hex')}`).toString('hex')
  const [a, b, c, d, e] = [
    [2, 10],
    [10, 14],
    [14, 17],
    [17, 20],
    [20, 32],
  ].map(([from, to]) => digest.slice(from, to))
  return `${a}-${b}-8${c}-8${d}-${e}`
}

async function writeDeadLetter(
  tx: Tx,
  s: string,
  { consumerId, message, delivery }: Entry,
  cause: Cause,
  orderingKey: string | null,
  attempts: number,
): Promise<void> {
  const write = (payload: string, isText: boolean) =>
    tx.query(
      `INSERT INTO ${s}.dead_letters (source, consumer_id, message_id, aggregate_type, aggregate_id, ordering_key, type, destination,
                                    payload, headers, error_code, error_message, attempts, created_at, delivery)
     VALUES ('inbox', $1, $2, $3, $4, $5, $6, '', $7::text::json, $8::text::jsonb, $9, $10, $11, coalesce($12::timestamptz, clock_timestamp()), $13::text::jsonb)
     ON CONFLICT DO NOTHING`,
      [
        consumerId,
        message.messageId,
        storable(message.aggregateType),
        storable(message.aggregateId),
        orderingKey,
        storable(message.type),
        payload,
        JSON.stringify(storableHeaders(message.headers)),
        cause.code,
        cause.message.slice(0, 2_000),
        attempts,
        instantOf(message.createdAt),
        delivery === undefined ? null : JSON.stringify(storedDelivery(delivery, isText)),
      ],
    )
  // A dead letter must hold what was received, also if that is no JSON or nested too deep: then as a JSON string.
  await tx.query('SAVEPOINT letter')
  try {
    await write(message.body, false)
  } catch (error) {
    if (!/^(22|54)/.test(sqlStateOf(error) ?? '')) throw error
    await tx.query('ROLLBACK TO SAVEPOINT letter')
    await write(JSON.stringify(message.body.toWellFormed()), true)
  }
}

/** What a dead letter keeps of a delivery beside its body; `isText`: the body is no JSON, and kept as a JSON string. */
export type StoredDelivery = {
  readonly headers: Headers
  readonly properties: Headers
  readonly isText: boolean
  readonly signedId?: string
  /** Base64; present if the body is no UTF-8. */
  readonly bytes?: string
}

function storedDelivery({ headers, properties, signedId, bytes }: Delivery, isText: boolean): StoredDelivery {
  return {
    headers: storableHeaders(headers),
    properties: storableHeaders(properties),
    isText,
    ...(signedId === undefined ? {} : { signedId: storable(signedId) }),
    ...(bytes === undefined ? {} : { bytes: Buffer.from(bytes).toString('base64') }),
  }
}

function storableHeaders(headers: Headers): Headers {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [storable(name), storable(value)]))
}

/** null if PostgreSQL would not read it. */
function instantOf(text: string): string | null {
  const wallMs = Date.parse(text)
  return wallMs >= 0 && wallMs < Date.UTC(10_000, 0) ? new Date(wallMs).toISOString() : null
}
