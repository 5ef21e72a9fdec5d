/**
 * The kit: a pool, a schema, a clock and event subscribers. Every function of the saga kit takes it first.
 *
 * Owns checking its options, and the listener that keeps a broken idle connection from ending the process.
 * Refuses to own the pool: the application that made it ends it.
 */

import { processClock, processRandom } from './ambient.ts'
import type { Clock, Random } from './core.ts'
import { identifier, type Pool, type Tx } from './database.ts'
import { SagaConfigError } from './errors.ts'
import type { SagaEvents } from './events.ts'
import { runInTransaction, type TransactionOptions } from './transaction.ts'

export type SagaKitOptions = {
  readonly pool: Pool
  /** The tables have a schema of their own. Default `fencepost`. */
  readonly schema?: string
  /**
   * Number of partitions of the outbox, which is the largest number of relays that can share the work.
   * May change only while the outbox is empty. Default 16.
   */
  readonly partitions?: number
  readonly clock?: Clock
  readonly random?: Random
  readonly events?: SagaEvents
}

export interface SagaKit {
  readonly pool: Pool
  readonly schemaName: string
  /** Quoted, for SQL. */
  readonly schema: string
  readonly partitions: number
  readonly clock: Clock
  readonly random: Random
  readonly emit: SagaEvents
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>
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
    clock = processClock,
    random = processRandom,
  } = options
  requirePartitions(partitions)
  const emit: SagaEvents = options.events ?? (() => {})
  // An idle client whose connection breaks emits `error` on the pool; without a listener Node ends the process.
  pool.on('error', (error) => emit({ kind: 'pool_error', error }))
  return {
    pool,
    schemaName: schema,
    schema: identifier(schema),
    partitions,
    clock,
    random,
    emit,
    transaction: (work, transactionOptions = {}) =>
      runInTransaction(
        pool,
        work,
        {
          onRetry: (sqlState, attempt) => emit({ kind: 'transaction_retried', sqlState, attempt }),
          ...transactionOptions,
        },
        { clock, random },
      ),
  }
}
