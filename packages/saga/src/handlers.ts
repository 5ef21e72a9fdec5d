/** What an application says is to be done with a message, as it is handed to it. */
import type { Tx } from './database.ts'
import type { InboundMessage } from './messages.ts'

export type Received = InboundMessage & { readonly payload: unknown }

/** Everything in the database: executed in the transaction of the inbox row. */
export type TransactionalHandler = (tx: Tx, message: Received) => Promise<unknown>

/**
 * With effects outside: executed before the inbox row is written, so it must be idempotent by itself, which it is where
 * all it does is `runIdempotentStep` or `processSagaStep`.
 */
export type OutsideHandler = { readonly outside: (message: Received) => Promise<unknown> }

export type Handler = TransactionalHandler | OutsideHandler
