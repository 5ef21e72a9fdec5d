/**
 * `npm run release -- newcomer`: installs each package from its tarball into an empty folder, as somebody would who has nothing else,
 * and lets it do its main job, on the oldest Node of its `engines` and on the newest.
 *
 * Owns the claim that the packages work outside of this repository. A strict TypeScript project is checked as NodeNext and as
 * a bundler does, and the client is required from CommonJS. The saga kit's peers come from the registry, as they would.
 *
 * With `chart` it takes the charts from a registry (newcomer-charts.ts).
 *
 * Usage: npm run release -- newcomer [client|saga|fencepost|chart …]; without a name the packages
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cached, run } from '../test/support/fetched-programs.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { TestProcess } from '../test/support/processes.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { playChartAlone } from './newcomer-charts.ts'
import { PACKAGES, type PackageName, packAll } from './pack.ts'

const root = join(import.meta.dirname, '..')
const execute = promisify(execFile)
/** Has no top-level `await` for a program without a flag, and knows no `using`: main.js is a SyntaxError there. */
const TOO_OLD = '14.21.3'

type Stage = {
  readonly folder: string
  readonly tarballs: Readonly<Record<PackageName, string>>
  readonly say: (line: string) => void
}

async function client({ tarballs, folder, say }: Stage): Promise<void> {
  const sidecar = project(folder, 'sidecar-of-client', 'module')
  await npm(sidecar, ['install', '--offline', tarballs.fencepost])
  await using served = await startSidecar(
    { FENCEPOST_REDIS_NODES: 'embedded' },
    { main: join(sidecar, 'node_modules/fencepost/dist/main.js') },
  )
  const place = project(folder, 'client', 'module')
  await npm(place, ['install', '--offline', tarballs.client])
  expectEqual('packages that it brings', installed(place), ['@fencepost/client'])
  cpSync(join(root, 'test/newcomer/client.ts'), join(place, 'program.ts'))
  await typesOf(place, [
    '--module',
    'preserve',
    '--moduleResolution',
    'bundler',
    '--noEmit',
    '--lib',
    'es2022,dom',
  ])
  await typesOf(place, ['--module', 'nodenext', '--lib', 'es2022,dom'])
  writeFileSync(
    join(place, 'required.cjs'),
    "console.log(typeof require('@fencepost/client').createClient().once)",
  )
  for (const [index, version] of (await versionsOf('packages/client')).entries()) {
    const node = await nodeOf(version)
    // Each Node its own sidecar would cost a start: another key is enough.
    const env = { FENCEPOST_URL: served.api }
    const said = await ran(node, ['program.js'], place, env)
    expectEqual('its work', said, [
      index === 0 ? 'now 1200' : 'before 1200',
      'before 1200',
      'function function',
    ])
    expectEqual('required', await ran(node, ['required.cjs'], place, {}), ['function'])
    say(`client: one package, types for bundlers and NodeNext, import and require, on Node ${version}`)
  }
}

async function saga({ tarballs, folder, say }: Stage): Promise<void> {
  await using database = await startPostgres()
  const place = project(folder, 'saga', 'module')
  await npm(place, ['install', tarballs.client, tarballs.saga, 'pg', '@types/pg', '@types/node'])
  cpSync(join(root, 'test/newcomer/saga.ts'), join(place, 'program.ts'))
  const lib = ['--lib', 'es2024,esnext.disposable', '--types', 'node']
  await typesOf(place, ['--module', 'nodenext', '--skipLibCheck', ...lib])
  for (const version of await versionsOf('packages/saga')) {
    const env = { DATABASE_URL: database.url }
    expectEqual('its work', await ran(await nodeOf(version), ['program.js'], place, env), ['now', 'before'])
    say(`saga: migrated and placed an order once, on Node ${version}`)
  }
}

async function sidecar({ tarballs, folder, say }: Stage): Promise<void> {
  const place = project(folder, 'sidecar', 'commonjs')
  await npm(place, ['install', '--offline', tarballs.fencepost])
  expectEqual('packages that it brings', installed(place), ['fencepost'])
  const { version: own } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  for (const version of await versionsOf('.')) {
    const node = await nodeOf(version)
    const npx = async (...args: readonly string[]) =>
      (await commandIn(place, node, 'npx', ['--no', 'fencepost', '--', ...args])).trimEnd().split('\n').at(-1)
    expectEqual('its version', await npx('--version'), own)
    // Without a Redis on the PATH of whoever tries it first.
    expectEqual('its demonstration', await npx('demo'), '50 of 50 payments carried out once')
    say(`fencepost: npx fencepost --version and demo, on Node ${version}`)
  }
  const command = join(place, 'node_modules/fencepost/dist/fencepost.cjs')
  await using refused = new TestProcess(await nodeOf(TOO_OLD), [command, '--version'])
  expectEqual('its exit code on an old Node', (await refused.exited).code, 1)
  expectEqual('lines on an old Node', refused.output.trim().split('\n').length, 1)
  say(`fencepost: Node ${TOO_OLD} is answered: ${refused.output.trim()}`)
}

/** An empty folder with the manifest that `npm init` writes. */
function project(folder: string, name: string, type: string): string {
  const place = join(folder, name)
  mkdirSync(place)
  writeFileSync(
    join(place, 'package.json'),
    JSON.stringify({ name: `newcomer-${name}`, private: true, type }),
  )
  return place
}

function npm(cwd: string, args: readonly string[]): Promise<unknown> {
  return execute('npm', [...args, '--no-audit', '--no-fund', '--silent'], { cwd })
}

function installed(place: string): readonly string[] {
  const lock = JSON.parse(readFileSync(join(place, 'package-lock.json'), 'utf8')) as { packages: object }
  return Object.keys(lock.packages).flatMap((path) =>
    path === '' ? [] : [path.replace('node_modules/', '')],
  )
}

async function typesOf(place: string, options: readonly string[]): Promise<void> {
  const strict = [
    '--strict',
    '--exactOptionalPropertyTypes',
    '--noUncheckedIndexedAccess',
    '--target',
    'es2022',
  ]
  await execute(join(root, 'node_modules/.bin/tsc'), [...strict, ...options, 'program.ts'], {
    cwd: place,
  }).catch(({ stdout }: { stdout: string }) => {
    throw new Error(`tsc ${options.join(' ')} in ${place}:\n${stdout}`)
  })
}

/** The oldest Node of `engines`, and the one that the repository runs on. */
async function versionsOf(folder: string): Promise<readonly [string, string]> {
  const read = (path: string) => JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'))
  const oldest = /\d+\.\d+\.\d+/.exec(read(folder).engines.node)?.[0] ?? ''
  return [oldest, read('.').devDependencies.node]
}

/** From the npm package `node`, into the cache. */
function nodeOf(version: string): Promise<string> {
  return cached(`node-${version}`, 'node_modules/node/bin/node', async (beside) => {
    writeFileSync(join(beside, 'package.json'), '{ "private": true, "allowScripts": { "node": true } }')
    await run(`Node ${version}`, 'npm', ['install', '--no-audit', '--silent', `node@${version}`], {}, beside)
  })
}

async function ran(
  node: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  await using child = new TestProcess(node, args, { cwd, env })
  const { code } = await child.exited
  if (code !== 0) throw new Error(`${node} ${args.join(' ')} ended with ${code}:\n${child.output}`)
  return child.output.trim().split('\n')
}

/** With one Node first on the PATH, and so for npm itself. */
async function commandIn(
  cwd: string,
  node: string,
  command: string,
  args: readonly string[],
): Promise<string> {
  const path = [dirname(node), process.env.PATH].join(delimiter)
  const { stdout } = await execute(command, [...args], { cwd, env: { ...process.env, PATH: path } })
  return stdout
}

function expectEqual(what: string, found: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(found), JSON.stringify(expected)]
  if (left !== right) throw new Error(`${what}: expected ${right}, found ${left}`)
}

const OF_PACKAGES = { client, saga, fencepost: sidecar } as const
const OF_REGISTRY = { chart: playChartAlone } as const
type Job = keyof typeof OF_PACKAGES | keyof typeof OF_REGISTRY
const JOBS: readonly Job[] = [...PACKAGES, 'chart']

/** @throws at the first thing that does not work */
export async function playNewcomer(names: readonly Job[], say: (line: string) => void): Promise<void> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'fencepost-newcomer-')))
  try {
    const packages = names.filter((name) => name in OF_PACKAGES) as PackageName[]
    if (packages.length > 0) {
      const tarballs = await packAll(join(folder, 'dist'), { checked: true })
      say('tarballs: publint and attw find nothing')
      for (const name of packages) await OF_PACKAGES[name]({ folder, tarballs, say })
    }
    if (names.includes('chart')) await OF_REGISTRY.chart(folder, say)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const given = process.argv.slice(2)
  const unknown = given.find((name) => !(JOBS as readonly string[]).includes(name))
  if (unknown === undefined) await playNewcomer(given.length === 0 ? PACKAGES : (given as Job[]), console.log)
  else {
    console.error(`${unknown} is not released; what is: ${JOBS.join(', ')}`)
    process.exitCode = 2
  }
}
