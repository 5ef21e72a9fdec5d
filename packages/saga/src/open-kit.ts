/**
 * A kit from a connection string, for programs without a pool of their own: a few connections, closed with the kit. Most of them
 * report by themselves what fails, so by default its events are not logged a second time.
 */
import pg from 'pg'
import type { SagaEvents } from './events.ts'
import { createSagaKit, type SagaKit } from './kit.ts'

export type OpenKit = AsyncDisposable & { readonly kit: SagaKit }

export function openSagaKit(
  databaseUrl: string,
  schema: string,
  partitions?: number,
  events: SagaEvents = () => {},
): OpenKit {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 4, connectionTimeoutMillis: 5_000 })
  const kit = createSagaKit({
    pool,
    schema,
    events,
    ...(partitions === undefined ? {} : { partitions }),
  })
  return { kit, [Symbol.asyncDispose]: () => pool.end() }
}
