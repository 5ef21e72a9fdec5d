/**
 * The consumer's side of replaying: takes up the dead letters of its inbox that an operator requested to replay.
 *
 * Each in a transaction of its own, in the order of first arrival, which is that of its sequence; a handler that works
 * outside runs without an open transaction. A dead letter that fails again is dead again, and so are those of its sequence
 * behind it, unless its error is an outcome (`error-meaning.ts`). One that kills its process is begun as often as a message is,
 * and then dead again: otherwise it would be begun by each process that starts. A dead letter whose step is in progress, whose lock is held,
 * or that met an outage of the database waits, and so do those behind it.
 *
 * The mappings read the dead letter anew, so one that none of them could read is replayed once one can; it is then the message
 * that it always was, and is handled once together with its other deliveries.
 */
import { inThisProcess } from './concurrent-deliveries.ts'
import { isOutage, isoText, rowsWritten, type Tx } from './database.ts'
import { errorCode, errorText, finalOutcomeOf } from './error-meaning.ts'
import {
  IdempotencyKeyReuseError,
  LockNotAcquiredError,
  NeverEndedError,
  NonRetryableError,
  neverEndedCode,
  OperationInProgressError,
  UnhandledTypeError,
} from './errors.ts'
import { dayMs } from './idempotency.ts'
import { type Arrival, type Inbound, readDelivery } from './inbound.ts'
import { fencepostMessages } from './inbound-formats.ts'
import { suspectAfter, unfinishedMax } from './inbox.ts'
import { type StoredDelivery, storedId } from './inbox-rows.ts'
import { type InboxTransaction, transactionOfInbox } from './inbox-transaction.ts'
import type { SagaKit } from './kit.ts'
import { type Handler, hashOfBody, type InboundMessage, type Received } from './messages.ts'
import { payloadOf, type Schemas } from './payload.ts'
import { sameHash } from './request-hash.ts'
import { handlingMessage } from './saga-step-rows.ts'

type Handlers = Readonly<Record<string, Handler>>

/** How the consumer reads messages. */
type Reading = {
  readonly inbound?: Inbound
  readonly schemas?: Schemas
  readonly retentionMs?: number
  readonly transaction?: InboxTransaction
}

type DeadLetter = {
  id: string
  message_id: string
  aggregate_type: string
  aggregate_id: string
  ordering_key: string | null
  type: string
  body: string
  headers: string
  created_at: string
  error_code: string
  delivery: string | null
}

type Replay = {
  readonly kit: SagaKit
  readonly consumerId: string
  readonly handlers: Handlers
  readonly reading: Reading
}

/** Dead letters that are read together. */
const pageSize = 100

/**
 * Each dead letter once; of a sequence none after one that waits or is dead again. Ends early where `goOn` says no. Returns how many
 * succeeded.
 */
export async function replayOnce(
  kit: SagaKit,
  consumerId: string,
  handlers: Handlers,
  reading: Reading = {},
  goOn: () => boolean = () => true,
): Promise<number> {
  let through = 0
  const halted = new Set<string>()
  let page: readonly Due[] = []
  do {
    page = await nextPage(kit, consumerId, page.at(-1))
    for (const { id, ordering_key } of page) {
      if (!goOn()) return through
      if (ordering_key !== null && halted.has(ordering_key)) continue
      if (await replayLetter({ kit, consumerId, handlers, reading }, id)) through += 1
      else if (ordering_key !== null) halted.add(ordering_key)
    }
  } while (page.length === pageSize)
  return through
}

type Due = { id: string; arrival: string; ordering_key: string | null }

/** A dead letter without a row in the inbox is that of a message that nobody read: it comes before all others. */
async function nextPage(kit: SagaKit, consumerId: string, last: Due | undefined): Promise<readonly Due[]> {
  const { rows } = await kit.query<Due>(
    `SELECT d.id::text AS id, coalesce(i.arrival, 0)::text AS arrival, d.ordering_key
     FROM ${kit.schema}.dead_letters d LEFT JOIN ${kit.schema}.inbox i USING (consumer_id, message_id)
     WHERE d.source = 'inbox' AND d.consumer_id = $1 AND d.status = 'replaying'
       AND (coalesce(i.arrival, 0), d.id) > ($2::bigint, $3::bigint)
     ORDER BY coalesce(i.arrival, 0), d.id LIMIT ${pageSize}`,
    [consumerId, last?.arrival ?? -1, last?.id ?? 0],
  )
  return rows
}

async function replayLetter(replay: Replay, id: string): Promise<boolean> {
  const { kit, consumerId } = replay
  const s = kit.schema
  let deadLetter: DeadLetter | undefined
  try {
    deadLetter = await kit.transaction((tx) => take(tx, s, id))
    if (deadLetter === undefined) return false
    const { message_id, error_code } = deadLetter
    const begun = await noteReplayBegun(kit, consumerId, message_id)
    if (begun > unfinishedMax) throw new NeverEndedError(unfinishedMax)
    const arrival = arrivalOf(deadLetter, replay.reading)
    const { handler, received } = await handlingOf(replay, arrival)
    const suspect = error_code === neverEndedCode || begun > suspectAfter
    const leave = await inThisProcess.enter(kit.clock, suspect)
    try {
      if (typeof handler !== 'function' && !(await isProcessed(replay, deadLetter, arrival)))
        await handlingMessage({ consumerId, messageId: message_id }, () => handler.outside(received))
      return await transactionOfInbox(kit, replay.reading.transaction, async (tx, own) => {
        deadLetter = await take(tx, s, id)
        if (deadLetter === undefined) return false
        const entered = await enterReplayed(tx, replay, deadLetter, arrival)
        if (entered && typeof handler === 'function') await handler(tx, received, own)
        await noteReplayed(tx, s, consumerId, deadLetter)
        return true
      })
    } finally {
      leave()
    }
  } catch (error) {
    if (error instanceof OperationInProgressError || error instanceof LockNotAcquiredError) return false
    if (isOutage(error)) return false
    if (finalOutcomeOf(error) !== undefined) return endReplayed(replay, id, error)
    await noteDeadAgain(replay, id, deadLetter, error)
    return false
  } finally {
    // A database that is away has counted one more; it takes several in a row to mean something.
    if (deadLetter !== undefined)
      await noteReplayEnded(kit, consumerId, deadLetter.message_id).catch(() => {})
  }
}

/** @throws what makes the dead letter dead again: no handler, no JSON, a payload that its schema refuses */
async function handlingOf(
  { consumerId, handlers, reading }: Replay,
  arrival: Arrival,
): Promise<{ handler: Handler; received: Received }> {
  const { message } = arrival
  const handler = Object.hasOwn(handlers, message.type) ? handlers[message.type] : undefined
  if (handler === undefined) throw new UnhandledTypeError(consumerId, message.type)
  return { handler, received: { ...message, payload: await payloadOf(arrival, reading.schemas) } }
}

const wasUnmapped = ({ error_code }: DeadLetter) => error_code === 'unmapped'

/** The message is known by its dead letter, unless that was written because no mapping knew it. */
function arrivalOf(deadLetter: DeadLetter, { inbound = fencepostMessages }: Reading): Arrival {
  const message: InboundMessage = {
    messageId: deadLetter.message_id,
    aggregateType: deadLetter.aggregate_type,
    aggregateId: deadLetter.aggregate_id,
    type: deadLetter.type,
    body: deadLetter.body,
    headers: JSON.parse(deadLetter.headers),
    createdAt: deadLetter.created_at,
    redelivered: true,
  }
  if (deadLetter.delivery === null) return { message }
  const { isText, bytes: base64, ...kept }: StoredDelivery = JSON.parse(deadLetter.delivery)
  const body: string = isText ? JSON.parse(deadLetter.body) : deadLetter.body
  const bytes = base64 === undefined ? {} : { bytes: Buffer.from(base64, 'base64') }
  const read = readDelivery(inbound, { ...kept, body, ...bytes, redelivered: true })
  if (wasUnmapped(deadLetter)) return read
  // As its handler saw it before, and may have made a key of it: the dead letter has the id as it is stored.
  const { messageId } = storedId(read.message.messageId) === deadLetter.message_id ? read.message : message
  return { ...read, message: { ...message, messageId, body } }
}

type Known = { request_hash: Uint8Array; status: string }

/** True if the message was handled under its own id meanwhile. Only of dead letters that no mapping could read. */
async function isProcessed(
  { kit, consumerId }: Replay,
  deadLetter: DeadLetter,
  arrival: Arrival,
): Promise<boolean> {
  if (!wasUnmapped(deadLetter)) return false
  const { rows } = await kit.query<Known>(
    `SELECT request_hash, status FROM ${kit.schema}.inbox WHERE consumer_id = $1 AND message_id = $2`,
    [consumerId, storedId(arrival.message.messageId)],
  )
  return rows[0] !== undefined && isSameProcessed(consumerId, arrival, rows[0])
}

/** Marks a message that has an id only now as processed; false if it was processed before. */
async function enterReplayed(
  tx: Tx,
  { kit, consumerId, reading }: Replay,
  deadLetter: DeadLetter,
  arrival: Arrival,
): Promise<boolean> {
  if (!wasUnmapped(deadLetter)) return true
  const s = kit.schema
  const messageId = storedId(arrival.message.messageId)
  const inserted = await tx.query(
    `INSERT INTO ${s}.inbox (consumer_id, message_id, request_hash, status, processed_at, expires_at)
     VALUES ($1, $2, $3, 'processed', clock_timestamp(), clock_timestamp() + $4 * interval '1 ms') ON CONFLICT DO NOTHING`,
    [consumerId, messageId, hashOf(arrival), reading.retentionMs ?? 7 * dayMs],
  )
  if (rowsWritten(inserted) === 1) return true
  const { rows } = await tx.query<Known>(
    `SELECT request_hash, status FROM ${s}.inbox WHERE consumer_id = $1 AND message_id = $2 FOR UPDATE`,
    [consumerId, messageId],
  )
  return rows[0] === undefined || !isSameProcessed(consumerId, arrival, rows[0])
}

const hashOf = ({ delivery, message }: Arrival) => hashOfBody(delivery ?? message)

function isSameProcessed(consumerId: string, arrival: Arrival, known: Known): boolean {
  const { messageId } = arrival.message
  if (!sameHash(known.request_hash, hashOf(arrival)))
    throw new IdempotencyKeyReuseError(consumerId, messageId)
  if (known.status !== 'processed')
    throw new NonRetryableError(
      `the message ${messageId} came again and is ${known.status} in the inbox: discard this dead letter, or replay that one`,
    )
  return true
}

/** The handler's error is the outcome of the message. */
function endReplayed({ kit, consumerId }: Replay, id: string, error: unknown): Promise<boolean> {
  return kit.transaction(async (tx) => {
    const open = await take(tx, kit.schema, id)
    if (open !== undefined) await noteReplayed(tx, kit.schema, consumerId, open, errorText(error))
    return open !== undefined
  })
}

/** `reason` where the message ended with an outcome that is no success. */
async function noteReplayed(
  tx: Tx,
  s: string,
  consumerId: string,
  { id, message_id }: DeadLetter,
  reason: string | null = null,
): Promise<void> {
  await tx.query(
    `UPDATE ${s}.dead_letters SET status = 'replayed', replayed_at = clock_timestamp() WHERE id = $1`,
    [id],
  )
  await tx.query(
    `UPDATE ${s}.inbox SET status = 'processed', processed_at = clock_timestamp(), last_error = coalesce($3, last_error)
     WHERE consumer_id = $1 AND message_id = $2`,
    [consumerId, message_id, reason],
  )
}

/** Counts replays that began and did not end, as deliveries are counted; 0 where the message has no row. */
async function noteReplayBegun(kit: SagaKit, consumerId: string, messageId: string): Promise<number> {
  const { rows } = await kit.query<{ unfinished: number }>(
    `UPDATE ${kit.schema}.inbox SET unfinished = unfinished + 1 WHERE consumer_id = $1 AND message_id = $2 RETURNING unfinished`,
    [consumerId, messageId],
  )
  return rows[0]?.unfinished ?? 0
}

/** However it ended: the process lives. */
async function noteReplayEnded(kit: SagaKit, consumerId: string, messageId: string): Promise<void> {
  await kit.query(
    `UPDATE ${kit.schema}.inbox SET unfinished = 0 WHERE consumer_id = $1 AND message_id = $2 AND unfinished > 0`,
    [consumerId, messageId],
  )
}

/**
 * Dead again, for the reason of this replay, with those of its sequence behind it. One that no mapping knew stays known as that,
 * because its id is not the message's own. In one statement with the end of its count: a process that is killed between the two would
 * leave the count to the next replay that a person asks for, which would not begin.
 */
async function noteDeadAgain(
  { kit, consumerId }: Replay,
  id: string,
  deadLetter: DeadLetter | undefined,
  error: unknown,
): Promise<void> {
  const s = kit.schema
  await kit.query(
    `WITH dead AS (
       UPDATE ${s}.dead_letters SET status = 'dead', attempts = attempts + (id = $1)::int,
         error_message = CASE WHEN id = $1 THEN $4 ELSE error_message END,
         error_code = CASE WHEN id = $1 AND error_code <> 'unmapped' THEN $5 ELSE error_code END
       WHERE status = 'replaying' AND (id = $1 OR (consumer_id = $2 AND ordering_key = $3))
         AND EXISTS (SELECT FROM ${s}.dead_letters WHERE id = $1 AND status = 'replaying')
       RETURNING id, consumer_id, message_id)
     UPDATE ${s}.inbox i SET unfinished = 0 FROM dead
     WHERE dead.id = $1 AND i.consumer_id = dead.consumer_id AND i.message_id = dead.message_id`,
    [id, consumerId, deadLetter?.ordering_key ?? null, errorText(error), errorCode(error)],
  )
}

const arrivalNumberOf = (s: string, deadLetter: string) =>
  `coalesce((SELECT i.arrival FROM ${s}.inbox i
             WHERE i.consumer_id = ${deadLetter}.consumer_id AND i.message_id = ${deadLetter}.message_id), 0)`

/** undefined while another process handles it, or an earlier one of its sequence is open. */
async function take(tx: Tx, s: string, id: string): Promise<DeadLetter | undefined> {
  const { rows } = await tx.query<DeadLetter>(
    `SELECT id, message_id, aggregate_type, aggregate_id, ordering_key, type, payload::text AS body, headers::text AS headers,
            ${isoText('created_at')} AS created_at, error_code, delivery::text AS delivery
     FROM ${s}.dead_letters d WHERE id = $1 AND status = 'replaying' AND NOT EXISTS (
       SELECT FROM ${s}.dead_letters b
       WHERE b.consumer_id = d.consumer_id AND b.ordering_key = d.ordering_key AND b.status = 'replaying'
         AND (${arrivalNumberOf(s, 'b')}, b.id) < (${arrivalNumberOf(s, 'd')}, d.id))
     FOR UPDATE OF d SKIP LOCKED`,
    [id],
  )
  return rows[0]
}
