/**
 * The consumer's side of replaying: takes up the dead letters of its inbox that an operator requested to replay.
 *
 * Each in a transaction of its own, in the order of first arrival, which is that of its sequence; a handler that works
 * outside runs without an open transaction. A letter that fails again is dead again, and so are those of its sequence
 * behind it, unless its error is an outcome (`error-meaning.ts`). A letter whose step is in progress, whose lock is held, or that met an outage of the database waits, and
 * so do those behind it.
 */
import { isOutage, type Tx } from './database.ts'
import { errorJson, errorText } from './error-json.ts'
import { finalOutcomeOf } from './error-meaning.ts'
import { LockNotAcquiredError, NonRetryableError, OperationInProgressError } from './errors.ts'
import type { Handler, Received } from './handlers.ts'
import type { SagaKit } from './kit.ts'

type Letter = {
  id: string
  message_id: string
  aggregate_type: string
  aggregate_id: string
  ordering_key: string | null
  type: string
  body: string
  headers: Record<string, string>
  created_at: Date
}

/** Returns how many succeeded. */
export async function replayOnce(
  kit: SagaKit,
  consumerId: string,
  handlers: Readonly<Record<string, Handler>>,
): Promise<number> {
  const { rows } = await kit.pool.query(
    `SELECT d.id, d.type FROM ${kit.schema}.dead_letters d LEFT JOIN ${kit.schema}.inbox i USING (consumer_id, message_id)
     WHERE d.source = 'inbox' AND d.consumer_id = $1 AND d.status = 'replaying' ORDER BY i.arrival NULLS FIRST, d.id LIMIT 100`,
    [consumerId],
  )
  let through = 0
  for (const { id, type } of rows) {
    const handler = Object.hasOwn(handlers, type) ? handlers[type] : undefined
    if (await replayLetter(kit, consumerId, handler, id)) through += 1
  }
  return through
}

async function replayLetter(
  kit: SagaKit,
  consumerId: string,
  handler: Handler | undefined,
  id: string,
): Promise<boolean> {
  const s = kit.schema
  let letter: Letter | undefined
  try {
    if (handler === undefined) throw new NonRetryableError('this consumer has no handler for its type')
    if (typeof handler !== 'function') {
      letter = await kit.transaction((tx) => take(tx, s, id))
      if (letter === undefined) return false
      await handler.outside(receivedFrom(letter))
    }
    return await kit.transaction(async (tx) => {
      letter = await take(tx, s, id)
      if (letter === undefined) return false
      if (typeof handler === 'function') await handler(tx, receivedFrom(letter))
      await noteReplayed(tx, s, consumerId, letter)
      return true
    })
  } catch (error) {
    if (error instanceof OperationInProgressError || error instanceof LockNotAcquiredError) return false
    if (isOutage(error)) return false
    if (finalOutcomeOf(error) !== undefined)
      return kit.transaction(async (tx) => {
        const open = await take(tx, s, id)
        if (open !== undefined) await noteReplayed(tx, s, consumerId, open, errorText(error))
        return open !== undefined
      })
    await kit.pool.query(
      `UPDATE ${s}.dead_letters SET status = 'dead', attempts = attempts + (id = $1)::int,
         error_message = CASE WHEN id = $1 THEN $4 ELSE error_message END
       WHERE status = 'replaying' AND (id = $1 OR (consumer_id = $2 AND ordering_key = $3))
         AND EXISTS (SELECT FROM ${s}.dead_letters WHERE id = $1 AND status = 'replaying')`,
      [id, consumerId, letter?.ordering_key ?? null, errorJson(error)],
    )
    return false
  }
}

/** `reason` where the message ended with an outcome that is no success. */
async function noteReplayed(
  tx: Tx,
  s: string,
  consumerId: string,
  { id, message_id }: Letter,
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

const arrivalOf = (s: string, letter: string) =>
  `coalesce((SELECT i.arrival FROM ${s}.inbox i
             WHERE i.consumer_id = ${letter}.consumer_id AND i.message_id = ${letter}.message_id), 0)`

/** undefined while another process handles it, or an earlier one of its sequence is open. */
async function take(tx: Tx, s: string, id: string): Promise<Letter | undefined> {
  const { rows } = await tx.query<Letter>(
    `SELECT id, message_id, aggregate_type, aggregate_id, ordering_key, type, payload::text AS body, headers, created_at
     FROM ${s}.dead_letters d WHERE id = $1 AND status = 'replaying' AND NOT EXISTS (
       SELECT FROM ${s}.dead_letters b
       WHERE b.consumer_id = d.consumer_id AND b.ordering_key = d.ordering_key AND b.status = 'replaying'
         AND (${arrivalOf(s, 'b')}, b.id) < (${arrivalOf(s, 'd')}, d.id))
     FOR UPDATE OF d SKIP LOCKED`,
    [id],
  )
  return rows[0]
}

function receivedFrom(letter: Letter): Received {
  return {
    messageId: letter.message_id,
    aggregateType: letter.aggregate_type,
    aggregateId: letter.aggregate_id,
    type: letter.type,
    body: letter.body,
    payload: JSON.parse(letter.body),
    headers: letter.headers,
    createdAt: letter.created_at.toISOString(),
    redelivered: true,
  }
}
