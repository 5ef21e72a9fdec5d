/**
 * The imports among the modules of `src/` and the packages, types included: their number, and the circles.
 *
 * `node test/support/source-graph.ts [folder of a checkout]` prints the numbers and the longest functions, to compare
 * before and after a change.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import process from 'node:process'
import { importsOf } from './source-text.ts'

export type SourceGraph = {
  /** Each module, as a path from the root, with the modules that it imports. */
  readonly imports: ReadonlyMap<string, readonly string[]>
  /** Sets of modules that all reach each other. */
  readonly circles: readonly (readonly string[])[]
}

export function sourceGraphOf(root: string): SourceGraph {
  const modules = globSync('{src,packages/*/src}/**/*.{ts,tsx}', { cwd: root }).sort()
  const doors = doorsOf(root)
  const imports = new Map(
    modules.map((module) => {
      const targets = importsOf(readFileSync(join(root, module), 'utf8')).flatMap(({ specifier }) =>
        specifier.startsWith('.') ? join(dirname(module), specifier) : (doors.get(specifier) ?? []),
      )
      return [module, [...new Set(targets)]] as const
    }),
  )
  return { imports, circles: circlesOf(imports) }
}

/** One line of numbers. */
export function sizeOf({ imports, circles }: SourceGraph): string {
  const edges = [...imports].flatMap(([module, targets]) =>
    targets.map((target) => [module, target] as const),
  )
  const between = new Set(
    edges
      .map(([module, target]) => [dirname(module), dirname(target)])
      .filter(([from, to]) => from !== to)
      .map((pair) => pair.join(' → ')),
  )
  return `${imports.size} modules, ${edges.length} imports, ${between.size} between folders, ${circles.length} circles`
}

/** Modules of packages by the name under which others import them. */
function doorsOf(root: string): ReadonlyMap<string, string> {
  const doors = new Map<string, string>()
  for (const manifest of globSync('packages/*/package.json', { cwd: root })) {
    const { name, exports = {} } = JSON.parse(readFileSync(join(root, manifest), 'utf8'))
    for (const [door, path] of Object.entries(exports))
      if (typeof path === 'string') doors.set(join(name, door), join(dirname(manifest), path))
  }
  return doors
}

/** Source: R. Tarjan, "Depth-First Search and Linear Graph Algorithms" (SIAM J. Comput. 1, 1972). */
function circlesOf(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = []
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const open: string[] = []
  const visit = (module: string): void => {
    order.set(module, order.size)
    lowest.set(module, order.size - 1)
    open.push(module)
    for (const target of imports.get(module) ?? []) {
      if (!imports.has(target)) continue
      if (!order.has(target)) visit(target)
      else if (!open.includes(target)) continue
      lowest.set(module, Math.min(lowest.get(module)!, lowest.get(target)!))
    }
    if (lowest.get(module) !== order.get(module)) return
    const circle = open.splice(open.indexOf(module))
    if (circle.length > 1) found.push(circle)
  }
  for (const module of imports.keys()) if (!order.has(module)) visit(module)
  return found
}

/** In lines that are not blank, as the linter counts them; the longest first. */
function functionsLongerThan(lines: number, root: string): readonly { where: string; lines: number }[] {
  const folder = mkdtempSync(join(tmpdir(), 'biome-'))
  const options = { maxLines: lines, skipBlankLines: true }
  const complexity = { noExcessiveLinesPerFunction: { level: 'error', options } }
  writeFileSync(
    join(folder, 'biome.json'),
    JSON.stringify({ linter: { rules: { preset: 'none', complexity } } }),
  )
  try {
    const biome = join(dirname(dirname(import.meta.dirname)), 'node_modules/.bin/biome')
    const of = ['src', 'packages'].filter((name) => existsSync(join(root, name)))
    const flags = ['--only=complexity/noExcessiveLinesPerFunction', '--max-diagnostics=none', '--colors=off']
    const args = ['lint', `--config-path=${folder}`, ...flags, ...of]
    const { stdout, stderr } = spawnSync(biome, args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })
    const told = (stdout + stderr).matchAll(/^(\S+\.tsx?:\d+):\d+ lint[\s\S]*?too many lines \((\d+)\)/gm)
    return [...told]
      .map(([, where = '', count]) => ({ where, lines: Number(count) }))
      .sort((a, b) => b.lines - a.lines)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

if (import.meta.main) {
  const root = join(process.cwd(), relative(process.cwd(), process.argv[2] ?? '.'))
  const graph = sourceGraphOf(root)
  console.log(sizeOf(graph))
  for (const circle of graph.circles) console.log(`circle: ${circle.join(', ')}`)
  const long = functionsLongerThan(50, root)
  console.log(
    `${long.filter(({ lines }) => lines > 80).length} functions above 80 lines, ${long.length} above 50`,
  )
  for (const { where, lines } of long.slice(0, 20)) console.log(`${lines} ${where}`)
}
