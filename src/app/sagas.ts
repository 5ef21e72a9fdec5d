/**
 * The administration of sagas as configured, and the backlog for scrapes: undefined without a configured database.
 *
 * Owns how often the database is queried. A scrape never queries it: it gets the last result, and nothing if the last
 * query failed or is overdue.
 */

import type { Config } from '../config/load.ts'
import type { Clock, Timer } from '../core/clock.ts'
import { within } from '../core/retry.ts'
import type { SagaAdmin, SagaBacklog } from '../core/saga-admin.ts'

export type OpenSagas = AsyncDisposable & {
  readonly admin: SagaAdmin
  /** From the last query; undefined if the database did not reply. */
  readonly backlog: () => SagaBacklog | undefined
}

/** Per pod: a few counts in the database, four times a minute. */
const QUERY_EVERY_MS = 15_000
/** Time limit of a query: for connecting, and for each statement. */
const QUERY_DEADLINE_MS = 5_000

export async function openSagas(
  config: Config,
  clock: Clock,
  onError: (error: unknown) => void,
): Promise<OpenSagas | undefined> {
  const { sagaDatabase, sagaSchema } = config
  if (sagaDatabase === undefined) return undefined
  // Brings the client of the database, which other sidecars need neither time nor memory for.
  const { createSagaAdmin, explained, openSagaKit, sagaBacklog } = await import('@fencepost/saga/admin')
  const open = openSagaKit(sagaDatabase.content.trim(), sagaSchema)
  const failed = (error: unknown) => onError(explained(open.kit, error))
  const watch = watching(
    clock,
    () =>
      within(
        clock,
        QUERY_DEADLINE_MS,
        sagaBacklog(open.kit, QUERY_DEADLINE_MS),
        `no answer within ${QUERY_DEADLINE_MS} ms`,
      ),
    failed,
  )
  return {
    admin: createSagaAdmin(open.kit, failed),
    backlog: watch.backlog,
    [Symbol.asyncDispose]: () => {
      watch.stop()
      return open[Symbol.asyncDispose]()
    },
  }
}

/** Queries at once and then periodically, one query at a time. Reports only the first of several failures in a row. */
function watching(clock: Clock, query: () => Promise<SagaBacklog>, onError: (error: unknown) => void) {
  let backlog: SagaBacklog | undefined
  let failing = false
  let stopped = false
  let timer: Timer | undefined
  const again = async () => {
    try {
      backlog = await query()
      failing = false
    } catch (error) {
      backlog = undefined
      if (!failing && !stopped) onError(error)
      failing = true
    }
    if (!stopped) timer = clock.timer(QUERY_EVERY_MS, () => void again())
  }
  void again()
  return {
    backlog: () => backlog,
    stop: () => {
      stopped = true
      timer?.cancel()
    },
  }
}
