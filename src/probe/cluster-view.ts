/**
 * A cluster seen from outside: the metrics of several sidecars' admin listeners, combined.
 *
 * Owns reading and arithmetic; `cli/top.ts` decides how often, and draws the screen.
 */

import { whyNoAnswer } from './why.ts'

export type Sample = {
  readonly atMs: number
  /** By name and labels as written in the exposition; undefined if the sidecar did not answer. */
  readonly series: ReadonlyMap<string, number> | undefined
  readonly ready: boolean
  readonly reasons: readonly string[]
  readonly nodes: readonly { readonly name: string; readonly state: string }[]
}

export async function sampleOf(admin: string, timeoutMs: number): Promise<Sample> {
  const atMs = performance.now()
  const get = (path: string) => fetch(`${admin}${path}`, { signal: AbortSignal.timeout(timeoutMs) })
  try {
    const [metrics, readiness] = await Promise.all([get('/metrics'), get('/readyz')])
    const { ready, reasons, nodes } = (await readiness.json()) as Pick<Sample, 'ready' | 'reasons' | 'nodes'>
    return { atMs, series: seriesOf(await metrics.text()), ready, reasons, nodes }
  } catch (cause) {
    return { atMs, series: undefined, ready: false, reasons: [whyNoAnswer(cause)], nodes: [] }
  }
}

function seriesOf(exposition: string): Map<string, number> {
  const lines = exposition.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const end = line.lastIndexOf(' ')
      return [line.slice(0, end), Number(line.slice(end + 1))]
    }),
  )
}

/** The change between two samples of one sidecar. */
export type Change = { readonly before: Sample | undefined; readonly after: Sample }

/** The lines of a screen: the cluster, its nodes, its sidecars. */
export function screenOf(changes: ReadonlyMap<string, Change>): string[] {
  const all = [...changes.values()]
  const total = (pattern: RegExp) => sum(all.map((change) => perSecond(change, pattern)))
  const now = (name: string) => sum(all.map(({ after }) => after.series?.get(name) ?? 0))
  const p = (share: number) =>
    ms(quantile(share, deltas(all, 'fencepost_lock_acquire_duration_seconds_bucket')))
  const margin = total(/^fencepost_quorum_margin_votes_sum/) / total(/^fencepost_quorum_margin_votes_count/)
  const unheard = all.filter(({ after }) => after.series === undefined).length
  return [
    `${all.length - unheard} of ${all.length} sidecars answer   in flight ${now('fencepost_http_requests_in_flight')}   leases held ${now('fencepost_leases_held')}`,
    `decisions/s   acquired ${rate(total(/^fencepost_decisions_total\{outcome="acquired"/))}   duplicates ${rate(total(/^fencepost_decisions_total\{outcome="duplicate/))}   no quorum ${rate(total(/outcome="quorum_unavailable"/))}   other ${rate(total(/^fencepost_decisions_total\{outcome="(fing|inv|fail|over|byp)/))}`,
    `claims        p50 ${p(0.5)}   p95 ${p(0.95)}   p99 ${p(0.99)}   margin ${Number.isFinite(margin) ? margin.toFixed(2) : '-'}   rounds without majority/s ${rate(total(/attempts_total\{result="failure"/))}`,
    '',
    `${'NODE'.padEnd(nodeWidth(all))} VOTES   p95        answers/s  silent/s`,
    ...nodeLines(all),
    '',
    'SIDECAR                         READY  decisions/s  leases  why not',
    ...[...changes].map(([admin, change]) => sidecarLine(admin, change)),
  ]
}

/** With several groups the names are longer. */
function nodeWidth(all: readonly Change[]): number {
  return Math.max(13, ...all.flatMap(({ after }) => after.nodes.map(({ name }) => name.length)))
}

function nodeLines(all: readonly Change[]): string[] {
  const names = [...new Set(all.flatMap(({ after }) => after.nodes.map(({ name }) => name)))].sort()
  return names.map((name) => {
    const states = all.flatMap(({ after }) =>
      after.nodes.filter((node) => node.name === name).map(({ state }) => state),
    )
    const voting = states.filter((state) => state === 'voting').length
    const worst = states.find((state) => state !== 'voting')
    const of = (result: string) =>
      sum(
        all.map((change) =>
          perSecond(
            change,
            new RegExp(`^fencepost_redis_node_requests_total\\{node="${name}",result="(${result})"`),
          ),
        ),
      )
    const slow = quantile(
      0.95,
      deltas(all, 'fencepost_redis_node_request_duration_seconds_bucket', `node="${name}"`),
    )
    return `${name.padEnd(nodeWidth(all))} ${`${voting}/${states.length}`.padEnd(7)} ${ms(slow).padEnd(10)} ${rate(of('ok|rejected')).padEnd(10)} ${rate(of('timeout|error'))}${worst === undefined ? '' : `  ${worst}`}`
  })
}

function sidecarLine(admin: string, change: Change): string {
  const { after } = change
  const decisions = rate(perSecond(change, /^fencepost_decisions_total/))
  const leases = String(after.series?.get('fencepost_leases_held') ?? '-')
  return `${admin.padEnd(31)} ${(after.ready ? 'yes' : 'NO').padEnd(6)} ${decisions.padEnd(12)} ${leases.padEnd(7)} ${after.reasons.join('; ')}`.trimEnd()
}

function perSecond({ before, after }: Change, pattern: RegExp): number {
  if (before?.series === undefined || after.series === undefined) return 0
  let gained = 0
  for (const [name, value] of after.series)
    if (pattern.test(name)) gained += Math.max(0, value - (before.series.get(name) ?? 0))
  return (gained / (after.atMs - before.atMs)) * 1_000
}

/** The growth of each bucket of a histogram, summed over sidecars and other labels, by upper bound. */
function deltas(all: readonly Change[], bucket: string, label = ''): [bound: number, count: number][] {
  const gained = new Map<number, number>()
  for (const { before, after } of all) {
    for (const [name, value] of after.series ?? []) {
      if (!name.startsWith(`${bucket}{`) || !name.includes(label)) continue
      const [, text = ''] = /le="([^"]+)"/.exec(name) ?? []
      const bound = text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text)
      gained.set(bound, (gained.get(bound) ?? 0) + value - (before?.series?.get(name) ?? value))
    }
  }
  return [...gained].sort(([a], [b]) => a - b)
}

/** Like PromQL's histogram_quantile; NaN without observations. */
function quantile(share: number, cumulative: readonly (readonly [bound: number, count: number])[]): number {
  const all = cumulative.at(-1)?.[1] ?? 0
  if (all <= 0) return Number.NaN
  const rank = share * all
  let [lowerBound, lowerCount] = [0, 0]
  for (const [bound, count] of cumulative) {
    if (count >= rank && bound !== Number.POSITIVE_INFINITY && count > lowerCount)
      return lowerBound + ((bound - lowerBound) * (rank - lowerCount)) / (count - lowerCount)
    if (bound !== Number.POSITIVE_INFINITY) [lowerBound, lowerCount] = [bound, count]
  }
  return lowerBound
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
const rate = (value: number) => (Number.isFinite(value) ? value.toFixed(value < 10 ? 1 : 0) : '-')
const ms = (seconds: number) => (Number.isFinite(seconds) ? `${(seconds * 1_000).toFixed(1)} ms` : '-')
