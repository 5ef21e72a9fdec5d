/** The results of a flood so far, in three forms: a line for people, a JSON object, an exposition for Prometheus. */

import { RESULTS, type Result, type Volley } from './flood.ts'

export type Tally = {
  add(volley: Volley): void
  readonly wrong: number
  readonly volleys: number
  json(): Record<string, unknown>
  line(): string
  exposition(): string
}

/** Durations kept for the percentiles. */
const RECENT_MAX = 1_000

export function createTally(copies: number): Tally {
  const counts: Record<Result, number> = { ok: 0, false_positive: 0, false_negative: 0, error: 0 }
  const recentMs: number[] = []
  let lastDetail: string | undefined

  const percentile = (share: number) => {
    const sorted = [...recentMs].sort((a, b) => a - b)
    return Math.round((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) * 10) / 10
  }
  const volleys = () => RESULTS.reduce((total, result) => total + counts[result], 0)

  return {
    add: ({ result, durationMs, detail }) => {
      counts[result] += 1
      lastDetail = detail ?? lastDetail
      recentMs.push(durationMs)
      if (recentMs.length > RECENT_MAX) recentMs.shift()
    },
    get wrong() {
      return counts.false_positive + counts.false_negative + counts.error
    },
    get volleys() {
      return volleys()
    },
    json: () => ({
      volleys: volleys(),
      requests: volleys() * copies,
      ...counts,
      p50_ms: percentile(0.5),
      p95_ms: percentile(0.95),
      p99_ms: percentile(0.99),
      ...(lastDetail === undefined ? {} : { last_error: lastDetail }),
    }),
    line: () =>
      `${volleys()} volleys of ${copies}: ${counts.ok} ok, ${counts.false_positive} false positives, ${counts.false_negative} false negatives, ${counts.error} errors; p50 ${percentile(0.5)} ms, p95 ${percentile(0.95)} ms${lastDetail === undefined ? '' : `; last: ${lastDetail}`}`,
    exposition: () =>
      [
        '# HELP fencepost_synthetic_probe_total Synthetic volleys by what they showed.',
        '# TYPE fencepost_synthetic_probe_total counter',
        ...RESULTS.map((result) => `fencepost_synthetic_probe_total{result="${result}"} ${counts[result]}`),
        '',
      ].join('\n'),
  }
}
