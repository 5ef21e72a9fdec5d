/** The results of a flood so far, in three forms: a line for people, a JSON object, an exposition for Prometheus. */

import {
  EXPECTATIONS,
  type ProbedEntrypoint,
  RESULTS,
  type Result,
  resultOf,
  type Volley,
} from './verdict.ts'

export type Tally = ReturnType<typeof createTally>

/** Durations kept for the percentiles. */
const RECENT_MAX = 1_000

export function createTally(copies: number, entrypoints: readonly ProbedEntrypoint[]) {
  const counts: Record<Result, number> = { ok: 0, false_positive: 0, false_negative: 0, error: 0 }
  const findings = new Map<string, number>(
    entrypoints.flatMap((entrypoint) =>
      EXPECTATIONS.flatMap((expected) =>
        RESULTS.map((result): [string, number] => [labelsOf(entrypoint, expected, result), 0]),
      ),
    ),
  )
  const recentMs: number[] = []
  let requests = 0
  let lastDetail: string | undefined

  const percentile = (share: number) => {
    const sorted = [...recentMs].sort((a, b) => a - b)
    return Math.round((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) * 10) / 10
  }
  const volleys = () => RESULTS.reduce((total, result) => total + counts[result], 0)

  return {
    add: (volley: Volley) => {
      const result = resultOf(volley)
      counts[result] += 1
      requests += volley.requests
      for (const one of volley.findings) {
        const labels = labelsOf(volley.entrypoint, one.expected, one.result)
        findings.set(labels, (findings.get(labels) ?? 0) + 1)
        lastDetail = one.detail ?? lastDetail
      }
      recentMs.push(volley.durationMs)
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
      requests,
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
        '# HELP fencepost_probe_findings_total What synthetic requests proved, by entry point and by what was expected.',
        '# TYPE fencepost_probe_findings_total counter',
        ...[...findings].map(([labels, count]) => `fencepost_probe_findings_total{${labels}} ${count}`),
        '',
      ].join('\n'),
  }
}

function labelsOf(entrypoint: string, expected: string, result: string): string {
  return `entrypoint="${entrypoint}",expected="${expected}",result="${result}"`
}
