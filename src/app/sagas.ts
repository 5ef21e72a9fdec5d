/**
 * The desk for sagas as the configuration wants it, and the standing that scrapes are answered from: nothing where no
 * database is configured.
 *
 * Owns how often the database is looked at. A scrape never asks it: it gets what was so at the last look, and where the last
 * look failed or is overdue it is told that nothing is known.
 */

import type { Config } from '../config/load.ts'
import type { Clock, Timer } from '../core/clock.ts'
import { within } from '../core/retry.ts'
import type { SagaDesk, SagaStanding } from '../core/saga-desk.ts'
import { createSagaDesk } from '../saga/desk.ts'
import { openSagaKit } from '../saga/open-kit.ts'
import { sagaStanding } from '../saga/standing.ts'

export type OpenSagas = AsyncDisposable & {
  readonly desk: SagaDesk
  /** At the last look; undefined where the database did not answer then. */
  readonly standing: () => SagaStanding | undefined
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
        sagaStanding(open.kit, LOOK_DEADLINE_MS),
        `no answer within ${LOOK_DEADLINE_MS} ms`,
      ),
    onError,
  )
  return {
    desk: createSagaDesk(open.kit, onError),
    standing: watch.standing,
    [Symbol.asyncDispose]: () => {
      watch.stop()
      return open[Symbol.asyncDispose]()
    },
  }
}

/** Looks at once and then again and again, one look at a time. Only the first of several failures in a row is reported. */
function watching(clock: Clock, look: () => Promise<SagaStanding>, onError: (error: unknown) => void) {
  let standing: SagaStanding | undefined
  let failing = false
  let stopped = false
  let timer: Timer | undefined
  const again = async () => {
    try {
      standing = await look()
      failing = false
    } catch (error) {
      standing = undefined
      if (!failing && !stopped) onError(error)
      failing = true
    }
    if (!stopped) timer = clock.timer(LOOK_EVERY_MS, () => void again())
  }
  void again()
  return {
    standing: () => standing,
    stop: () => {
      stopped = true
      timer?.cancel()
    },
  }
}
