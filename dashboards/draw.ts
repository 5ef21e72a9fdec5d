/**
 * A picture of a dashboard, drawn from what its queries returned: small multiples, one for each panel, as SVG.
 *
 * Owns the drawing only. It is no Grafana; it shows that every panel has data, and what that looks like.
 */

import type { Board, Panel, Unit } from './board.ts'

export type Drawn = {
  readonly label: string
  readonly values: readonly (readonly [at: number, value: number])[]
}

const WIDTH = 1200
const COLUMNS = 3
const CELL = { width: WIDTH / COLUMNS, height: 200 }
const PLOT = { left: 56, top: 30, right: 12, bottom: 46 }
const COLOURS = [
  '#3274d9',
  '#56a64b',
  '#e0b400',
  '#e02f44',
  '#8f3bb8',
  '#ff780a',
  '#37872d',
  '#1f60c4',
  '#b877d9',
  '#96d98d',
]

export function drawBoard(board: Board, data: ReadonlyMap<Panel, readonly Drawn[]>): string {
  const rows = Math.ceil(board.panels.length / COLUMNS)
  const height = 40 + rows * CELL.height
  const cells = board.panels.map((panel, index) => {
    const x = (index % COLUMNS) * CELL.width
    const y = 40 + Math.floor(index / COLUMNS) * CELL.height
    return `<g transform="translate(${x},${y})">${drawPanel(panel, data.get(panel) ?? [])}</g>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11">`,
    `<title>${escaped(board.title)}: ${escaped(board.description)}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="12" y="26" font-size="18" font-weight="bold">${escaped(board.title)}</text>`,
    ...cells,
    '</svg>',
    '',
  ].join('\n')
}

function drawPanel(panel: Panel, drawn: readonly Drawn[]): string {
  const frame = `<rect x="4" y="4" width="${CELL.width - 8}" height="${CELL.height - 8}" fill="none" stroke="#d0d0d0"/>`
  const title = `<text x="12" y="21" font-weight="bold">${escaped(panel.title)}</text>`
  const finite = drawn.map(({ label, values }) => ({
    label,
    values: values.filter(([, value]) => Number.isFinite(value)),
  }))
  const latest = finite[0]?.values.at(-1)?.[1]
  if (panel.kind === 'stat')
    return `${frame}${title}<text x="${CELL.width / 2}" y="${CELL.height / 2 + 16}" font-size="36" text-anchor="middle" fill="${colourAt(panel, latest)}">${latest === undefined ? 'no data' : shown(latest, panel.unit)}</text>`
  const points = finite.flatMap(({ values }) => values)
  if (panel.kind === 'heatmap' && points.length > 0) return `${frame}${title}${drawHeat(finite, panel.unit)}`
  if (points.length === 0) return `${frame}${title}<text x="56" y="100">no data</text>`
  const times = points.map(([at]) => at)
  const from = Math.min(...times)
  const to = Math.max(...times, from + 1)
  const top = Math.max(...points.map(([, value]) => value), 0) * 1.1 || 1
  const bottom = Math.min(0, ...points.map(([, value]) => value))
  const x = (at: number) => PLOT.left + ((at - from) / (to - from)) * (CELL.width - PLOT.left - PLOT.right)
  const y = (value: number) =>
    CELL.height - PLOT.bottom - ((value - bottom) / (top - bottom)) * (CELL.height - PLOT.top - PLOT.bottom)
  const lines = finite.map(({ values }, index) => {
    const path = values.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ')
    return `<polyline points="${path}" fill="none" stroke="${COLOURS[index % COLOURS.length]}" stroke-width="1.5"/>`
  })
  const marks = panel.thresholds
    .filter(({ from: at }) => at !== null && at > bottom && at < top)
    .map(({ from: at, color }) => {
      const level = y(at ?? 0).toFixed(1)
      return `<line x1="${PLOT.left}" x2="${CELL.width - PLOT.right}" y1="${level}" y2="${level}" stroke="${color}" stroke-dasharray="4 3" opacity="0.6"/>`
    })
  const axis = [bottom, (bottom + top) / 2, top].map(
    (value) =>
      `<text x="${PLOT.left - 4}" y="${y(value) + 4}" text-anchor="end" fill="#606060">${shown(value, panel.unit)}</text>`,
  )
  // As many as there is room for.
  const room = finite.findIndex((_, index) => textOf(finite.slice(0, index + 1)).length > LEGEND_CHARS_MAX)
  const named = room === -1 ? finite.length : Math.max(1, room)
  const names = finite.slice(0, named).map(({ label }) => label)
  const more = finite.length > named ? [`+${finite.length - named}`] : []
  const legend = [...names, ...more].map(
    (label, index) =>
      `<tspan fill="${COLOURS[index % COLOURS.length]}">${escaped(label.slice(0, 22))}</tspan><tspan>  </tspan>`,
  )
  return `${frame}${title}${axis.join('')}${marks.join('')}${lines.join('')}<text x="12" y="${CELL.height - 14}" font-size="9" xml:space="preserve">${legend.join('')}</text>`
}

const LEGEND_CHARS_MAX = 70
const textOf = (drawn: readonly Drawn[]) => drawn.map(({ label }) => label.slice(0, 22)).join('  ')

/** Buckets from below to above, darker where more observations fell into them; the axis says up to where each goes. */
function drawHeat(buckets: readonly Drawn[], unit: Unit): string {
  const bound = ({ label }: Drawn) => (label === '+Inf' ? Number.POSITIVE_INFINITY : Number(label))
  const sorted = [...buckets].sort((a, b) => bound(a) - bound(b))
  // What Prometheus counts in a bucket is in all larger ones, too.
  const alone = sorted.map(({ values }, index) => {
    const below = new Map(sorted[index - 1]?.values)
    return values.map(([at, value]) => [at, Math.max(0, value - (below.get(at) ?? 0))] as const)
  })
  const times = alone.flatMap((values) => values.map(([at]) => at))
  const [from, to] = [Math.min(...times), Math.max(...times)]
  const most = Math.max(...alone.flatMap((values) => values.map(([, value]) => value)), Number.MIN_VALUE)
  const width = CELL.width - PLOT.left - PLOT.right
  const height = (CELL.height - PLOT.top - 24) / sorted.length
  const step = width / Math.max(1, new Set(times).size)
  const cells = alone.flatMap((values, index) => {
    const y = CELL.height - 24 - (index + 1) * height
    return values
      .filter(([, value]) => value > 0)
      .map(([at, value]) => {
        const x = PLOT.left + ((at - from) / Math.max(1, to - from)) * (width - step)
        const opacity = (0.1 + 0.9 * (value / most)).toFixed(2)
        return `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${step.toFixed(1)}" height="${height.toFixed(1)}" fill="#8f3bb8" opacity="${opacity}"/>`
      })
  })
  const every = Math.ceil(sorted.length / 8)
  const axis = sorted.flatMap((bucket, index) => {
    if (index % every !== 0 && index !== sorted.length - 1) return []
    const y = CELL.height - 24 - (index + 0.5) * height + 3
    const upTo = Number.isFinite(bound(bucket)) ? `≤ ${shown(bound(bucket), unit)}` : 'longer'
    return `<text x="${PLOT.left - 4}" y="${y.toFixed(1)}" text-anchor="end" font-size="9" fill="#606060">${upTo}</text>`
  })
  return cells.join('') + axis.join('')
}

function colourAt({ thresholds }: Panel, value: number | undefined): string {
  return thresholds.filter(({ from }) => from === null || (value ?? 0) >= from).at(-1)?.color ?? 'black'
}

function shown(value: number, unit: Unit): string {
  switch (unit) {
    case 's':
      return value < 1 ? `${Number((value * 1_000).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`
    case 'percentunit':
      return `${(value * 100).toFixed(value < 0.1 ? 2 : 1)} %`
    case 'bytes':
      return `${(value / 2 ** 20).toFixed(1)} MiB`
    case 'reqps':
    case 'cps':
      return `${value.toPrecision(3)}/s`
    default:
      return String(Number(value.toPrecision(3)))
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
