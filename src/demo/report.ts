/** The final table of the demonstration, with the sidecar's own metrics. */

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

export function report(facts: Facts) {
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

/** The value of one series, or undefined if it is missing. `series` is written as exposed: `name{label="x"}`. */
function seriesValue(text: string, series: string): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

type Bucket = { readonly upTo: number; readonly count: number }

/** Buckets of a histogram, cumulative, summed over its other labels, in ascending order. */
function bucketsOf(text: string, histogram: string): readonly Bucket[] {
  const byBound = new Map<number, number>()
  for (const line of text.split('\n')) {
    if (!line.startsWith(`${histogram}_bucket{`)) continue
    const bound = /le="([^"]+)"/.exec(line)?.[1]
    if (bound === undefined) continue
    const upTo = bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound)
    byBound.set(upTo, (byBound.get(upTo) ?? 0) + Number(line.slice(line.lastIndexOf(' ') + 1)))
  }
  return [...byBound].map(([upTo, count]) => ({ upTo, count })).sort((a, b) => a.upTo - b.upTo)
}

/** Like PromQL's histogram_quantile: linear within the bucket. NaN without observations. */
function quantileOf(buckets: readonly Bucket[], quantile: number): number {
  const total = buckets.at(-1)?.count ?? 0
  if (total === 0) return Number.NaN
  const rank = quantile * total
  let lower: Bucket = { upTo: 0, count: 0 }
  for (const bucket of buckets) {
    if (bucket.count >= rank) {
      if (bucket.upTo === Number.POSITIVE_INFINITY) return lower.upTo
      const share = bucket.count === lower.count ? 1 : (rank - lower.count) / (bucket.count - lower.count)
      return lower.upTo + (bucket.upTo - lower.upTo) * share
    }
    lower = bucket
  }
  return lower.upTo
}
