/**
 * The rules of ARCHITECTURE.md and CONTRIBUTING.md that a program can check. A new arrow is a design decision: change
 * the table here and the one in ARCHITECTURE.md (they are compared), and say why in the commit.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, matchesGlob, relative } from 'node:path'
import { expect, test } from 'vitest'
import client from '../packages/client/package.json' with { type: 'json' }
import kit from '../packages/saga/package.json' with { type: 'json' }
import { sizeOf, sourceGraphOf } from './support/source-graph.ts'
import { codeOf, importsOf, linesWith } from './support/source-text.ts'

const root = dirname(import.meta.dirname)

// biome-ignore format: one line reads as one set
const adapters = ['config', 'http', 'redis', 'redlock', 'embedded', 'upstream', 'coordination', 'observe', 'system', 'jwt']

/** Which layer may import which. A layer is a folder of src, or the file of that name; and so is each package. */
const arrows: Record<string, readonly string[]> = {
  main: ['cli', 'core'],
  cli: ['app', 'config', 'core', 'demo', 'probe'],
  app: [...adapters, 'core'],
  ...Object.fromEntries(adapters.map((adapter) => [adapter, ['core']])),
  demo: ['core'],
  probe: ['core'],
  page: [],
  core: [],
  client: [],
  saga: ['core', 'client'],
}

/** Types alone, which are gone at run time, may come from these files, too. */
const typeArrows: Record<string, readonly string[]> = { page: ['http/operator/*schemas.ts'] }

/** The same for the folders of core. Files that stand directly in core are free to all, and see all. */
const arrowsOfCore: Record<string, readonly string[]> = {
  formats: [],
  record: [],
  routes: ['formats', 'record'],
  request: ['formats', 'record', 'routes'],
  quorum: ['record'],
  claims: ['record', 'quorum'],
  nodes: ['formats', 'record', 'quorum', 'claims'],
  reservations: ['formats', 'record', 'claims', 'request'],
  coordination: ['record', 'claims'],
  operator: ['formats', 'record', 'request', 'quorum', 'coordination'],
  health: [],
}

/** The same for the folders of http, where every file stands in a folder. No listener imports another's inside. */
const arrowsOfHttp: Record<string, readonly string[]> = {
  message: [],
  server: ['message'],
  request: ['message', 'server'],
  check: ['message', 'server', 'request'],
  proxy: ['message', 'server', 'request'],
  reservations: ['message', 'server', 'request'],
  gateway: ['message', 'server', 'request', 'check'],
  envoy: ['message', 'server', 'request', 'check'],
  operator: ['message', 'server', 'request'],
  admin: ['server'],
}

/**
 * What the saga kit is built with of the sidecar's sources: what packages/saga/src/core.ts names, and what that
 * imports.
 */
const surfaceForTheKit = ['core/clock.ts', 'core/operator/operator-tokens.ts', 'core/retry.ts']

/** Packages that show in one place only, so that replacing one is a change of that place. */
const homes: Record<string, RegExp> = {
  redlock: /^redlock\//,
  ioredis: /^(redis|saga\/brokers)\//,
  '@grpc': /^http\/envoy\//,
  fastify: /^http\//,
  '@fastify': /^http\//,
  undici: /^(upstream|demo)\//,
  'prom-client': /^observe\//,
  // The kit is a library inside the user's process: it speaks to the API alone, in one file.
  '@opentelemetry': /^(observe\/|saga\/trace-context)/,
  pino: /^observe\//,
  commander: /^cli\//,
  yaml: /^config\//,
  jose: /^jwt\//,
  pg: /^saga\//,
  preact: /^page\//,
  amqplib: /^saga\/brokers\/rabbitmq/,
  '@nats-io': /^saga\/brokers\/nats/,
  '@platformatic': /^saga\/brokers\/kafka/,
}

/** What core may take from Node: pure computation. The client takes nothing: it runs wherever there is `fetch`. */
const pureNodeModules = /^node:(crypto|buffer|zlib|util|string_decoder|querystring)$/

/** Layers that decide get time and randomness as arguments. */
const layersThatDecide = ['core', 'redlock', 'embedded']
const ambient =
  /\b(Date\.now|new Date\(\)|Math\.random|setTimeout|setInterval|setImmediate|performance\.|AbortSignal\.timeout|randomUUID|randomBytes|randomInt|getRandomValues|console\.|fetch\()/

/** A table of data is one piece, however long. */
const longTables = { 'config/settings.ts': 640 } as Record<string, number>
const linesMax = 500
const functionLinesMax = 80

/** What stands in packages/NAME/src is the layer NAME, and has its name before that of its files. */
const packages: Record<string, { readonly exports: Readonly<Record<string, string>> }> = { client, saga: kit }
const isPackaged = (file: string) => (file.split('/')[0] ?? '') in packages
const placeOf = (file: string) =>
  join(root, isPackaged(file) ? `packages/${file.replace('/', '/src/')}` : `src/${file}`)
const nameOf = (path: string) =>
  relative(root, path)
    .replace(/^packages\/(\w+)\/src\//, '$1/')
    .replace(/^src\//, '')

const everyFile = ['src', ...Object.keys(packages).map((name) => `packages/${name}/src`)]
  .flatMap((folder) => globSync(`${folder}/**/*.{ts,tsx,lua,sql}`, { cwd: root }))
  .map((path) => nameOf(join(root, path)))
  .sort()
const files = everyFile.filter((file) => /\.tsx?$/.test(file))
const sources = new Map(everyFile.map((file) => [file, readFileSync(placeOf(file), 'utf8')]))
const sourceOf = (file: string) => sources.get(file) ?? ''
const doors = new Set(
  Object.entries(packages).flatMap(([name, { exports }]) =>
    Object.values(exports).map((path) => path.replace('./src', name)),
  ),
)
const layerOf = (file: string) => (file.split('/')[0] ?? '').replace(/\.ts$/, '')

test('imports follow the arrows', () => {
  expect(files.map(layerOf).filter((layer) => !(layer in arrows))).toEqual([])
  const wrong = faults(files, (file) =>
    localImports(file)
      .filter(({ file: target, typeOnly }) => {
        const [from, to] = [layerOf(file), layerOf(target)]
        const asType = typeOnly && typeArrows[from]?.some((pattern) => matchesGlob(target, pattern))
        return from !== to && !arrows[from]?.includes(to) && asType !== true
      })
      .map(({ file: target }) => target),
  )
  expect(wrong).toEqual([])
})

test('a package is imported by its name, and reaches out of itself in one file', () => {
  const wrong = faults(files, (file) =>
    localImports(file)
      .filter(({ file: target, byName }) => {
        if (layerOf(target) === layerOf(file)) return byName
        return isPackaged(target) ? !byName : isPackaged(file) && file !== 'saga/core.ts'
      })
      .map(({ file: target }) => target),
  )
  expect(wrong).toEqual([])
})

test('the kit reaches only the listed files of the core', () => {
  const reached = new Set<string>()
  const visit = (file: string): void => {
    if (reached.has(file)) return
    if (!isPackaged(file)) reached.add(file)
    for (const imported of localImports(file)) visit(imported.file)
  }
  visit('saga/core.ts')
  expect([...reached].sort()).toEqual(surfaceForTheKit)
})

test.each([
  ['core', arrowsOfCore],
  ['http', arrowsOfHttp],
])('inside %s, folders follow their own arrows', (layer, arrowsOfLayer) => {
  const folderOf = (file: string) => new RegExp(`^${layer}/([^/]+)/`).exec(file)?.[1]
  const inFolders = files.filter((file) => folderOf(file) !== undefined)
  expect(inFolders.filter((file) => !(folderOf(file)! in arrowsOfLayer))).toEqual([])
  const wrong = faults(inFolders, (file) => {
    const folder = folderOf(file) ?? ''
    return localImports(file)
      .map((imported) => folderOf(imported.file))
      .filter((target) => target !== undefined && target !== folder)
      .filter((target) => !arrowsOfLayer[folder]?.includes(target ?? ''))
      .map(String)
  })
  expect(wrong).toEqual([])
})

test('every file of http is in a folder', () => {
  expect(files.filter((file) => /^http\/[^/]+$/.test(file))).toEqual([])
})

test('packages are imported only in their own layers', () => {
  const astray = faults(files, (file) =>
    // The composition root holds the parts, so it may name their types.
    packagesOf(file, layerOf(file) === 'app' ? 'values' : 'all').filter((name) => {
      if (layerOf(file) === 'core') return !pureNodeModules.test(name)
      if (layerOf(file) === 'client') return true
      // It runs in a browser.
      if (layerOf(file) === 'page') return !isOf(name, 'preact')
      return Object.entries(homes).some(([prefix, home]) => isOf(name, prefix) && !home.test(file))
    }),
  )
  expect(astray).toEqual([])
})

test.each(['redlock', 'prom-client'])('%s is imported in one file', (name) => {
  const importers = files.filter((file) => packagesOf(file).some((imported) => isOf(imported, name)))
  expect(importers.slice(1)).toEqual([])
})

test('layers that decide get time and randomness as arguments', () => {
  const deciding = files.filter((file) => layersThatDecide.includes(layerOf(file)))
  expect(faults(deciding, (file) => linesWith(ambient, codeOf(sourceOf(file))))).toEqual([])
})

test('only the entries of the two commands touch the process', () => {
  const others = files.filter((file) => !['main.ts', 'saga/command/main.ts'].includes(file))
  const touching = faults(others, (file) => [
    ...linesWith(/(?<![.\w])process\.\w/, codeOf(sourceOf(file))),
    ...packagesOf(file).filter((name) => name === 'node:process'),
  ])
  expect(touching).toEqual([])
})

// Types count, too: a circle of types is as hard to read, and one value import away from a real one.
test('imports form no cycle, type imports included', () => {
  const graph = sourceGraphOf(root)
  console.info(sizeOf(graph))
  expect(graph.circles).toEqual([])
})

test('the limits that CONTRIBUTING.md states are the ones that are enforced', () => {
  const { overrides } = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8'))
  const [{ includes, linter }] = overrides
  const { level, options } = linter.rules.complexity.noExcessiveLinesPerFunction
  expect({ includes, level, options }).toEqual({
    includes: ['src/**', 'packages/**'],
    level: 'error',
    options: { maxLines: functionLinesMax, skipBlankLines: true },
  })
  expect(readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')).toContain(
    `Files of at most ${linesMax} lines, functions of at most ${functionLinesMax} that are not blank`,
  )
})

test('no function is assigned to a property where it is written, except once for each connection', () => {
  // V8 creates such a function in the old generation, where it keeps all that it closes over until the next full collection.
  const assigned =
    /[\w\])]\.#?\w+ (?:\?\?|\|\||&&)?= (?:async )?(?:function\b|\([^=]*\)(?:: [^=]+)? =>|\w+ =>)/
  const assigning = files.filter((file) => linesWith(assigned, codeOf(sourceOf(file))).length > 0)
  expect(assigning).toEqual(['upstream/answer-parser.ts'])
})

test('a file begins with what it owns, and keeps to the limit of lines', () => {
  const wrong = faults(everyFile, (file) => {
    const text = sourceOf(file)
    const lines = text.split('\n').length - 1
    const header = /\.tsx?$/.test(file) ? /^(#!.*\n)?\/\*\*/ : /^--/
    return [
      ...(lines > (longTables[file] ?? linesMax) ? [`${lines} lines, split it by what it owns`] : []),
      ...(header.test(text) ? [] : ['does not begin with a comment']),
    ]
  })
  expect(wrong).toEqual([])
})

test('files are named by what they own, and only the exports of packages re-export', () => {
  const nameless =
    /(^|\/)(index|utils?|helpers?|common|types?|misc|shared|services?|controllers?)(\.tsx?$|\/)/
  expect(files.filter((file) => nameless.test(file))).toEqual([])
  const barrels = files.filter((file) => importsOf(sourceOf(file)).some((one) => one.reExport))
  expect(barrels.filter((file) => !doors.has(file) && file !== 'saga/core.ts')).toEqual([])
})

test('no comment leaves work to do, and no test is left out', () => {
  const written = globSync(
    '{src,packages,test,scripts,bench,examples,dashboards}/**/*.{ts,tsx,mjs,lua,sql,sh}',
    {
      cwd: root,
      exclude: (path) => path.includes('node_modules'),
    },
  )
  const leftOut =
    /\b(test|it|describe|suite)(\.\w+)*\.(only|skip|skipIf|runIf|todo)\b|\b(ctx|context|task)\.skip\(/
  const wrong = faults(written, (file) => {
    const text = readFileSync(join(root, file), 'utf8')
    return [
      ...linesWith(/\b(TO[D]O|FIX[M]E|XX[X])\b/, text),
      ...(file.endsWith('.test.ts') ? linesWith(leftOut, codeOf(text)) : []),
    ]
  })
  expect(wrong).toEqual([])
})

test('the tables of ARCHITECTURE.md are the tables of this test', () => {
  const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `(\w+)` \| ([^|]*) \| [^|]* \|$/gm)]
  const documented = rows.map(([, layer, targets = '']) => [
    layer,
    [...targets.matchAll(/`(\w+)`/g)].map(([, target]) => target),
  ])
  expect(Object.fromEntries(documented)).toEqual(arrows)
  const documentedTypes = rows.flatMap(([, layer, targets = '']) => {
    const [, files] = /types alone of `([^`]+)`/.exec(targets) ?? []
    return files === undefined ? [] : [[layer, [files]]]
  })
  expect(Object.fromEntries(documentedTypes)).toEqual(typeArrows)
  const documentedOf = (layer: string) =>
    [...page.matchAll(new RegExp(`^\\| \`${layer}/(\\w+)/\` \\| ([^|]*) \\| [^|]* \\|$`, 'gm'))].map(
      ([, folder, targets = '']) => [folder, [...targets.matchAll(/`(\w+)`/g)].map(([, target]) => target)],
    )
  expect(Object.fromEntries(documentedOf('core'))).toEqual(arrowsOfCore)
  expect(Object.fromEntries(documentedOf('http'))).toEqual(arrowsOfHttp)
})

/** One line for each fault, so that a failure names file and fault. */
function faults(among: readonly string[], find: (file: string) => readonly string[]): string[] {
  return among.flatMap((file) => find(file).map((fault) => `${file}: ${fault}`))
}

/** Of this repository, by path or by the name of a package's door. */
function localImports(file: string): { file: string; typeOnly: boolean; byName: boolean }[] {
  return importsOf(sourceOf(file))
    .filter(({ specifier }) => isLocal(specifier))
    .map(({ specifier, typeOnly }) => {
      const byName = !specifier.startsWith('.')
      return {
        file: byName ? (fileOfDoor(specifier) ?? specifier) : nameOf(join(dirname(placeOf(file)), specifier)),
        typeOnly,
        byName,
      }
    })
}

function isLocal(specifier: string): boolean {
  return specifier.startsWith('.') || specifier.startsWith('@fencepost/')
}

function fileOfDoor(specifier: string): string | undefined {
  const [, name = '', door = ''] = /^@fencepost\/([^/]+)(.*)$/.exec(specifier) ?? []
  return packages[name]?.exports[`.${door}`]?.replace('./src', name)
}

function packagesOf(file: string, which: 'all' | 'values' = 'all'): string[] {
  return importsOf(sourceOf(file))
    .filter(({ specifier, typeOnly }) => !isLocal(specifier) && (which === 'all' || !typeOnly))
    .map(({ specifier }) => specifier)
}

function isOf(imported: string, name: string): boolean {
  return imported === name || imported.startsWith(`${name}/`)
}
