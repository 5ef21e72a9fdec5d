/**
 * Work inside the database alone: the key, the work and its result are one transaction.
 *
 * The key is inserted *first*. A rival with the same key waits inside that INSERT until the first one commits, and then
 * reads the result in a new statement, under READ COMMITTED; a rival of one that rolled back goes ahead itself. So no
 * state "in progress" exists to clean up or to be stuck in, and a crash leaves nothing behind.
 * Refuses: work that calls anything outside the database (`step.ts`), because every retry would repeat it.
 *
 * Source: PostgreSQL documentation, INSERT … ON CONFLICT; Brandur Leach, "Implementing Stripe-like Idempotency Keys".
 */

import { isOutage, rowsWritten, sqlState, sqlStateOf, type Tx } from './database.ts'
import {
  IdempotencyKeyReuseError,
  NestedTransactionError,
  NoConnectionError,
  OperationInProgressError,
} from './errors.ts'
import { refuseOptions, type SagaKit } from './kit.ts'
import { join, transactionAround, transactionOf } from './open-transactions.ts'
import { requireName, requirePositive } from './option-checks.ts'
import { requestHash, sameHash } from './request-hash.ts'
import { currentMessage } from './saga-step-rows.ts'
import type { TransactionOptions } from './transaction.ts'

export type IdempotencyRequest = {
  /** Names the operation: the same key in another scope is a different key. */
  readonly scope: string
  readonly key: string
  /** The request. The same key with another request is an error. */
  readonly request: unknown
  /** How long repetitions get the result. Default 24 hours; 90 days in a handler of the form `{ outside }`. */
  readonly ttlMs?: number
  /** While a rival works: wait for its result, or throw at once. Default `wait`. */
  readonly onInProgress?: 'wait' | 'throw'
  /** Of the transaction that is begun. */
  readonly transaction?: TransactionOptions
  /**
   * The transaction to join, where the application has begun one itself. A transaction that the kit has begun around
   * the call is joined without being named.
   */
  readonly tx?: Tx
}

export type Replayable<T> = { readonly replayed: boolean; readonly result: T }

export const dayMs = 24 * 60 * 60 * 1000

/** Of what messages cause: they may come back as dead letters, when a person has found the time. */
export const longTtlMs = 90 * dayMs

/** A handler that works outside its message's transaction commits its keys without it, so they outlive its failure. */
export function ttlOf({ ttlMs }: { readonly ttlMs?: number }): number {
  return ttlMs ?? (currentMessage() === undefined ? dayMs : longTtlMs)
}

/** How long `onInProgress: 'throw'` waits for a rival that may be about to commit. */
const rivalPatienceMs = 20

/** Re-entries after a lost connection; the record decides whether work is left. */
const reentriesMax = 3

/**
 * Executes `work` once for each (scope, key), together with everything that it writes through `tx`. Inside a transaction
 * it joins that one: key, work and result are committed with it, or not at all.
 * The result is what JSON keeps of it, also the first time: a Date becomes a string, and undefined becomes null.
 */
export async function withIdempotency<T>(
  kit: SagaKit,
  request: IdempotencyRequest,
  work: (tx: Tx) => Promise<T>,
): Promise<Replayable<T>> {
  requireName('scope', request.scope)
  requireName('key', request.key)
  requirePositive({ ttlMs: request.ttlMs })
  const hash = requestHash(request.request)
  const open = request.tx === undefined ? transactionAround(kit.pool) : transactionOf(request.tx)
  if (open !== undefined) {
    refuseOptions(request.transaction ?? {})
    return attempt(kit, request, hash, work, (run) => join(open, run))
  }
  for (let reentry = 0; ; reentry += 1) {
    try {
      return await attempt(kit, request, hash, work, (run) => kit.transaction(run, request.transaction))
    } catch (error) {
      // Who has waited for a connection once waits no longer for the same.
      if (!isOutage(error) || error instanceof NoConnectionError || reentry === reentriesMax) throw error
    }
  }
}

async function attempt<T>(
  kit: SagaKit,
  request: IdempotencyRequest,
  hash: Buffer,
  work: (tx: Tx) => Promise<T>,
  transaction: (run: (tx: Tx) => Promise<Replayable<T>>) => Promise<Replayable<T>>,
): Promise<Replayable<T>> {
  const { scope, key, onInProgress = 'wait' } = request
  try {
    const answer = await transaction(async (tx) => {
      const mine =
        onInProgress === 'throw'
          ? await impatiently(tx, () => claim(tx, kit.schema, request, hash))
          : await claim(tx, kit.schema, request, hash)
      if (!mine) return replay<T>(tx, kit.schema, scope, key, hash)
      const text = serialised(await work(tx))
      // It is kept from its end on: rivals have waited for it, and it may have taken longer than that.
      await tx.query(
        `UPDATE ${kit.schema}.idempotency_keys
         SET result = $3::text::json, updated_at = clock_timestamp(), expires_at = clock_timestamp() + $4 * interval '1 millisecond'
         WHERE scope = $1 AND key = $2`,
        [scope, key, text, ttlOf(request)],
      )
      return { replayed: false, result: JSON.parse(text) as T }
    })
    if (answer.replayed) kit.emit({ kind: 'replayed', scope, outcome: 'completed' })
    return answer
  } catch (error) {
    // Also with `wait`, where a lock_timeout or statement_timeout of the application or the database is shorter than the rival's work.
    if (isWaitingForTheKey(error)) throw new OperationInProgressError(`${scope} ${key}`, rivalPatienceMs)
    throw error
  }
}

/** An end of the transaction, or of its savepoint, takes the setting back as well. */
async function impatiently<T>(tx: Tx, wait: () => Promise<T>): Promise<T> {
  const { rows } = await tx.query<{ before: string }>(`SELECT current_setting('lock_timeout') AS before`)
  await tx.query(`SELECT set_config('lock_timeout', $1, true)`, [`${rivalPatienceMs}ms`])
  const result = await wait()
  await tx.query(`SELECT set_config('lock_timeout', $1, true)`, [rows[0]!.before])
  return result
}

/** True if the row was written: the key is ours. An expired row counts as none. */
async function claim(tx: Tx, s: string, request: IdempotencyRequest, hash: Buffer): Promise<boolean> {
  try {
    const answer = await tx.query(
      `INSERT INTO ${s}.idempotency_keys AS k (scope, key, request_hash, status, owner, fence, locked_until, expires_at)
       VALUES ($1, $2, $3, 'completed', '', 0, clock_timestamp(), clock_timestamp() + $4 * interval '1 millisecond')
       ON CONFLICT (scope, key) DO UPDATE
         SET request_hash = EXCLUDED.request_hash, status = 'completed', owner = '', result = NULL, error = NULL, attempts = 1,
             created_at = clock_timestamp(), updated_at = clock_timestamp(), expires_at = EXCLUDED.expires_at
         WHERE k.status IN ('completed', 'failed') AND k.expires_at < clock_timestamp()`,
      [request.scope, request.key, hash, ttlOf(request)],
    )
    return rowsWritten(answer) === 1
  } catch (error) {
    if (waitEnded.includes(sqlStateOf(error))) throw new KeyBusy({ cause: error })
    throw error
  }
}

/** By lock_timeout, or by statement_timeout: the statement does nothing else that takes time. */
const waitEnded: readonly unknown[] = [sqlState.lockNotAvailable, sqlState.queryCanceled]

/** Only waiting for the key means "in progress"; a lock timeout of the application does not. */
class KeyBusy extends Error {
  constructor(options: ErrorOptions) {
    super('the key is being claimed by somebody else', options)
  }
}

function isWaitingForTheKey(error: unknown): boolean {
  return error instanceof KeyBusy
}

async function replay<T>(
  tx: Tx,
  s: string,
  scope: string,
  key: string,
  hash: Buffer,
): Promise<Replayable<T>> {
  const { rows } = await tx.query<{ request_hash: Uint8Array; status: string; result: string | null }>(
    `SELECT request_hash, status, result::text AS result FROM ${s}.idempotency_keys WHERE scope = $1 AND key = $2`,
    [scope, key],
  )
  // The INSERT saw and locked the row, so retention cannot have removed it since.
  const row = rows[0]!
  if (!sameHash(row.request_hash, hash)) throw new IdempotencyKeyReuseError(scope, key)
  if (row.status !== 'completed') throw new IdempotencyKeyReuseError(scope, key)
  // A result is a text, also where the work has none: without one the row is of this transaction, and its work still runs.
  if (row.result === null)
    throw new NestedTransactionError(
      `withIdempotency for ${scope} ${key}`,
      'the work of this very key is open there, and has no result yet: give what it calls a key or a scope of its own',
    )
  return { replayed: true, result: JSON.parse(row.result) as T }
}

/** The caller gets the stored text, so a replay cannot differ from the first answer. */
export function serialised(result: unknown): string {
  return JSON.stringify(result ?? null)
}

/**
 * A function of the application that takes effect once for each key: `withIdempotency` around it, for every call.
 *
 *     const placeOrder = idempotentFunction(kit, { scope: 'place-order', key: (order: Order) => order.id }, insertOrder)
 *     const { replayed, result } = await placeOrder(order)
 */
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
