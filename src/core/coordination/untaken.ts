/**
 * Tells of entries that no majority of the nodes took: at once, and then every few seconds with their number.
 *
 * Where a route goes on without a quorum, each of its requests has an entry that can't be written.
 */

import type { Clock } from '../clock.ts'
import type { EntriesOf, Events } from '../events.ts'

export type Untaken = {
  lost(of: EntriesOf, why: string, entries?: number): void
  /** What was not told of yet is told now. */
  taken(of: EntriesOf): void
}

const TELL_EVERY_MS = 10_000

export function tellingUntaken(clock: Pick<Clock, 'monoMs'>, events: Events): Untaken {
  const untold = new Map<EntriesOf, { entries: number; why: string; toldMonoMs: number }>()
  function tell(of: EntriesOf): void {
    const known = untold.get(of)
    if (known === undefined || known.entries === 0) return
    const { entries, why } = known
    Object.assign(known, { entries: 0, toldMonoMs: clock.monoMs() })
    events.publish({ kind: 'entries_untaken', of, entries, why })
  }
  return {
    lost: (of, why, entries = 1) => {
      const known = untold.get(of) ?? { entries: 0, why, toldMonoMs: Number.NEGATIVE_INFINITY }
      untold.set(of, Object.assign(known, { entries: known.entries + entries, why }))
      if (clock.monoMs() - known.toldMonoMs >= TELL_EVERY_MS) tell(of)
    },
    taken: tell,
  }
}
