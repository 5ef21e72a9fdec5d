/**
 * Work that lives in the database alone: the key, the work and its result are one transaction.
 *
 * The key is inserted *first*. A rival with the same key waits inside that INSERT until the first one commits, and then
 * reads the result in a new statement, under READ COMMITTED; a rival of one that rolled back goes ahead itself. So there
 * is no state "in progress" to see, to clean up or to be stuck in, and a crash leaves nothing behind.
 * Refuses: work that calls something outside the database (`step.ts`): it would be repeated by every retry.
 *
 * Source: PostgreSQL documentation, INSERT … ON CONFLICT; Brandur Leach, "Implementing Stripe-like Idempotency Keys".
 */
import { isOutage, sqlState, sqlStateOf, type Tx } from './database.ts'
import { IdempotencyKeyReuseError, OperationInProgressError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { requestHash } from './request-hash.ts'
import type { TransactionOptions } from './transaction.ts'

export type IdempotencyRequest = {
  /** Names the operation: the same key in another scope is another key. */
  readonly scope: string
  readonly key: string
  /** What is asked for. The same key with another request is an error. */
  readonly request: unknown
  /** How long the result answers repetitions. Default 24 hours. */
  readonly ttlMs?: number
  /** When a rival is at work: wait for its result, or say so at once. Default `wait`. */
  readonly onInProgress?: 'wait' | 'throw'
  readonly transaction?: TransactionOptions
}

export type Replayable<T> = { readonly replayed: boolean; readonly result: T }

export const dayMs = 24 * 60 * 60 * 1000

/** How long `onInProgress: 'throw'` waits for a rival that may be just about to commit. */
const rivalPatienceMs = 20

/** Re-entries after a lost connection; the record decides whether there is still something to do. */
const reentriesMax = 3

/**
 * Carries out `work` once for each (scope, key), together with everything that it writes through `tx`.
 * The result is what JSON keeps of it, the first time and every time: a Date is a string, and nothing is null.
 */
export async function withIdempotency<T>(
  kit: SagaKit,
  request: IdempotencyRequest,
  work: (tx: Tx) => Promise<T>,
): Promise<Replayable<T>> {
  const hash = requestHash(request.request)
  for (let reentry = 0; ; reentry += 1) {
    try {
      return await attempt(kit, request, hash, work)
    } catch (error) {
      if (!isOutage(error) || reentry === reentriesMax) throw error
    }
  }
}

async function attempt<T>(
  kit: SagaKit,
  request: IdempotencyRequest,
  hash: Buffer,
  work: (tx: Tx) => Promise<T>,
): Promise<Replayable<T>> {
  const { scope, key, onInProgress = 'wait' } = request
  try {
    const answer = await kit.transaction(
      async (tx) => {
        if (!(await claim(tx, kit.schema, request, hash))) return replay<T>(tx, kit.schema, scope, key, hash)
        if (onInProgress === 'throw') await tx.query('SET LOCAL lock_timeout = DEFAULT')
        const text = serialised(await work(tx))
        await tx.query(
          `UPDATE ${kit.schema}.idempotency_keys SET result = $3, updated_at = clock_timestamp() WHERE scope = $1 AND key = $2`,
          [scope, key, text],
        )
        return { replayed: false, result: JSON.parse(text) as T }
      },
      { ...request.transaction, ...(onInProgress === 'throw' ? { lockTimeoutMs: rivalPatienceMs } : {}) },
    )
    if (answer.replayed) kit.emit({ kind: 'replayed', scope, outcome: 'completed' })
    return answer
  } catch (error) {
    if (onInProgress === 'throw' && isWaitingForTheKey(error))
      throw new OperationInProgressError(`${scope} ${key}`, rivalPatienceMs)
    throw error
  }
}

/** Row written: the key is ours. An expired row counts as none. */
async function claim(tx: Tx, s: string, request: IdempotencyRequest, hash: Buffer): Promise<boolean> {
  try {
    const { rowCount } = await tx.query(
      `INSERT INTO ${s}.idempotency_keys AS k (scope, key, request_hash, status, owner, fence, locked_until, expires_at)
       VALUES ($1, $2, $3, 'completed', '', 0, clock_timestamp(), clock_timestamp() + $4 * interval '1 millisecond')
       ON CONFLICT (scope, key) DO UPDATE
         SET request_hash = EXCLUDED.request_hash, status = 'completed', owner = '', result = NULL, error = NULL, attempts = 1,
             created_at = clock_timestamp(), updated_at = clock_timestamp(), expires_at = EXCLUDED.expires_at
         WHERE k.status IN ('completed', 'failed') AND k.expires_at < clock_timestamp()`,
      [request.scope, request.key, hash, request.ttlMs ?? dayMs],
    )
    return rowCount === 1
  } catch (error) {
    if (sqlStateOf(error) === sqlState.lockNotAvailable) throw new KeyBusy({ cause: error })
    throw error
  }
}

/** Only the wait for the key means "in progress"; the application's own lock timeouts are its own. */
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
  const { rows } = await tx.query<{ request_hash: Buffer; status: string; result: string }>(
    `SELECT request_hash, status, result::text AS result FROM ${s}.idempotency_keys WHERE scope = $1 AND key = $2`,
    [scope, key],
  )
  // The row was seen by the INSERT and is locked by it: retention cannot have removed it since.
  const row = rows[0]!
  if (!row.request_hash.equals(hash)) throw new IdempotencyKeyReuseError(scope, key)
  if (row.status !== 'completed') throw new IdempotencyKeyReuseError(scope, key)
  return { replayed: true, result: JSON.parse(row.result) as T }
}

/** What the caller gets and what is stored are the same text, so that a replay cannot differ from the first answer. */
export function serialised(result: unknown): string {
  return JSON.stringify(result ?? null)
}
