/**
 * A function of the application that takes effect once for each key: `withIdempotency` around it, for every call.
 *
 *     const placeOrder = idempotentFunction(kit, { scope: 'place-order', key: (order: Order) => order.id }, insertOrder)
 *     const { replayed, result } = await placeOrder(order)
 */
import type { Tx } from './database.ts'
import { type IdempotencyRequest, type Replayable, withIdempotency } from './idempotency.ts'
import type { SagaKit } from './kit.ts'

export type IdempotentFunction<I, R> = (input: I, call?: { readonly tx?: Tx }) => Promise<Replayable<R>>

export type IdempotentFunctionOptions<I> = Omit<IdempotencyRequest, 'key' | 'request' | 'tx'> & {
  readonly key: (input: I) => string
  /** What must be equal in a repetition. Default: the whole input, which must then be JSON. */
  readonly request?: (input: I) => unknown
}

/** A duplicate gets the first result; an error is thrown, nothing of it is kept, and the next call runs the function. */
export function idempotentFunction<I, R>(
  kit: SagaKit,
  { key, request = (input) => input, ...options }: IdempotentFunctionOptions<I>,
  work: (tx: Tx, input: I) => Promise<R>,
): IdempotentFunction<I, R> {
  return (input, { tx } = {}) =>
    withIdempotency(
      kit,
      { ...options, key: key(input), request: request(input), ...(tx === undefined ? {} : { tx }) },
      (inner) => work(inner, input),
    )
}
