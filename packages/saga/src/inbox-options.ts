/** What an application says about its messages: the options of `inbox.ts`, and so of `createConsumer`. */

import type { Backoff } from './core.ts'
import type { Tx } from './database.ts'
import { NonRetryableError, SagaConfigError } from './errors.ts'
import type { QuorumCheck } from './first-check.ts'
import { type Replayable, serialised } from './idempotency.ts'
import type { Arrival, Inbound } from './inbound.ts'
import { type Entry, storedKey } from './inbox-rows.ts'
import type { InboxTransaction } from './inbox-transaction.ts'
import type { SagaKit } from './kit.ts'
import type { Handler, InboundMessage, Received } from './messages.ts'
import { given, requireBackoff, requireWhole } from './option-checks.ts'
import type { Schemas } from './payload.ts'
import type { OnUnhandled } from './unhandled.ts'

export type InboxOptions = {
  readonly kit: SagaKit
  /** Distinguishes the consumers of one database, so that they do not swallow each other's messages. */
  readonly consumerId: string
  /** By message type. */
  readonly handlers: Readonly<Record<string, Handler>>
  /** How a message's id, type, ordering key and payload are read. Default: the format of this kit's relay. */
  readonly inbound?: Inbound
  /** What becomes of a message that no mapping reads or no handler is for. Default `dead-letter`. */
  readonly onUnhandled?: OnUnhandled
  /**
   * Messages with the same key are handled in order, and wait for one that failed. Default: what the mapping says,
   * otherwise the aggregate.
   */
  readonly orderingKey?: OrderingKey
  /** For all types, and by type (`byType`). */
  readonly retry?: RetryPolicies
  /** True for an error of a handler that no retry can help: its message becomes a dead letter at once. */
  readonly unrecoverable?: (error: unknown, message: InboundMessage) => boolean
  /** By message type, of any library that implements Standard Schema (zod, valibot, …): a refused payload is a dead letter. */
  readonly schemas?: Schemas
  /** Default `park-sequence`. */
  readonly onExhausted?: 'park-sequence' | 'park-message'
  /**
   * A retry due within this time happens here, its sequence waiting behind it, instead of going back to the broker. It
   * keeps its place among the `concurrency` meanwhile. Default 1 s; 0 gives everything back.
   */
  readonly retryInPlaceMs?: number
  /** Gets the result of the handler, the stored one for a duplicate: for consumers that answer. */
  readonly onProcessed?: OnProcessed
  /**
   * Asks the quorum first, so that a duplicate of a message that another process handles waits without a connection to the
   * database. PostgreSQL decides as before, and alone while the quorum does not answer.
   */
  readonly quorum?: QuorumCheck
  /** How long the inbox remembers messages. Must be longer than any redelivery. Default 7 days. */
  readonly retentionMs?: number
  /**
   * The transaction of inbox row and handler, where that is one of your query builder or ORM. Default: one of the kit's
   * pool, which is repeated after a serialization failure or a deadlock; yours is not, and the message comes again.
   */
  readonly transaction?: InboxTransaction
}

/** Messages with the same key are handled in order. undefined: this message is in no order; `none`: no message is. */
type OrderingKey = ((message: InboundMessage) => string | undefined) | 'none'

export function orderingKeyOf(orderingKey: OrderingKey | undefined, arrival: Arrival): string | null {
  const { message } = arrival
  if (orderingKey === 'none') return null
  const key = orderingKey === undefined ? arrival.orderingKey : (orderingKey(message) ?? null)
  if (key !== undefined) return key === null ? null : storedKey(key)
  return message.aggregateId === '' ? null : storedKey(`${message.aggregateType}/${message.aggregateId}`)
}

/** The handler for a message that the application's own `orderingKey` could not read. */
export function unreadableKey(error: unknown): Handler {
  return async () => {
    throw new NonRetryableError('the ordering key of the message cannot be read', { cause: error })
  }
}

/** How often and when a message is tried again. */
export type RetryPolicy = {
  /** Default 10. */
  readonly maxAttempts?: number
  /** Default from 200 ms to one minute. */
  readonly backoff?: Backoff
}

/** What a type does not say is as for all types. */
export type RetryPolicies = RetryPolicy & { readonly byType?: Readonly<Record<string, RetryPolicy>> }

/** @throws SagaConfigError for a policy whose retries outlast the inbox's memory */
export function retryPolicies(
  retry: RetryPolicies,
  retentionMs: number,
): (type: string) => Required<RetryPolicy> {
  const { byType = {}, ...ofAll } = retry
  const forAll = { maxAttempts: 10, backoff: { initialMs: 200, maxMs: 60_000 }, ...given(ofAll) }
  requireWithin('', forAll, retentionMs)
  const own = new Map(Object.entries(byType).map(([type, policy]) => [type, { ...forAll, ...given(policy) }]))
  for (const [type, policy] of own) requireWithin(` of ${type}`, policy, retentionMs)
  return (type) => own.get(type) ?? forAll
}

function requireWithin(
  of: string,
  { maxAttempts, backoff }: Required<RetryPolicy>,
  retentionMs: number,
): void {
  requireWhole({ [`retry.maxAttempts${of}`]: maxAttempts })
  requireBackoff(`retry.backoff${of}`, backoff)
  const horizonMs = maxAttempts * backoff.maxMs
  if (retentionMs <= horizonMs)
    throw new SagaConfigError(
      `retentionMs ${retentionMs} must be longer than all retries${of} together (${maxAttempts} × ${backoff.maxMs} ms = ${horizonMs} ms)`,
    )
}

/**
 * For consumers that answer their sender. The column `result` is written in the transaction of the handler, so it is there if and only if
 * the message is processed: the first delivery and every duplicate get the same one. Called after the message is processed, and again for
 * every duplicate, before the broker gets its acknowledgement. If it throws, the message comes again, and with it this call, as often as its
 * policy says.
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
