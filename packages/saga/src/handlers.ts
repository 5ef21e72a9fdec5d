/** What the application does with a message: the forms of a handler. */
import type { Tx } from './database.ts'
import type { InboundMessage } from './messages.ts'

export type Received<P = unknown> = InboundMessage & { readonly payload: P }

/**
 * Database only: executed in the transaction of the inbox row. `own` is that transaction as the application's library
 * knows it, where the consumer was given one (`transaction`).
 */
export type TransactionalHandler<P = unknown, O = unknown> = (
  tx: Tx,
  message: Received<P>,
  ...own: unknown extends O ? [own?: unknown] : [own: O]
) => Promise<unknown>

/**
 * With effects outside: executed before the inbox row is written, so it must be idempotent itself. It is, if it calls
 * only `runIdempotentStep` or `processSagaStep`.
 */
export type OutsideHandler<P = unknown> = { readonly outside: (message: Received<P>) => Promise<unknown> }

export type Handler<P = unknown, O = unknown> = TransactionalHandler<P, O> | OutsideHandler<P>

/**
 * One handler for each type of message. `M` maps the types to their payloads, for example
 * `{ OrderPlaced: { orderId: string } }`; without it every payload is unknown. The kit does not check payloads.
 */
export type Handlers<M extends object = Record<string, unknown>, O = unknown> = {
  readonly [T in keyof M & string]: Handler<M[T], O>
}
