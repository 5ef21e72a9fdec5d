/**
 * `npm run house`: how large this repository is, in one table, with a limit for each number and the target that it goes to.
 *
 * A number above its limit fails (a test runs this). Where the target is not reached yet, the limit is what there was when it was last
 * lowered: it may only go down. `npm run house -- --long` lists the circles, the places that stand twice, and the longest functions.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type SourceGraph, sizeOf, sourceGraphOf } from '../test/support/source-graph.ts'

const root = join(import.meta.dirname, '..')

export type Row = {
  readonly what: string
  readonly value: number
  readonly limit: number
  /** Absent where the limit is the target. */
  readonly target?: number
}
type Text = { readonly file: string; readonly lines: readonly string[] }

export type House = {
  readonly rows: readonly Row[]
  readonly graph: SourceGraph
  readonly twice: readonly string[]
}

export function measureHouse(): House {
  const texts = trackedTexts()
  const of = (...folders: readonly string[]) =>
    texts.filter(({ file }) => isCode(file) && folders.some((folder) => file.startsWith(`${folder}/`)))
  const src = of('src')
  // The tables of the settings are data, as in test/architecture.test.ts.
  const modules = of('src', 'packages').filter(
    ({ file }) => /\.tsx?$/.test(file) && file !== 'src/config/settings.ts',
  )
  const pages = texts.filter(({ file }) => file.endsWith('.md'))
  const graph = sourceGraphOf(root)
  const twice = standingTwice(of('src', 'packages', 'test', 'bench', 'scripts', 'dashboards', 'examples'))
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object }
  const rows: readonly Row[] = [
    { what: 'lines of src', value: linesOf(src), limit: 53_500, target: 50_000 },
    { what: 'lines of packages', value: linesOf(of('packages')), limit: 15_000 },
    { what: 'lines of test', value: linesOf(of('test')), limit: 107_000, target: 95_000 },
    {
      what: 'lines of bench and scripts',
      value: linesOf(of('bench', 'scripts')),
      limit: 8_000,
      target: 6_400,
    },
    { what: 'files of src', value: src.length, limit: 430 },
    { what: 'files of src below 40 lines', value: src.filter(isSmall).length, limit: 45 },
    { what: 'lines of the longest module', value: longestOf(modules), limit: 500 },
    { what: 'circles of imports', value: graph.circles.length, limit: 0 },
    { what: 'words of Markdown', value: sum(pages.map(wordsOf)), limit: 152_000, target: 80_000 },
    { what: 'places of six lines that stand elsewhere, too', value: twice.length, limit: 55 },
    { what: 'commands of npm run', value: Object.keys(scripts).length, limit: 14 },
  ]
  return { rows, graph, twice }
}

export function isAbove({ value, limit }: Row): boolean {
  return value > limit
}

/** Tables of data and of generated text are no code. */
function isCode(file: string): boolean {
  return /\.(?:[cm]?[jt]sx?|lua|sh|go|java|py|css|html|pml)$/.test(file)
}

function trackedTexts(): readonly Text[] {
  const listed = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
  return listed
    .split('\0')
    .filter((file) => (isCode(file) || file.endsWith('.md')) && existsSync(join(root, file)))
    .map((file) => ({ file, lines: readFileSync(join(root, file), 'utf8').replace(/\n$/, '').split('\n') }))
}

const PLACE_LINES = 6

/**
 * Places of six lines and more that stand in an earlier place, too: `file:line`. Blank lines and imports are no lines here, and
 * indentation does not count.
 */
export function standingTwice(texts: readonly Text[]): readonly string[] {
  const known = new Set<string>()
  return texts.flatMap(({ file, lines }) => {
    const told = tellingLines(lines)
    const windows = told.slice(PLACE_LINES - 1).map((_, at) =>
      told
        .slice(at, at + PLACE_LINES)
        .map(([text]) => text)
        .join('\n'),
    )
    const places: string[] = []
    windows.forEach((window, at) => {
      if (known.has(window) && (at === 0 || !known.has(windows[at - 1]!)))
        places.push(`${file}:${told[at]![1]}`)
    })
    for (const window of windows) known.add(window)
    return places
  })
}

function tellingLines(lines: readonly string[]): readonly (readonly [text: string, line: number])[] {
  let importing = false
  return lines.flatMap((line, index) => {
    const text = line.trim()
    const begins = /^(?:import\b|export (?:type )?\{)/.test(text)
    const isImport = importing || begins
    if (isImport) importing = !/from '[^']+'$|^import '|\}$/.test(text)
    return isImport || text === '' ? [] : [[text, index + 1] as const]
  })
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)
const linesOf = (texts: readonly Text[]) => sum(texts.map(({ lines }) => lines.length))
const longestOf = (texts: readonly Text[]) => Math.max(...texts.map(({ lines }) => lines.length))
const isSmall = ({ lines }: Text) => lines.length < 40
const wordsOf = ({ lines }: Text) => sum(lines.map((line) => line.split(/\s+/).filter(Boolean).length))

/** In lines that are not blank, as the linter counts them; the longest first. */
function functionsLongerThan(lines: number): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'biome-'))
  const options = { maxLines: lines, skipBlankLines: true }
  const complexity = { noExcessiveLinesPerFunction: { level: 'error', options } }
  const rules = { preset: 'none', complexity }
  writeFileSync(join(folder, 'biome.json'), JSON.stringify({ linter: { rules } }))
  try {
    const flags = ['--only=complexity/noExcessiveLinesPerFunction', '--max-diagnostics=none', '--colors=off']
    const args = ['lint', `--config-path=${folder}`, ...flags, 'src', 'packages']
    const biome = join(root, 'node_modules/.bin/biome')
    const { stdout, stderr } = spawnSync(biome, args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })
    const told = (stdout + stderr).matchAll(/^(\S+\.tsx?:\d+):\d+ lint[\s\S]*?too many lines \((\d+)\)/gm)
    return [...told]
      .map(([, where = '', count]) => ({ where, count: Number(count) }))
      .sort((a, b) => b.count - a.count)
      .map(({ where, count }) => `${count} ${where}`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function tableOf(rows: readonly Row[]): string {
  const cells = [
    ['', 'now', 'limit', 'target'],
    ...rows.map(({ what, value, limit, target }) => [
      what,
      ...[value, limit, target ?? limit].map((number) => number.toLocaleString('en')),
    ]),
  ]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...cells.map((row) => row[column]!.length)))
  return cells
    .map((row, at) => {
      const text = row.map((cell, i) => (i === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[i]!)))
      const row_ = rows[at - 1]
      return `${text.join('  ')}${row_ !== undefined && isAbove(row_) ? '  ABOVE ITS LIMIT' : ''}`
    })
    .join('\n')
}

if (import.meta.main) {
  const { rows, graph, twice } = measureHouse()
  console.log(`${tableOf(rows)}\n\n${sizeOf(graph)}`)
  if (process.argv.includes('--long')) {
    for (const circle of graph.circles) console.log(`circle: ${circle.join(', ')}`)
    for (const place of twice) console.log(`stands twice: ${place}`)
    for (const one of functionsLongerThan(50).slice(0, 20)) console.log(`lines of a function: ${one}`)
  }
  if (rows.some(isAbove)) process.exitCode = 1
}
