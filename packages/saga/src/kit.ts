/**
 * The kit: a pool, a schema, a clock and event subscribers. Every function of the saga kit takes it first.
 *
 * Owns checking its options, and the listener that keeps a broken idle connection from ending the process.
 * Refuses to own the pool: the application that made it ends it.
 */

import type { PoolClient } from 'pg'
import { processClock, processRandom } from './ambient.ts'
import type { Clock, Random } from './core.ts'
import { identifier, type Pool, type QueryAnswer, type Row, type Tx } from './database.ts'
import { NestedTransactionError, SagaConfigError } from './errors.ts'
import { eventLog, subscriberFaults } from './event-log.ts'
import { guarded, type SagaEvents } from './events.ts'
import { inTurn, join, transactionAround } from './open-transactions.ts'
import { given, requirePositive, requireWhole } from './option-checks.ts'
import { runInTransaction, runStatement, type TransactionOptions } from './transaction.ts'

export type SagaKitOptions = {
  readonly pool: Pool
  /** The tables have a schema of their own. Default `fencepost`. */
  readonly schema?: string
  /**
   * Number of partitions of the outbox, which is the largest number of relays that can share the work.
   * May change only while the outbox is empty. Default 16.
   */
  readonly partitions?: number
  /** How long a call waits for a connection of the pool, then it throws `NoConnectionError`. Default 10 s. */
  readonly connectionWaitMs?: number
  /**
   * Retention, expiry of dead letters and upkeep of partitions, in the background of consumers, relays and saga runners.
   * Default: on, every 5 minutes. `false`: the application calls `runRetention` itself.
   */
  readonly housekeeping?: HousekeepingOptions | false
  readonly clock?: Clock
  readonly random?: Random
  /** Default: errors and warnings go to the console. `() => {}` is silence. */
  readonly events?: SagaEvents
}

export interface SagaKit {
  readonly pool: Pool
  readonly schemaName: string
  /** Quoted, for SQL. */
  readonly schema: string
  readonly partitions: number
  readonly housekeeping: HousekeepingOptions | false
  readonly clock: Clock
  readonly random: Random
  readonly emit: SagaEvents
  /**
   * Runs `work` in a transaction. Called inside a transaction of this kit's pool it joins that one, as a savepoint, and
   * then takes no options: they belong to the one that began.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** One statement: in the transaction around the call, or on a connection of its own. */
  query<R extends Row = Row>(text: string, values?: unknown[]): Promise<QueryAnswer<R>>
}

export const partitionsDefault = 16

export function requirePartitions(partitions: number): void {
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > 1024)
    throw new SagaConfigError(`partitions: ${partitions} (a whole number from 1 to 1024 expected)`)
}

export function createSagaKit(options: SagaKitOptions): SagaKit {
  const {
    pool,
    schema = 'fencepost',
    partitions = partitionsDefault,
    connectionWaitMs = 10_000,
    housekeeping = {},
    clock = processClock,
    random = processRandom,
  } = options
  requirePartitions(partitions)
  requirePositive({ connectionWaitMs })
  requireHousekeeping(housekeeping)
  const emit = guarded(options.events ?? eventLog(clock), subscriberFaults(clock))
  // An idle client whose connection breaks emits `error` on the pool; without a listener Node ends the process.
  pool.on('error', (error) => emit({ kind: 'pool_error', error }))
  pool.on('acquire', listen)
  const ports = { clock, random, connectionWaitMs }
  const onRetry = (state: string, attempt: number) =>
    emit({ kind: 'transaction_retried', sqlState: state, attempt })
  return {
    pool,
    schemaName: schema,
    schema: identifier(schema),
    partitions,
    housekeeping,
    clock,
    random,
    emit,
    transaction: async (work, transactionOptions = {}) => {
      const outer = transactionAround(pool)
      if (outer === undefined)
        return runInTransaction(pool, work, { onRetry, ...given(transactionOptions) }, ports)
      refuseOptions(transactionOptions)
      return join(outer, work)
    },
    query: async <R extends Row>(text: string, values?: unknown[]): Promise<QueryAnswer<R>> => {
      const outer = transactionAround(pool)
      if (outer !== undefined) return inTurn(outer, () => outer.tx.query<R>(text, values))
      return runStatement<R>(pool, ports, text, values, onRetry)
    },
  }
}

/**
 * The pool takes its own listener away where it hands a client out, and whoever gets the client listens a little later. If the
 * server ends just then, its last words can be in the chunk that is being parsed: `error` without a listener, which ends the
 * process. The next statement on that client fails, and says why.
 */
function listen(client: PoolClient): void {
  if (!client.listeners('error').includes(hear)) client.on('error', hear)
}

const hear = () => {}

/** They are those of the whole transaction, which has begun. */
export function refuseOptions(options: TransactionOptions): void {
  const names = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  if (names.length > 0)
    throw new NestedTransactionError(
      `a transaction with ${names.join(', ')}`,
      'give these options to the transaction that begins',
    )
}

export type RetentionOptions = {
  /** Rows per statement. Default 1000. */
  readonly batchSize?: number
  /** Batches per table and run; the next run continues. Default 100. */
  readonly maxBatches?: number
  /** How long replayed and discarded dead letters are kept. Default 30 days. */
  readonly deadLettersMs?: number
}

export type HousekeepingOptions = RetentionOptions & {
  /** Between two runs of all processes together. Default 5 minutes, at least 1 s. */
  readonly intervalMs?: number
  /**
   * Dead letters that no one has decided on are discarded after this time, as by `discardDeadLetters`: what waits behind
   * them goes on without them. Default: never.
   */
  readonly expireDeadLettersMs?: number
}

const intervalMinMs = 1_000

export function requireHousekeeping(options: HousekeepingOptions | false): void {
  if (options === false) return
  const { intervalMs = intervalMinMs, ...others } = options
  if (!(intervalMs >= intervalMinMs))
    throw new SagaConfigError(
      `housekeeping.intervalMs: ${intervalMs} (at least ${intervalMinMs} ms expected)`,
    )
  requireRetention(others, 'housekeeping.')
  requirePositive({ 'housekeeping.expireDeadLettersMs': others.expireDeadLettersMs })
}

export function requireRetention(
  { batchSize, maxBatches, deadLettersMs }: RetentionOptions,
  group = '',
): void {
  requireWhole({ [`${group}batchSize`]: batchSize, [`${group}maxBatches`]: maxBatches })
  requirePositive({ [`${group}deadLettersMs`]: deadLettersMs })
}
