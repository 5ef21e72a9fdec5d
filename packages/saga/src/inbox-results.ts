/**
 * The result of a message's handler, for consumers that answer their sender: the first delivery and every duplicate get
 * the same one.
 *
 * Owns the column `result` of the inbox. It is written in the transaction of the handler, so it is there if and only if
 * the message is processed.
 */
import type { Tx } from './database.ts'
import type { Received } from './handlers.ts'
import { type Replayable, serialised } from './idempotency.ts'
import type { Entry } from './inbox-rows.ts'
import type { SagaKit } from './kit.ts'

/**
 * Called after the message is processed, and again for every duplicate, before the broker gets its acknowledgement. If
 * it throws, the message comes again, and with it this call, as often as its policy says.
 */
export type OnProcessed = (message: Received, outcome: Replayable<unknown>) => Promise<unknown>

/** The message is processed, and its sender not answered: `cause` is what `onProcessed` threw. */
export class NotAnswered extends Error {}

/** What it throws is known by its class: it means nothing for the message itself. */
export function answering(onProcessed: OnProcessed | undefined): OnProcessed | undefined {
  if (onProcessed === undefined) return undefined
  return async (message, outcome) => {
    try {
      return await onProcessed(message, outcome)
    } catch (cause) {
      throw new NotAnswered('not answered', { cause })
    }
  }
}

export async function keepResult(kit: SagaKit, tx: Tx, entry: Entry, result: unknown): Promise<unknown> {
  const text = serialised(result)
  await tx.query(
    `UPDATE ${kit.schema}.inbox SET result = $3::text::json WHERE consumer_id = $1 AND message_id = $2`,
    [entry.consumerId, entry.message.messageId, text],
  )
  return JSON.parse(text)
}

/**
 * Passes on the result that was kept for a duplicate. Of a message that ended without one (the business refused it, it
 * was discarded or replayed as a dead letter, or results were not kept then) nothing is passed on.
 */
export async function passOnKept(
  kit: SagaKit,
  entry: Entry,
  received: Received,
  onProcessed: OnProcessed | undefined,
): Promise<void> {
  if (onProcessed === undefined) return
  const { rows } = await kit.query<{ result: string | null }>(
    `SELECT result::text AS result FROM ${kit.schema}.inbox WHERE consumer_id = $1 AND message_id = $2`,
    [entry.consumerId, entry.message.messageId],
  )
  const text = rows[0]?.result ?? null
  if (text !== null) await onProcessed(received, { replayed: true, result: JSON.parse(text) })
}
