/** What an application says about its messages: the options of `inbox.ts`, and so of `createConsumer`. */
import type { QuorumCheck } from './first-check.ts'
import type { Handler } from './handlers.ts'
import type { Inbound } from './inbound.ts'
import type { OnProcessed } from './inbox-results.ts'
import type { InboxTransaction } from './inbox-transaction.ts'
import type { SagaKit } from './kit.ts'
import type { InboundMessage } from './messages.ts'
import type { OrderingKey } from './ordering-key.ts'
import type { Schemas } from './payload.ts'
import type { RetryPolicies } from './retry-policy.ts'
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
