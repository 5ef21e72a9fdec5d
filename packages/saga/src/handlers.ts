/** What the application does with a message: the forms of a handler. */
import type { Tx } from './database.ts'
import type { InboundMessage } from './messages.ts'

export type Received = InboundMessage & { readonly payload: unknown }

/** Database only: executed in the transaction of the inbox row. */
export type TransactionalHandler = (tx: Tx, message: Received) => Promise<unknown>

/**
 * With effects outside: executed before the inbox row is written, so it must be idempotent itself. It is, if it calls
 * only `runIdempotentStep` or `processSagaStep`.
 */
export type OutsideHandler = { readonly outside: (message: Received) => Promise<unknown> }

export type Handler = TransactionalHandler | OutsideHandler
