/** The final table of the demonstration. */

import { bucketsOf, quantileOf, seriesValue } from './exposition.ts'
import type { Tally } from './storm.ts'

export type Facts = {
  readonly payments: number
  readonly sent: number
  readonly tally: Tally
  /** Charges by payment, as counted by the application. */
  readonly charges: ReadonlyMap<string, number>
  /** The sidecar's exposition after the storm. */
  readonly metrics: string
  readonly idleMemoryBytes: number
  readonly startUpMs: number
  readonly stormMs: number
}

export type Verdict = { readonly ok: boolean; readonly text: string }

export function report(facts: Facts): Verdict {
  const { payments, sent, tally, charges, metrics } = facts
  const once = [...charges.values()].filter((count) => count === 1).length
  const carriedOut = [...charges.values()].reduce((sum, count) => sum + count, 0)
  const acquisition = bucketsOf(metrics, 'fencepost_lock_acquire_duration_seconds')
  const quantile = (q: number) => `${(quantileOf(acquisition, q) * 1000).toFixed(1)} ms`
  const rows: readonly (readonly [string, string])[] = [
    ['sent', String(sent)],
    ['carried out', String(carriedOut)],
    ['replayed', String(tally.replayed)],
    ['answered 409', String(tally.conflicts)],
    ['errors', tally.errors === 0 ? '0' : `${tally.errors} (last: ${tally.lastError.slice(0, 200)})`],
    ['replays that differ', String(tally.differing)],
    ['acquisition p50 / p95 / p99', [0.5, 0.95, 0.99].map(quantile).join(' / ')],
    ['quorum margin (spare votes)', marginText(metrics)],
    ['requests per second', String(Math.round((sent / facts.stormMs) * 1000))],
    ['sidecar: idle memory', `${(facts.idleMemoryBytes / 2 ** 20).toFixed(0)} MiB`],
    ['sidecar: start-up', `${Math.round(facts.startUpMs)} ms`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join('\n')
  const ok = once === payments && carriedOut === payments && tally.errors === 0 && tally.differing === 0
  return { ok, text: `${table}\n\n${once} of ${payments} payments carried out once` }
}

/** The spare votes of granted claims: `2 ×31, 1 ×19`. */
function marginText(metrics: string): string {
  const buckets = bucketsOf(metrics, 'fencepost_quorum_margin_votes')
  const single = buckets.map(({ count }, index) => ({
    // The bounds are 0, 1, …; the last one, without a bound, is all nodes.
    spare: index,
    claims: count - (buckets[index - 1]?.count ?? 0),
  }))
  const seen = single.filter(({ claims }) => claims > 0).reverse()
  return seen.map(({ spare, claims }) => `${spare} ×${claims}`).join(', ') || 'no claim was granted'
}

/** Resident memory in bytes, from the exposition. */
export function residentMemoryBytes(metrics: string): number {
  return seriesValue(metrics, 'process_resident_memory_bytes') ?? Number.NaN
}
