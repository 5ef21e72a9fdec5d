/**
 * What a benchmark leaves: its numbers as JSON and a plot as SVG in `bench/results/`, with the versions of everything
 * that took part. The folder is not tracked; a plot that a page shows is copied to `docs/pictures/`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'

const folder = join(import.meta.dirname, '../results')

export function writeResults(
  name: string,
  versions: Readonly<Record<string, string>>,
  results: unknown,
): void {
  mkdirSync(folder, { recursive: true })
  const machine = {
    cores: cpus().length,
    processor: cpus()[0]?.model ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.versions.node,
  }
  const whole = { benchmark: name, machine, versions, results }
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(whole, undefined, 2)}\n`)
}

export function writePlot(name: string, svg: string): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.svg`), svg)
}

export type Bar = {
  readonly label: string
  readonly value: number
  readonly min?: number
  readonly max?: number
}
export type BarGroup = { readonly title: string; readonly bars: readonly Bar[] }

const WIDTH = 900
const LABEL = 330
const ROW = 22

/** Horizontal bars in groups, each with its spread as a line. */
export function barChart(title: string, unit: string, groups: readonly BarGroup[]): string {
  const rows = groups.reduce((sum, { bars }) => sum + bars.length + 1.5, 0)
  const height = 60 + rows * ROW
  const parts: string[] = []
  let y = 50
  for (const group of groups) {
    const longest = Math.max(...group.bars.map(({ value, max }) => max ?? value))
    const x = (value: number) => LABEL + (value / longest) * (WIDTH - LABEL - 90)
    parts.push(text(10, y + 14, group.title, 'font-weight="bold"'))
    y += ROW
    for (const { label, value, min, max } of group.bars) {
      parts.push(text(20, y + 14, label))
      parts.push(
        `<rect x="${LABEL}" y="${y + 3}" width="${(x(value) - LABEL).toFixed(1)}" height="${ROW - 8}" fill="#4878a8"/>`,
      )
      if (min !== undefined && max !== undefined)
        parts.push(
          `<path d="M${x(min).toFixed(1)} ${y + 10}H${x(max).toFixed(1)}" stroke="#222" stroke-width="2"/>`,
        )
      parts.push(text(x(max ?? value) + 6, y + 14, short(value)))
      y += ROW
    }
    y += ROW / 2
  }
  return frame(WIDTH, height, `${title} (${unit})`, parts)
}

export type Line = { readonly label: string; readonly points: readonly (readonly [x: number, y: number])[] }

const COLOURS = ['#4878a8', '#c8553d', '#588157', '#8a5a9e', '#b8860b', '#555555']

/** Lines over a logarithmic or linear x axis, y from zero. */
export function lineChart(
  title: string,
  axes: { readonly x: string; readonly y: string; readonly logX?: boolean },
  lines: readonly Line[],
): string {
  const all = lines.flatMap(({ points }) => points)
  const scale = (value: number) => (axes.logX === true ? Math.log10(value) : value)
  const [x0, x1] = [Math.min(...all.map(([x]) => scale(x))), Math.max(...all.map(([x]) => scale(x)))]
  const top = Math.max(...all.map(([, y]) => y), Number.MIN_VALUE)
  const [left, right, upper, lower] = [80, WIDTH - 30, 50, 380]
  const px = (x: number) => left + ((scale(x) - x0) / (x1 - x0 || 1)) * (right - left)
  const py = (y: number) => lower - (y / top) * (lower - upper)
  const parts = [
    `<path d="M${left} ${upper}V${lower}H${right}" fill="none" stroke="#888"/>`,
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => text(8, py(top * share) + 4, short(top * share))),
    ...[...new Set(all.map(([x]) => x))]
      .filter((_, index, values) => index % Math.ceil(values.length / 10) === 0)
      .map((x) => text(px(x) - 12, lower + 18, short(x))),
    text(left, lower + 38, axes.x),
    text(left, upper - 8, axes.y),
    ...lines.flatMap(({ label, points }, index) => {
      const colour = COLOURS[index % COLOURS.length]!
      const path = points.map(
        ([x, y], at) => `${at === 0 ? 'M' : 'L'}${px(x).toFixed(1)} ${py(y).toFixed(1)}`,
      )
      return [
        `<path d="${path.join('')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
        text(left + 10, lower + 60 + index * 18, label, `fill="${colour}"`),
      ]
    }),
  ]
  return frame(WIDTH, lower + 70 + lines.length * 18, title, parts)
}

function frame(width: number, height: number, title: string, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="13">
<title>${escaped(title)}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
${text(10, 24, title, 'font-size="16"')}
${parts.join('\n')}
</svg>
`
}

function text(x: number, y: number, words: string, more = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(words)}</text>`
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

function short(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`
  return String(Number(value.toPrecision(3)))
}
