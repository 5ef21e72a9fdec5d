/** Memory and descriptors over time as an SVG that stands in a page: one panel a case, two lines. */
import type { CaseReport } from './run.ts'

const WIDTH = 720
const PANEL = 150
const LEFT = 60
const RIGHT = 660

export function plot(reports: readonly CaseReport[], sentences: ReadonlyMap<string, string>): string {
  const height = reports.length * PANEL + 20
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11">
<title>Memory and descriptors of a sidecar under each case of exhaustion</title>
<rect width="${WIDTH}" height="${height}" fill="white"/>
${reports.map((report, index) => panel(report, sentences.get(report.name) ?? report.name, index * PANEL + 10)).join('\n')}
</svg>
`
}

function panel(
  { samples, seconds, rssGrowth, descriptorGrowth }: CaseReport,
  title: string,
  top: number,
): string {
  const [from, to] = [top + 28, top + PANEL - 30]
  const line = (values: readonly number[], colour: string): string => {
    const largest = Math.max(1, ...values) * 1.15
    const points = values.map((value, index) => {
      const x = LEFT + ((RIGHT - LEFT) * index) / Math.max(1, values.length - 1)
      return `${x.toFixed(1)},${(to - ((to - from) * value) / largest).toFixed(1)}`
    })
    return `<polyline fill="none" stroke="${colour}" stroke-width="1.5" points="${points.join(' ')}"/>`
  }
  const rss = samples.map(({ rssMiB }) => rssMiB)
  const descriptors = samples.map(({ descriptors: open }) => open)
  const last = samples.at(-1)
  return `<g>
<text x="${LEFT}" y="${top + 14}" font-weight="bold">${title}</text>
<line x1="${LEFT}" y1="${to}" x2="${RIGHT}" y2="${to}" stroke="#999"/>
${line(rss, '#1f77b4')}
${line(descriptors, '#d62728')}
<text x="${LEFT}" y="${to + 14}" fill="#1f77b4">memory ${last?.rssMiB} MiB, second half / first ${rssGrowth}</text>
<text x="${LEFT + 270}" y="${to + 14}" fill="#d62728">descriptors ${last?.descriptors}, ${descriptorGrowth}</text>
<text x="${RIGHT}" y="${to + 14}" text-anchor="end" fill="#555">${seconds} s</text>
</g>`
}
