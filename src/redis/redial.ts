/** Waits for the answer to a look, and redials a node that stays silent. */

import type { Clock } from '../core/clock.ts'
import { inTime } from './in-time.ts'
import type { Member } from './member.ts'

/** Far above any healthy answer: a connection silent for so long is redialled, or a broken path would stay in use. */
export const INSPECT_DEADLINE_MS = 1_000

const SILENT_NODE = `no answer to an inspection within ${INSPECT_DEADLINE_MS} ms`

export async function answerOrRedial<T>(member: Member, clock: Clock, answer: Promise<T>): Promise<T> {
  try {
    return await inTime(clock, INSPECT_DEADLINE_MS, answer, SILENT_NODE)
  } catch (cause) {
    // Behind a path that drops packets only a new connection can tell that the path is back.
    if (cause instanceof Error && cause.message === SILENT_NODE) member.client.disconnect(true)
    throw cause
  }
}
