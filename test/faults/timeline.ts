/** Draws a run: faults as bars over time, the answers to clients per second below, attempts on nodes at the end. */

import type { History, Operation } from './history.ts'
import type { RunReport } from './judge.ts'

const WIDTH = 1_200
const LEFT = 70
const ROW = 13
const OUTCOMES = [
  ['created', '#2b8a3e'],
  ['replayed', '#8ce99a'],
  ['refused for now (409)', '#ffd43b'],
  ['no quorum (503)', '#f03e3e'],
  ['otherwise', '#868e96'],
] as const

export function timeline(report: RunReport): string {
  const { history, quorumLoss } = report
  // A loop: ten minutes have more operations than a call may have arguments.
  let endMs = history.startedMs + 1
  for (const operation of history.operations) endMs = Math.max(endMs, operation.endMs)
  const scale = (WIDTH - LEFT - 20) / (endMs - history.startedMs)
  const x = (ms: number) => LEFT + (ms - history.startedMs) * scale
  const rows = [...new Set(history.faults.map(({ id }) => id))].sort(byNumber)
  const bars = history.faults.map(({ id, what, fromMs, untilMs }) => {
    const y = 30 + rows.indexOf(id) * ROW
    const width = Math.max(2, (untilMs - fromMs) * scale)
    return `<rect x="${x(fromMs).toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 3}" fill="#4263eb"><title>${escaped(`${id} ${what}`)}</title></rect>`
  })
  const labels = rows.map((id, at) => `<text x="8" y="${39 + at * ROW}">${id}</text>`)
  const chartTop = 50 + rows.length * ROW
  const chart = outcomesPerSecond(history, x, chartTop, endMs)
  const attempts =
    quorumLoss === undefined
      ? []
      : attemptsOf(quorumLoss.attemptsPerSecond, quorumLoss.backAtSecond, chartTop + 230)
  const height = chartTop + 220 + (quorumLoss === undefined ? 0 : 190)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11">
<title>Faults against what clients were answered, per second</title>
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
<text x="8" y="18" font-size="13">Faults (seed ${report.seed}, ${(report.tookMs / 1_000).toFixed(0)} s) against what clients were answered, per second</text>
${[...labels, ...bars, ...chart, ...attempts].join('\n')}
</svg>
`
}

function outcomesPerSecond(
  history: History,
  x: (ms: number) => number,
  top: number,
  endMs: number,
): string[] {
  const seconds = Math.ceil((endMs - history.startedMs) / 1_000)
  const counts = Array.from({ length: seconds + 1 }, () => OUTCOMES.map(() => 0))
  for (const one of history.operations) {
    const second = counts[Math.floor((one.endMs - history.startedMs) / 1_000)]
    const kind = kindOf(one)
    if (second !== undefined) second[kind] = (second[kind] ?? 0) + 1
  }
  const most = Math.max(1, ...counts.map((each) => each.reduce((sum, count) => sum + count, 0)))
  const bars = counts.flatMap((each, second) => {
    let y = top + 160
    return each.flatMap((count, kind) => {
      if (count === 0) return []
      const height = (count / most) * 150
      y -= height
      const width = Math.max(1, x(history.startedMs + 1_000) - x(history.startedMs) - 0.5)
      return `<rect x="${x(history.startedMs + second * 1_000).toFixed(1)}" y="${y.toFixed(1)}" width="${width.toFixed(1)}" height="${height.toFixed(1)}" fill="${OUTCOMES[kind]?.[1]}"/>`
    })
  })
  const legend = OUTCOMES.map(
    ([name, colour], at) =>
      `<rect x="${LEFT + at * 180}" y="${top + 185}" width="10" height="10" fill="${colour}"/><text x="${LEFT + 15 + at * 180}" y="${top + 194}">${name}</text>`,
  )
  const ticks = Array.from({ length: Math.floor(seconds / 30) + 1 }, (_, at) => at * 30).map(
    (second) =>
      `<text x="${x(history.startedMs + second * 1_000).toFixed(1)}" y="${top + 174}">${second} s</text>`,
  )
  return [`<text x="8" y="${top + 15}">${most}/s</text>`, ...bars, ...ticks, ...legend]
}

function kindOf(one: Operation): number {
  if (one.type === 'info') return 4
  if (one.status === 503) return 3
  if (one.status === 409) return 2
  if (one.f === 'submit') return one.says === 'created' ? 0 : one.says === 'replayed' ? 1 : 4
  return one.status < 300 ? 0 : 4
}

function attemptsOf(perNode: readonly (readonly number[])[], backAt: number, top: number): string[] {
  const most = Math.max(1, ...perNode.flat())
  const colours = ['#1864ab', '#5f3dc4', '#a61e4d', '#2b8a3e', '#e67700']
  const step = (WIDTH - LEFT - 20) / Math.max(1, (perNode[0]?.length ?? 2) - 1)
  const lines = perNode.map((seconds, node) => {
    const points = seconds.map(
      (count, at) => `${(LEFT + at * step).toFixed(1)},${(top + 150 - (count / most) * 130).toFixed(1)}`,
    )
    return `<polyline fill="none" stroke="${colours[node]}" points="${points.join(' ')}"/>`
  })
  const back = LEFT + backAt * step
  return [
    `<text x="${LEFT}" y="${top + 5}">Messages to each node per second while the nodes 0, 1 and 2 stand still; the line: they go on (at most ${most}/s)</text>`,
    ...lines,
    `<line x1="${back}" x2="${back}" y1="${top + 12}" y2="${top + 150}" stroke="#868e96" stroke-dasharray="3"/>`,
  ]
}

function byNumber(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
