/**
 * The administration of sagas as the configuration wants it, and the backlog that scrapes are answered from: nothing where no
 * database is configured.
 *
 * Owns how often the database is looked at. A scrape never asks it: it gets what was so at the last look, and where the last
 * look failed or is overdue it is told that nothing is known.
 */

import { createSagaAdmin, openSagaKit, sagaBacklog } from '@fencepost/saga/admin'
import type { Config } from '../config/load.ts'
import type { Clock, Timer } from '../core/clock.ts'
import { within } from '../core/retry.ts'
import type { SagaAdmin, SagaBacklog } from '../core/saga-admin.ts'

export type OpenSagas = AsyncDisposable & {
  readonly admin: SagaAdmin
  /** At the last look; undefined where the database did not answer then. */
  readonly backlog: () => SagaBacklog | undefined
}

/** Of each pod: a few counts in the database, four times a minute. */
const LOOK_EVERY_MS = 15_000
/** A look that takes longer has failed: connecting, and each of its statements. */
const LOOK_DEADLINE_MS = 5_000

export function openSagas(
  config: Config,
  clock: Clock,
  onError: (error: unknown) => void,
): OpenSagas | undefined {
  const { sagaDatabase, sagaSchema } = config
  if (sagaDatabase === undefined) return undefined
  const open = openSagaKit(sagaDatabase.content.trim(), sagaSchema)
  const watch = watching(
    clock,
    () =>
      within(
        clock,
        LOOK_DEADLINE_MS,
        sagaBacklog(open.kit, LOOK_DEADLINE_MS),
        `no answer within ${LOOK_DEADLINE_MS} ms`,
      ),
    onError,
  )
  return {
    admin: createSagaAdmin(open.kit, onError),
    backlog: watch.backlog,
    [Symbol.asyncDispose]: () => {
      watch.stop()
      return open[Symbol.asyncDispose]()
    },
  }
}

/** Looks at once and then again and again, one look at a time. Only the first of several failures in a row is reported. */
function watching(clock: Clock, look: () => Promise<SagaBacklog>, onError: (error: unknown) => void) {
  let backlog: SagaBacklog | undefined
  let failing = false
  let stopped = false
  let timer: Timer | undefined
  const again = async () => {
    try {
      backlog = await look()
      failing = false
    } catch (error) {
      backlog = undefined
      if (!failing && !stopped) onError(error)
      failing = true
    }
    if (!stopped) timer = clock.timer(LOOK_EVERY_MS, () => void again())
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
