/**
 * `npm run release -- newcomer`: installs each package from its tarball into an empty folder, as somebody would who has nothing else,
 * and lets it do its main job, on the oldest Node of its `engines` and on the newest.
 *
 * Owns the claim that the packages work outside of this repository: every command runs where the repository is hidden
 * (hidden-checkout.ts). A strict TypeScript project is checked as NodeNext and as a bundler does, and the client is required from CommonJS.
 * The saga kit's peers and the compiler come from the registry, as they would.
 *
 * With `chart` it takes the charts from a registry (newcomer-charts.ts), with `image` the image (newcomer-image.ts).
 *
 * Usage: npm run release -- newcomer [client|saga|fencepost|chart|image …]; without a name the packages
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cached, run } from '../test/support/fetched-programs.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { TestProcess } from '../test/support/processes.ts'
import { type Hiding, hideCheckout } from './hidden-checkout.ts'
import { playChartAlone } from './newcomer-charts.ts'
import { playImageAlone } from './newcomer-image.ts'
import { addressesOf, FIRST_LOOK, reserveTwice } from './newcomer-sidecar.ts'
import { PACKAGES, type PackageName, packAll } from './pack.ts'

const root = join(import.meta.dirname, '..')
const execute = promisify(execFile)
/** Has no top-level `await` for a program without a flag, and knows no `using`: main.js is a SyntaxError there. */
const TOO_OLD = '14.21.3'
/** What npm links as the command. */
const BIN = 'node_modules/fencepost/dist/fencepost.cjs'

type Stage = {
  readonly folder: string
  readonly tarballs: Readonly<Record<PackageName, string>>
  /** The compiler of TypeScript. */
  readonly tsc: string
  readonly hiding: Hiding
  readonly say: (line: string) => void
}

async function client(stage: Stage): Promise<void> {
  const { tarballs, folder, say } = stage
  const installedIn = project(folder, 'sidecar-of-client', 'module')
  await npm(stage, installedIn, ['install', '--offline', tarballs.fencepost])
  await using served = start(stage, await newestNode(), installedIn, [BIN, 'serve'])
  const { api } = await addressesOf(served)
  const place = project(folder, 'client', 'module')
  await npm(stage, place, ['install', '--offline', tarballs.client])
  expectEqual('packages that it brings', installed(place), ['@fencepost/client'])
  cpSync(join(root, 'test/newcomer/client.ts'), join(place, 'program.ts'))
  await typesOf(stage, place, [
    '--module',
    'preserve',
    '--moduleResolution',
    'bundler',
    '--noEmit',
    // Bug: the declarations named a type of ES2022, and a project with an older library did not compile.
    '--lib',
    'es2020,dom',
  ])
  await typesOf(stage, place, ['--module', 'nodenext', '--lib', 'es2022,dom'])
  writeFileSync(
    join(place, 'required.cjs'),
    "console.log(typeof require('@fencepost/client').createClient().once)",
  )
  for (const [index, version] of (await versionsOf('packages/client')).entries()) {
    const node = await nodeOf(version)
    // Each Node its own sidecar would cost a start: another key is enough.
    const said = await ran(stage, node, ['program.js'], place, { FENCEPOST_URL: api })
    expectEqual('its work', said, [
      index === 0 ? 'now 1200' : 'before 1200',
      'before 1200',
      'function function',
    ])
    expectEqual('required', await ran(stage, node, ['required.cjs'], place), ['function'])
    say(`client: one package, types for bundlers and NodeNext, import and require, on Node ${version}`)
  }
}

async function saga(stage: Stage): Promise<void> {
  const { tarballs, folder, say } = stage
  await using database = await startPostgres()
  const place = project(folder, 'saga', 'module')
  await npm(stage, place, ['install', tarballs.client, tarballs.saga, 'pg', '@types/pg', '@types/node'])
  cpSync(join(root, 'test/newcomer/saga.ts'), join(place, 'program.ts'))
  const lib = ['--lib', 'es2024,esnext.disposable', '--types', 'node']
  await typesOf(stage, place, ['--module', 'nodenext', '--skipLibCheck', ...lib])
  for (const version of await versionsOf('packages/saga')) {
    const env = { DATABASE_URL: database.url }
    const said = await ran(stage, await nodeOf(version), ['program.js'], place, env)
    expectEqual('its work', said, ['now', 'before'])
    say(`saga: migrated and placed an order once, on Node ${version}`)
  }
}

async function sidecar(stage: Stage): Promise<void> {
  const { tarballs, folder, say } = stage
  const place = project(folder, 'sidecar', 'commonjs')
  await npm(stage, place, ['install', '--offline', tarballs.fencepost])
  expectEqual('packages that it brings', installed(place), ['fencepost'])
  const { version: own } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  for (const version of await versionsOf('.')) {
    const node = await nodeOf(version)
    const npx = async (...args: readonly string[]) =>
      (await commandIn(stage, place, node, ['npx', '--no', 'fencepost', '--', ...args]))
        .trimEnd()
        .split('\n')
        .at(-1)
    expectEqual('its version', await npx('--version'), own)
    // Without a Redis on the PATH of whoever tries it first.
    expectEqual('its demonstration', await npx('demo'), '50 of 50 payments carried out once')
    await using served = start(stage, node, place, [BIN, 'serve'])
    await reserveTwice(await addressesOf(served))
    expectEqual('its end', await served.end(), { code: 0, signal: null })
    say(
      `fencepost: npx fencepost --version and demo, and a reservation that is made once, on Node ${version}`,
    )
  }
  await using refused = start(stage, await nodeOf(TOO_OLD), place, [BIN, '--version'])
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

async function npm(stage: Pick<Stage, 'hiding'>, cwd: string, args: readonly string[]): Promise<void> {
  const quietly = ['--no-audit', '--no-fund', '--silent']
  await commandIn(stage, cwd, await newestNode(), ['npm', ...args, ...quietly])
}

function installed(place: string): readonly string[] {
  const lock = JSON.parse(readFileSync(join(place, 'package-lock.json'), 'utf8')) as { packages: object }
  return Object.keys(lock.packages).flatMap((path) =>
    path === '' ? [] : [path.replace('node_modules/', '')],
  )
}

async function typesOf(stage: Stage, place: string, options: readonly string[]): Promise<void> {
  const strict = [
    '--strict',
    '--exactOptionalPropertyTypes',
    '--noUncheckedIndexedAccess',
    '--target',
    'es2022',
  ]
  const command = [stage.tsc, ...strict, ...options, 'program.ts'] as const
  await commandIn(stage, place, await newestNode(), command).catch(({ stdout }: { stdout: string }) => {
    throw new Error(`tsc ${options.join(' ')} in ${place}:\n${stdout}`)
  })
}

const manifestOf = (folder: string) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))

/** The oldest Node of `engines`, and the one that the repository runs on. */
async function versionsOf(folder: string): Promise<readonly [string, string]> {
  const oldest = /\d+\.\d+\.\d+/.exec(manifestOf(folder).engines.node)?.[0] ?? ''
  return [oldest, manifestOf('.').devDependencies.node]
}

const newestNode = (): Promise<string> => nodeOf(manifestOf('.').devDependencies.node)

/** Of the version that the repository is checked with. */
async function compiler(stage: Omit<Stage, 'tsc'>): Promise<string> {
  const tools = project(stage.folder, 'tools', 'module')
  const wanted = `typescript@${manifestOf('.').devDependencies.typescript}`
  await npm(stage, tools, ['install', '--prefer-offline', wanted])
  return join(tools, 'node_modules/.bin/tsc')
}

/** From the npm package `node`, into the cache. */
function nodeOf(version: string): Promise<string> {
  return cached(`node-${version}`, 'node_modules/node/bin/node', async (beside) => {
    writeFileSync(join(beside, 'package.json'), '{ "private": true, "allowScripts": { "node": true } }')
    await run(`Node ${version}`, 'npm', ['install', '--no-audit', '--silent', `node@${version}`], {}, beside)
  })
}

function start(
  { hiding }: Pick<Stage, 'hiding'>,
  node: string,
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = FIRST_LOOK,
): TestProcess {
  const [command, ...rest] = hiding.without(node, args)
  return new TestProcess(command, rest, { name: args.join(' '), cwd, env })
}

async function ran(
  stage: Stage,
  node: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<readonly string[]> {
  await using child = start(stage, node, cwd, args, env)
  const { code } = await child.exited
  if (code !== 0) throw new Error(`${node} ${args.join(' ')} ended with ${code}:\n${child.output}`)
  return child.output.trim().split('\n')
}

/** With one Node first on the PATH, and so for npm itself, and nothing that `npm run` says of this repository. */
async function commandIn(
  { hiding }: Pick<Stage, 'hiding'>,
  cwd: string,
  node: string,
  [command, ...args]: readonly [string, ...string[]],
): Promise<string> {
  const others = Object.entries(process.env).filter(([name]) => !OF_NPM_RUN.test(name))
  const path = [dirname(node), process.env.PATH].join(delimiter)
  const [first, ...rest] = hiding.without(command, args)
  const { stdout } = await execute(first, rest, { cwd, env: { ...Object.fromEntries(others), PATH: path } })
  return stdout
}

const OF_NPM_RUN = /^(npm_(package|lifecycle|command|execpath|node_execpath|config_local_prefix)|INIT_CWD)/

function expectEqual(what: string, found: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(found), JSON.stringify(expected)]
  if (left !== right) throw new Error(`${what}: expected ${right}, found ${left}`)
}

const OF_PACKAGES = { client, saga, fencepost: sidecar } as const
type Job = keyof typeof OF_PACKAGES | 'chart' | 'image'
const JOBS: readonly Job[] = [...PACKAGES, 'chart', 'image']

/** @throws at the first thing that does not work */
export async function playNewcomer(names: readonly Job[], say: (line: string) => void): Promise<void> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'fencepost-newcomer-')))
  const hiding = hideCheckout()
  say(hiding.sentence)
  try {
    const packages = names.filter((name) => name in OF_PACKAGES) as PackageName[]
    if (packages.length > 0) {
      const tarballs = await packAll(join(folder, 'dist'), { checked: true })
      say('tarballs: publint and attw find nothing')
      await playPackages({ folder, tarballs, hiding, say }, packages)
    }
    if (names.includes('chart')) await playChartAlone(folder, hiding, say)
    if (names.includes('image')) await playImageAlone(folder, say)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** From tarballs that are there. @throws at the first thing that does not work */
async function playPackages(stage: Omit<Stage, 'tsc'>, names: readonly PackageName[]): Promise<void> {
  const tsc = await compiler(stage)
  for (const name of names) await OF_PACKAGES[name]({ ...stage, tsc })
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
