/**
 * What `npm run build` yields. The sidecar runs on its own, without src/ or packages/. The two packages are tested as a
 * user gets them: packed by npm, installed without a network into an empty folder, every export imported there.
 */
import {
  accessSync,
  constants,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import client from '../../packages/client/package.json' with { type: 'json' }
import kit from '../../packages/saga/package.json' with { type: 'json' }
import { nothingLost, withoutFacades } from '../../scripts/bundle.ts'
import { checkTypes, packAll } from '../../scripts/pack.ts'
import { TestProcess } from '../support/processes.ts'

const root = join(import.meta.dirname, '../..')
// Outside the repository: what is built finds none of its packages.
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'fencepost-build-')))

let tarballs: Awaited<ReturnType<typeof packAll>>

async function done(command: string, args: readonly string[], cwd: string): Promise<string> {
  await using child = new TestProcess(command, args, { cwd })
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  return child.output
}

beforeAll(async () => {
  copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
  tarballs = await packAll(join(folder, 'dist'), { checked: false })
  // A build and three runs of npm: longer than the usual limit where the machine is busy.
}, 300_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('every file that the code reads relative to itself is there', () => {
  const files = globSync('**/*.*', { cwd: join(root, 'src'), exclude: ['**/*.{ts,tsx,md}'] })
  expect(files).toContain('redis/lua/claim.lua')
  expect(files.filter((path) => !existsSync(join(folder, 'dist', path)))).toEqual([])
})

test('the command runs', async () => {
  const command = join(folder, manifest.bin.fencepost)
  accessSync(command, constants.X_OK)
  await using child = new TestProcess(command, ['--version'])
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  expect(child.output.trim()).toBe(manifest.version)
})

const codeOf = () =>
  globSync('*.js', { cwd: join(folder, 'dist') }).map((file) =>
    readFileSync(join(folder, 'dist', file), 'utf8'),
  )

test('the sidecar imports nothing but its own parts and Node', () => {
  const imported = codeOf().flatMap((text) =>
    [
      ...text.matchAll(
        /^import (?:[^;]+ from )?"([^"]+)";|\bimport\("([^"]+)"\)|\b(?:__require|getBuiltinModule)\("([^"]+)"\)/gm,
      ),
    ].map(([, ...places]) => places.find((place) => place !== undefined)!),
  )
  expect(imported).toContain('node:http')
  const others = imported.filter((place) => !place.startsWith('./') && !isBuiltin(place))
  // An optional one of debug, which does without.
  expect([...new Set(others)].sort()).toEqual(['supports-color'])
})

test('the sidecar imports no module of Node, because an import loads everything that the module could give', () => {
  const imported = codeOf().flatMap((text) =>
    [...text.matchAll(/^import [^;]+ from "([^"]+)";/gm)].map(([, place]) => place!),
  )
  expect(imported.length).toBeGreaterThan(20)
  expect(imported.filter((place) => isBuiltin(place))).toEqual([])
})

// biome-ignore format: the table reads as a table
test.each([
  ['import { readFileSync, writeSync } from "node:fs";', 'const { readFileSync, writeSync } = globalThis.process.getBuiltinModule("node:fs");'],
  ['import { createServer as createServer$1 } from "http";', 'const { createServer: createServer$1 } = globalThis.process.getBuiltinModule("http");'],
  ['import process$1 from "process";',                 'const process$1 = globalThis.process.getBuiltinModule("process");'],
  ['import process from "node:process";',              'const process = globalThis.process.getBuiltinModule("node:process");'],
  ['import * as zlib from "zlib";',                    'const zlib = globalThis.process.getBuiltinModule("zlib");'],
  ['import fs, { rm as rm$1 } from "node:fs/promises";', 'const fs = globalThis.process.getBuiltinModule("node:fs/promises"), { rm: rm$1 } = globalThis.process.getBuiltinModule("node:fs/promises");'],
  ['import { gunzip, inflate as inflate$1 } from "node:zlib";', 'const gunzip = (...given) => globalThis.process.getBuiltinModule("node:zlib").gunzip(...given), inflate$1 = (...given) => globalThis.process.getBuiltinModule("node:zlib").inflate(...given);'],
  ['import { own } from "./own-1.js";',                'import { own } from "./own-1.js";'],
  ['import native from "pg-native";',                  'import native from "pg-native";'],
])('%s becomes %s', (given, expected) => {
  expect(withoutFacades(`first;\n${given}\nlast;`)).toBe(`first;\n${expected}\nlast;`)
})

// Bug: the check of a query was in the sources and in their tests, and not in the program that was built of them.
test.each([
  ['try { decodeURIComponent(text) } catch { refuse() }', 'nobody uses what decodeURIComponent() returns'],
  ['if (isShown) encodeURI(text)', 'nobody uses what encodeURI() returns'],
  ['try { String(key) } catch { refuse() }', 'nobody uses what String() returns'],
  ['export const decoded = decodeURIComponent(text)', undefined],
  ['refuse(\n  decodeURIComponent(text),\n)', undefined],
])('a call that would be left out of the program fails the build: %s', async (source, sentence) => {
  const bundle = await rolldown({
    input: 'source.ts',
    plugins: [
      { name: 'source', resolveId: (id) => id, load: () => `declare const text: string\n${source}` },
      nothingLost,
    ],
  })
  const error = await bundle.generate().then(
    () => undefined,
    ({ message }: Error) => message,
  )
  await bundle.close()
  if (sentence === undefined) expect(error).toBeUndefined()
  else expect(error).toContain(sentence)
})

test('the text of the sidecar is ASCII, so that V8 keeps a byte for a character', () => {
  expect(codeOf().filter((text) => /\P{ASCII}/u.test(text)).length).toBe(0)
})

/** What each start of a sidecar loads. */
function loadedTexts(): readonly string[] {
  const dist = join(folder, 'dist')
  const reached = new Map<string, string>()
  const follow = (file: string): void => {
    if (reached.has(file)) return
    const text = readFileSync(join(dist, file), 'utf8')
    reached.set(file, text)
    for (const [, next] of text.matchAll(/^import (?:[^;]+ from )?"\.\/([^"]+)";/gm)) follow(next!)
  }
  for (const file of globSync('serve-*.js', { cwd: dist })) follow(file)
  return [...reached.values()]
}

test('no file of a start is large, because V8 parses a file as a whole, and what that took stays', () => {
  const sizes = loadedTexts().map((text) => text.length)
  expect(sizes.length).toBeGreaterThan(5)
  expect(Math.max(...sizes)).toBeLessThan(700_000)
})

test('what no part of a sidecar uses of its packages is not in it', () => {
  const text = codeOf().join('\n')
  const left = [
    'node_modules/ajv/',
    'node_modules/light-my-request/',
    'dispatcher/client-h2.js',
    'lib/pushgateway.js',
  ]
  expect(left.filter((name) => text.includes(name))).toEqual([])
  // Of Node itself, too: gRPC alone speaks HTTP/2, where it is used.
  expect(loadedTexts().join('\n')).not.toMatch(/__require\("(?:node:)?http2"\)/)
})

test('what only some sidecars use is loaded there alone', () => {
  const text = loadedTexts().join('\n')
  // The pool of connections to the application is there; a class of the database's, of gRPC's, of OpenTelemetry's and of jose's is not.
  const present = (names: readonly string[]) => names.filter((name) => text.includes(name))
  expect(
    present([
      'PoolBase',
      'pg_type',
      'Http2SubchannelConnector',
      'BatchSpanProcessor',
      'JWKSInvalid',
      'MockAgent',
    ]),
  ).toEqual(['PoolBase'])
})

test('the licence of every package in the sidecar is beside it', () => {
  const text = readFileSync(join(folder, 'dist/THIRD-PARTY-LICENSES.txt'), 'utf8')
  for (const name of ['fastify', 'redlock', 'ioredis', 'prom-client', '@opentelemetry/sdk-node', 'undici'])
    expect(text).toMatch(new RegExp(`^${name} v?\\d+\\.\\d+\\.\\d+.* \\([A-Za-z0-9. -]+\\)$`, 'm'))
  expect(text).not.toMatch(/^pg v?\d/m)
  expect(text).not.toContain('undefined')
})

test('every source map of the sidecar leads to its source', () => {
  const dist = join(folder, 'dist')
  const maps = globSync('*.js.map', { cwd: dist })
  expect(maps).toContain('main.js.map')
  const astray = maps.filter((file) => {
    const { sources } = JSON.parse(readFileSync(join(dist, file), 'utf8')) as { sources: string[] }
    return sources.some((source) => !existsSync(join(dist, dirname(file), source)))
  })
  expect(astray).toEqual([])
})

/** Node as the command sees it: only its version is another one. */
test.each([
  ['v22.18.9', 'needs Node 22.19.0 or newer, and this is v22.18.9'],
  ['v20.19.5', 'needs Node 22.19.0 or newer, and this is v20.19.5'],
  ['v14.21.3', 'needs Node 22.19.0 or newer, and this is v14.21.3'],
  ['v22.19.0', undefined],
  ['v24.0.0', undefined],
])('on Node %s the command says: %s', async (version, sentence) => {
  const preloaded = join(folder, `${version}.cjs`)
  writeFileSync(
    preloaded,
    `Object.defineProperty(process, 'version', { value: '${version}' })
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version.slice(1)}' } })`,
  )
  const command = join(folder, manifest.bin.fencepost)
  await using child = new TestProcess(process.execPath, ['--require', preloaded, command, '--version'])
  expect(await child.exited, child.output).toEqual({ code: sentence === undefined ? 0 : 1, signal: null })
  expect(child.output).toContain(sentence ?? manifest.version)
})

test.each(['.', 'packages/client', 'packages/saga'])(
  'the folder %s of sources is not packed',
  async (place) => {
    await using pack = new TestProcess('npm', ['pack', '--dry-run'], { cwd: join(root, place) })
    expect((await pack.exited).code).not.toBe(0)
    expect(pack.output).toContain('npm run release -- pack')
  },
)

describe('the packages, installed', () => {
  const packages = { client, saga: kit }
  /** Outside of the repository, so that no file of it is found. */
  const outside = realpathSync(mkdtempSync(join(tmpdir(), 'fencepost-packages-')))
  const empty = join(outside, 'empty')
  const doors = Object.values(packages).flatMap(({ name, exports }) =>
    Object.keys(exports).map((door) => name + door.slice(1)),
  )

  beforeAll(async () => {
    mkdirSync(empty)
    writeFileSync(join(empty, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }\n')
    // Their peers are the service's own to install: here those of the repository.
    const files = Object.values(tarballs)
    await done('npm', ['install', '--offline', '--no-audit', '--legacy-peer-deps', ...files], empty)
    for (const name of [...Object.keys(kit.peerDependencies), '@types/node', 'undici-types']) {
      const link = join(empty, 'node_modules', name)
      mkdirSync(dirname(link), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), link)
    }
  })
  afterAll(() => rmSync(outside, { recursive: true, force: true }))

  test('three packages are all that they bring, without any of another author', () => {
    expect(readdirSync(join(empty, 'node_modules/@fencepost')).sort()).toEqual(['client', 'saga'])
    const { packages: all } = JSON.parse(readFileSync(join(empty, 'package-lock.json'), 'utf8'))
    expect(Object.keys(all).sort()).toEqual([
      '',
      'node_modules/@fencepost/client',
      'node_modules/@fencepost/saga',
      'node_modules/fencepost',
    ])
  })

  test('npx starts the command of the sidecar, and it states its version', async () => {
    const said = await done('npx', ['--no', 'fencepost', '--', '--version'], empty)
    expect(said.trimEnd().split('\n').at(-1)).toBe(manifest.version)
  })

  test('npx starts the command of the saga kit', async () => {
    expect(await done('npx', ['--no', 'fencepost-saga', '--', '--help'], empty)).toContain(
      'dead-letters replay',
    )
  })

  test('a tarball holds compiled code, declarations, manifest, page and licence only', () => {
    for (const [name, { exports }] of Object.entries(packages)) {
      const place = join(empty, 'node_modules/@fencepost', name)
      const files = (readdirSync(place, { recursive: true }) as string[]).filter((file) =>
        statSync(join(place, file)).isFile(),
      )
      const others = files.filter((file) => !/\.(js|d\.ts)$/.test(file)).sort()
      expect(others).toEqual(['LICENSE', 'README.md', 'package.json'])
      const compiled = Object.values(exports).map((path) => path.replace(/^\.\/src\/(.*)\.ts$/, '$1.js'))
      expect(compiled.filter((file) => !files.includes(file))).toEqual([])
      const undeclared = files.filter(
        (file) => file.endsWith('.js') && !files.includes(file.replace(/js$/, 'd.ts')),
      )
      expect(undeclared).toEqual([])
    }
  })

  test('the kit brings the files of the core that it is built with, and no others', () => {
    const core = globSync('core/**/*.js', { cwd: join(empty, 'node_modules/@fencepost/saga') })
    expect(core.sort()).toEqual(['core/clock.js', 'core/operator/operator-tokens.js', 'core/retry.js'])
  })

  test('no file in it refers outside its package or to a source', () => {
    const faults = globSync('node_modules/@fencepost/*/**/*.{js,d.ts}', { cwd: empty }).filter((file) =>
      /from '(\.\.\/){2,}|sourceMappingURL/.test(readFileSync(join(empty, file), 'utf8')),
    )
    expect(faults).toEqual([])
  })

  test('every export can be imported', async () => {
    const program = doors.map(
      (door) =>
        `console.log(${JSON.stringify(door)}, Object.keys(await import(${JSON.stringify(door)})).length > 0)`,
    )
    const said = await done(process.execPath, ['--input-type=module', '-e', program.join('\n')], empty)
    expect(said.trim().split('\n')).toEqual(doors.map((door) => `${door} true`))
  })

  // Bug: with "module": "commonjs", where TypeScript reads no `exports` before its version 6, no type of the packages was found.
  test.each(['client', 'saga'] as const)('%s: its types are found in every way to resolve them', (name) => {
    expect(() => checkTypes(tarballs[name])).not.toThrow()
  })

  test('every export has its types', async () => {
    const lines = doors.map((door, index) => `import * as door${index} from '${door}'`)
    const program = [
      ...lines,
      `export const doors = [${doors.map((_, index) => `door${index}`).join(', ')}]`,
      `import { createClient, type Reservation } from '@fencepost/client'`,
      `import { createSagaKit, createQuorumLocks, type SagaKitOptions } from '@fencepost/saga'`,
      `export const held: Promise<Reservation> = createClient().reserve('a value')`,
      `export const locks = createQuorumLocks(createClient())`,
      `export const kit = (options: SagaKitOptions) => createSagaKit(options).partitions.toFixed()`,
      `// @ts-expect-error: it has types, and they are not any`,
      `export const wrong: number = createClient()`,
    ]
    writeFileSync(join(empty, 'program.ts'), program.join('\n'))
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node']
    const lib = ['--lib', 'es2024,esnext.disposable', '--skipLibCheck', 'false']
    const tsc = join(root, 'node_modules/.bin/tsc')
    // One checker: each of several would read the declarations of the libraries again.
    const files = ['--checkers', '1', '--listFiles', 'program.ts']
    await using check = new TestProcess(tsc, [...options, ...lib, ...files], { cwd: empty })
    await check.exited
    expect(check.output).toContain(join(empty, 'node_modules/@fencepost/saga/core/retry.d.ts'))
    // What brokers' own declarations lack is not ours.
    expect(check.output.match(/^(program\.ts|node_modules\/@fencepost).*error.*$/gm) ?? []).toEqual([])
  })
})
