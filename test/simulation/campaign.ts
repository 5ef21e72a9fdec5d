/** Many histories, one after the other: what was seen in all of them, and the first that broke a promise. */

import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { SIGHTS, type Sight, type Violation } from './history.ts'
import { planOf } from './plan.ts'
import { runHistory } from './run.ts'

export type Failure = { readonly seed: number; readonly violations: readonly Violation[] }

export type Report = {
  readonly histories: number
  readonly seen: ReadonlyMap<Sight, number>
  readonly failure: Failure | undefined
  readonly tookMs: number
}

export type CampaignOptions = {
  readonly from: number
  readonly histories: number
  readonly withinMs?: number
  readonly onProgress?: (report: Report) => void
}

/** A history takes about a millisecond: this is about once in two seconds. */
const PROGRESS_EVERY = 2_000

/** Ends at the first failure. */
export async function campaign(options: CampaignOptions): Promise<Report> {
  const { from, histories, withinMs = Number.POSITIVE_INFINITY, onProgress } = options
  const startedMs = performance.now()
  const seen = new Map<Sight, number>()
  const report = (done: number, failure?: Failure): Report => ({
    histories: done,
    seen,
    failure,
    tookMs: performance.now() - startedMs,
  })
  for (let done = 0; done < histories; done += 1) {
    const seed = from + done
    const { violations, seen: sights } = await runHistory(planOf(seed))
    for (const [sight, count] of sights) seen.set(sight, (seen.get(sight) ?? 0) + count)
    if (violations.length > 0) return report(done + 1, { seed, violations })
    if ((done + 1) % PROGRESS_EVERY === 0) {
      onProgress?.(report(done + 1))
      // A history never leaves the tick queue: let signals and timers of this process through now and then.
      await turnOfTheLoop()
    }
    if (performance.now() - startedMs > withinMs) return report(done + 1)
  }
  return report(histories)
}

/** What should have been seen and was not: a campaign with any proves less than it says, and is invalid. */
export function unseen(report: Report): readonly Sight[] {
  return SIGHTS.filter((sight) => (report.seen.get(sight) ?? 0) === 0)
}
