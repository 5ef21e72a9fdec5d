/** The imports among the modules of `src/` and the packages, types included: their number, and the circles. `npm run house` prints them. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
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
