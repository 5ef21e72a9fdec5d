/** Reads single values from a Prometheus exposition: the demonstration shows the sidecar's own metrics. */

/** The value of one series, or undefined if it is missing. `series` is written as exposed: `name{label="x"}`. */
export function seriesValue(text: string, series: string): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

type Bucket = { readonly upTo: number; readonly count: number }

/** Buckets of a histogram, cumulative, summed over its other labels, in ascending order. */
export function bucketsOf(text: string, histogram: string): readonly Bucket[] {
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
export function quantileOf(buckets: readonly Bucket[], quantile: number): number {
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
