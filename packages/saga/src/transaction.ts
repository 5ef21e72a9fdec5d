/**
 * One transaction, repeated as a whole when PostgreSQL asks for it.
 *
 * Owns: BEGIN/COMMIT/ROLLBACK, the retry of serialization failures and deadlocks with the *whole* function (its
 * decisions were made on a snapshot that did not hold), and the three silent bad ends of a transaction: a failed
 * ROLLBACK that hides the first error, a COMMIT answered with ROLLBACK, and a COMMIT whose answer is lost.
 * Refuses: retrying after a lost connection. Only an idempotency record knows whether the work happened.
 *
 * Source: PostgreSQL documentation, "Serialization Failure Handling" (mvcc-serialization-failure-handling).
 */
import type { PoolClient } from 'pg'
import type { Backoff, Clock, Random } from './core.ts'
import { jitteredDelayMs, pause } from './core.ts'
import {
  asked,
  isConnectionLoss,
  isReadOnly,
  markOutage,
  type Pool,
  type QueryAnswer,
  type Row,
  sqlState,
  sqlStateOf,
  type Tx,
} from './database.ts'
import { CommitOutcomeUnknownError, NoConnectionError, TransactionAbortedError } from './errors.ts'
import { inTransaction } from './open-transactions.ts'
import { given, requireBackoff, requireWhole } from './option-checks.ts'

type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export type TransactionOptions = {
  /** Default `read committed`: the kit's own guards need no more. */
  readonly isolation?: Isolation
  readonly retry?: {
    /** Runs of the function in all; the error of the last one is thrown. Default 5. */
    readonly maxAttempts?: number
    readonly sqlStates?: readonly string[]
    readonly backoff?: Backoff
  }
  /** The server ends a statement that takes longer. Default: the server's own setting. */
  readonly statementTimeoutMs?: number
  /** The server ends the wait for a row lock after this. Default: the server's own setting. */
  readonly lockTimeoutMs?: number
  /** Called before each further run. */
  readonly onRetry?: (sqlState: string, attempt: number) => void
}

type TransactionPorts = {
  readonly clock: Clock
  readonly random: Random
  /** How long to wait for a connection of the pool. */
  readonly connectionWaitMs: number
}

const retryDefaults = {
  maxAttempts: 5,
  sqlStates: [sqlState.serializationFailure, sqlState.deadlockDetected] as readonly string[],
  // Long enough for the rival to commit, short enough that people do not notice.
  backoff: { initialMs: 5, maxMs: 200 } as Backoff,
}

/** Runs `work` in a transaction and commits. If it throws, nothing has happened (except as the errors above say). */
export async function runInTransaction<T>(
  pool: Pool,
  work: (tx: Tx) => Promise<T>,
  options: TransactionOptions,
  ports: TransactionPorts,
): Promise<T> {
  const retry = { ...retryDefaults, ...given(options.retry ?? {}) }
  if (options.retry !== undefined) {
    requireWhole({ 'retry.maxAttempts': retry.maxAttempts })
    requireBackoff('retry.backoff', retry.backoff)
  }
  return repeated(() => runOnce(pool, work, options, ports), retry, options.onRetry, ports)
}

async function repeated<T>(
  run: () => Promise<T>,
  retry: typeof retryDefaults,
  onRetry: TransactionOptions['onRetry'],
  { clock, random }: TransactionPorts,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run()
    } catch (error) {
      const state = sqlStateOf(error)
      if (state === undefined || !retry.sqlStates.includes(state) || attempt >= retry.maxAttempts) throw error
      onRetry?.(state, attempt)
      await pause(clock, jitteredDelayMs(retry.backoff, attempt - 1, random))
    }
  }
}

/** A pool without `connectionTimeoutMillis` would let us wait for ever. */
async function freeConnection(
  pool: Pool,
  { clock, connectionWaitMs }: Omit<TransactionPorts, 'random'>,
): Promise<PoolClient> {
  const connecting = asked(pool.connect())
  const late = Promise.withResolvers<never>()
  const timer = clock.timer(connectionWaitMs, () => {
    const error = new NoConnectionError(connectionWaitMs, {
      max: pool.options.max,
      waiting: pool.waitingCount,
    })
    markOutage(error)
    late.reject(error)
    // It may still come, and is then nobody's.
    connecting.then(
      (client) => client.release(),
      () => {},
    )
  })
  try {
    return await Promise.race([connecting, late.promise])
  } finally {
    timer.cancel()
  }
}

/**
 * One statement outside a transaction. It is one of its own, in the isolation that the database or the user has by default, and
 * repeated like any other.
 */
export function runStatement<R extends Row>(
  pool: Pool,
  ports: TransactionPorts,
  text: string,
  values: unknown[] | undefined,
  onRetry: TransactionOptions['onRetry'],
): Promise<QueryAnswer<R>> {
  return repeated(() => runStatementOnce<R>(pool, ports, text, values), retryDefaults, onRetry, ports)
}

function runStatementOnce<R extends Row>(
  pool: Pool,
  ports: TransactionPorts,
  text: string,
  values: unknown[] | undefined,
): Promise<QueryAnswer<R>> {
  return onConnection(pool, ports, async (client, connection) => {
    try {
      return await asked(client.query<R>(text, values))
    } catch (error) {
      // An error without a state is not the server's: it may still be silent, and then answers nobody after us either.
      if (isConnectionLoss(error) || isReadOnly(error) || sqlStateOf(error) === undefined)
        connection.lost ??= error as Error
      throw error
    }
  })
}

/** A client that is `lost` is never reused. The first error says why: the end of the connection follows as an error of its own. */
async function onConnection<T>(
  pool: Pool,
  ports: TransactionPorts,
  work: (client: PoolClient, connection: { lost: Error | undefined }) => Promise<T>,
): Promise<T> {
  const client = await freeConnection(pool, ports)
  // A checked-out client that loses its connection between two queries emits `error`; without a listener the process ends.
  const connection: { lost: Error | undefined } = { lost: undefined }
  const onError = (error: Error) => {
    connection.lost ??= error
  }
  client.on('error', onError)
  try {
    return await work(client, connection)
  } finally {
    client.off('error', onError)
    client.release(connection.lost)
  }
}

function runOnce<T>(
  pool: Pool,
  work: (tx: Tx) => Promise<T>,
  options: TransactionOptions,
  ports: TransactionPorts,
): Promise<T> {
  return onConnection(pool, ports, async (client, connection) => {
    let failure: unknown
    try {
      await asked(client.query(begin(options)))
      const result = await inTransaction(pool, client as Tx, () => work(client as Tx))
      // Lost before COMMIT was sent: nothing has happened.
      if (connection.lost !== undefined) throw connection.lost
      await commit(client)
      return result
    } catch (error) {
      failure = error
      if (!(error instanceof CommitOutcomeUnknownError)) {
        failure = await rollback(client).then(
          () => undefined,
          (rollbackError: unknown) => rollbackError,
        )
        const ending = [error, connection.lost].find(endedForTheWork)
        if (ending !== undefined) throw ending
        // A connection that still replies was not lost, even if the error looks like it: the work raised that error.
        if (isConnectionLoss(failure)) markOutage(error)
        if (failure === undefined && isReadOnly(error) && (await onlyReads(client))) {
          markOutage(error)
          failure = error
        }
      }
      throw error
    } finally {
      connection.lost ??= failure as Error | undefined
    }
  })
}

/**
 * The server ended the session because the work paused or ran too long: idle_in_transaction_session_timeout,
 * transaction_timeout.
 */
function endedForTheWork(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state === sqlState.idleInTransaction || state === sqlState.transactionTimeout
}

/** Outside of a transaction: the work may have made its own read-only, and then another connection would not help. */
async function onlyReads(client: PoolClient): Promise<boolean> {
  const { rows } = await client
    .query("SELECT current_setting('transaction_read_only') AS setting")
    .catch(() => ({ rows: [] }))
  return rows[0]?.setting === 'on'
}

/** One round trip: the settings are local to the transaction, so a pooler in transaction mode never sees them. */
function begin({
  isolation = 'read committed',
  statementTimeoutMs,
  lockTimeoutMs,
}: TransactionOptions): string {
  const settings = [
    `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`,
    ...(statementTimeoutMs === undefined
      ? []
      : [`SET LOCAL statement_timeout = ${Math.ceil(statementTimeoutMs)}`]),
    ...(lockTimeoutMs === undefined ? [] : [`SET LOCAL lock_timeout = ${Math.ceil(lockTimeoutMs)}`]),
  ]
  return settings.join('; ')
}

async function commit(client: PoolClient): Promise<void> {
  let answer: { command: string }
  try {
    answer = await client.query('COMMIT')
  } catch (error) {
    // An error without a state is not the server's: the client had no answer (a timeout, for example).
    if (isConnectionLoss(error) || sqlStateOf(error) === undefined)
      throw new CommitOutcomeUnknownError({ cause: error })
    throw error
  }
  if (answer.command !== 'COMMIT') throw new TransactionAbortedError()
}

async function rollback(client: PoolClient): Promise<void> {
  await client.query('ROLLBACK')
}
