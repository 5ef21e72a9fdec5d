/**
 * What the dry run does where a script of release.yml starts a program. A command that is not here stops it: a step may be left, but
 * not without a reason.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fetchProgram } from '../../test/support/fetched-programs.ts'
import { COSIGN_COMMANDS } from './cosign.ts'
import { compareBuilds, DOCKER_COMMANDS } from './docker.ts'
import { linkPackages } from './linked-packages.ts'
import {
  artifactIn,
  type Call,
  done,
  left,
  notCalled,
  type Reply,
  type Row,
  real,
  replied,
  type Stage,
} from './stage.ts'

export type Command = (stage: Stage, call: Call) => Promise<Reply>

/** Of every machine, and harmless: the steps start them as they are. */
export const PLAIN_PROGRAMS = ['git', 'grep', 'mkdir', 'mv', 'rm', 'sed', 'tar'] as const

/** By how the command begins; where several fit, the longest holds. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  'npm ci': async (_, { cwd }) =>
    notCalled(
      `nothing is downloaded: ${linkPackages(cwd)} packages of package-lock.json are installed, and linked`,
    ),
  'npm run release -- audit': async () => notCalled('asks the npm registry which vulnerabilities are known'),
  'npm run --silent release -- version': (stage, call) =>
    said(stage, call, ({ stdout }) => [done(`says ${stdout.trim()}`)]),
  'npm run --silent release -- version --notes': (stage, call) =>
    said(stage, call, ({ stdout }) => [
      done(`every place has the version, and the changelog is dated: ${linesOf(stdout)} lines of notes`),
    ]),
  'npm run release -- pack': packTwice,
  'npm run release -- charts': (stage, call) =>
    said(stage, call, ({ stdout }) => filesIn(stdout).map((file) => done(describeFile(file)))),
  'npm run release -- newcomer': async () =>
    notCalled("takes TypeScript and the saga kit's peers from the npm registry"),
  'npm run release -- newcomer chart': (stage, call) =>
    said(stage, call, ({ stdout }) => stdout.match(/^chart: .*$/gm)?.map((line) => done(line)) ?? []),
  'npm run --silent generate -- sbom': (stage, call) =>
    said(stage, call, ({ stdout }) => [done(`${JSON.parse(stdout).components.length} packages`)]),
  'npm publish': publishDry,
  'npx --yes fencepost@': playFirstUse,
  'node scripts/image-layout.ts first second': compareBuilds,
  'node scripts/version.ts --notes': (stage, call) =>
    said(stage, call, ({ stdout }) => [done(`${linesOf(stdout)} lines of notes`)]),
  'sha256sum --': (stage, call) => said(stage, call, ({ stdout }) => [done(`of ${linesOf(stdout)} files`)]),
  'sha256sum --check': (stage, call) =>
    said(stage, call, ({ stdout }) => [done(`${linesOf(stdout)} files are as the list says`)]),
  'sudo sh scripts/install-servers.sh': async () =>
    notCalled('installs what `npm test` installs, and what runs already here'),
  'helm registry login': async () => notCalled('the registry on loopback asks for no login'),
  'helm push': pushChart,
  'gh release create': async (_, call) => notCalled(pageOf(call)),
  ...DOCKER_COMMANDS,
  ...COSIGN_COMMANDS,
}

/** @returns undefined where the dry run does not know the command */
export function commandFor(text: string): Command | undefined {
  const [begin] = Object.keys(COMMANDS)
    .filter(
      (known) => text.startsWith(known) && (known.endsWith('@') || /^\W|^$/.test(text.slice(known.length))),
    )
    .sort((one, other) => other.length - one.length)
  return begin === undefined ? undefined : COMMANDS[begin]
}

/** Of the programs that have a stand-in on the PATH. */
export function standIns(): readonly string[] {
  return [...new Set(Object.keys(COMMANDS).map((command) => command.split(' ')[0] as string))]
}

async function said(stage: Stage, call: Call, rows: (ended: Reply) => readonly Row[]): Promise<Reply> {
  const ended = await real(stage, call)
  return replied(ended, () => rows({ ...ended, rows: [] }))
}

/** @throws where the second time other bytes come out */
async function packTwice(stage: Stage, call: Call): Promise<Reply> {
  const first = await real(stage, call)
  if (first.code !== 0) return { ...first, rows: [] }
  const again = join(stage.folder, 'packed-again')
  const second = await real(stage, call, 'npm', [...call.args, again])
  if (second.code !== 0) return { ...second, rows: [] }
  const tarballs = filesIn(first.stdout)
  const changed = tarballs.filter(
    (file) => !readFileSync(file).equals(readFileSync(join(again, 'tarballs', basename(file)))),
  )
  if (changed.length > 0)
    throw new Error(
      `packed twice, these have other bytes: ${changed.map((file) => basename(file)).join(', ')}`,
    )
  return replied(first, () => [
    ...tarballs.map((file) => done(describeFile(file))),
    done('publint and attw find nothing; packed again, every tarball has the same bytes'),
  ])
}

/** npm does all but the upload, which also signs the provenance. */
async function publishDry(stage: Stage, call: Call): Promise<Reply> {
  const isRehearsal = call.args.includes('--dry-run')
  const ended = await real(stage, call, 'npm', [
    ...call.args,
    '--json',
    ...(isRehearsal ? [] : ['--dry-run']),
  ])
  if (!isRehearsal) expectNoneLater(stage, call)
  return replied(ended, ({ stdout }) => {
    const [{ id, size, files, integrity }] = Object.values(JSON.parse(stdout)) as [Published]
    if (!isRehearsal) stage.published.add(id)
    const tag = call.args[call.args.indexOf('--tag') + 1]
    const under = call.args.includes('--tag') ? `, under the tag ${tag}` : ''
    const packed = done(
      `npm takes ${id}${under}: ${files.length} files, ${size} bytes, ${integrity.slice(0, 19)}…`,
    )
    return isRehearsal
      ? [packed]
      : [packed, left('the upload and its provenance need the registry and the identity of the workflow')]
  })
}
/** @throws where it depends on a package of ours that the registry does not have yet: whoever installs it meanwhile gets an error */
function expectNoneLater({ published }: Stage, { args, cwd }: Call): void {
  const tarball = args.at(-1) ?? ''
  const text = execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { cwd, encoding: 'utf8' })
  const { name, dependencies = {} } = JSON.parse(text) as {
    readonly name: string
    readonly dependencies?: Readonly<Record<string, string>>
  }
  const later = Object.entries(dependencies)
    .map(([needed, version]) => `${needed}@${version}`)
    .filter((needed) => needed.startsWith('@fencepost/') && !published.has(needed))
  if (later.length > 0) throw new Error(`publish ${later.join(', ')} before ${name}, which depends on it`)
}

type Published = {
  readonly id: string
  readonly size: number
  readonly files: readonly unknown[]
  readonly integrity: string
}

/** From the tarball that would be published: the registry does not have it yet. */
async function playFirstUse(stage: Stage, call: Call): Promise<Reply> {
  const place = join(stage.folder, 'first-use')
  mkdirSync(place, { recursive: true })
  const tarball = join(artifactIn(stage, 'release'), `fencepost-${stage.version}.tgz`)
  const at = { ...call, cwd: place }
  const installed = await real(stage, at, 'npm', [
    'install',
    '--silent',
    '--no-audit',
    '--prefix',
    place,
    tarball,
  ])
  if (installed.code !== 0) return { ...installed, rows: [] }
  const rest = call.args.filter((one) => !one.startsWith('-') || one === '--version').slice(1)
  const ended = await real(stage, at, 'npx', ['--no', 'fencepost', '--', ...rest])
  return replied(ended, ({ stdout }) => [
    done(`installed from the tarball, it says ${stdout.trim()}`),
    left('to take it from the npm registry, which has it once it is published'),
  ])
}

/** The workflow reads the digest in what helm says. */
async function pushChart(stage: Stage, call: Call): Promise<Reply> {
  const [subcommand = '', ...rest] = call.args
  const ended = await real(stage, call, await fetchProgram('helm'), [subcommand, '--plain-http', ...rest])
  return replied(ended, ({ stdout, stderr }) => [
    done(
      (stdout + stderr)
        .replaceAll(/^(Pushed|Digest): /gm, '')
        .trim()
        .replace('\n', ', '),
    ),
  ])
}

/** @throws where a file of the page is missing that its reader is told to check by */
function pageOf({ args, cwd }: Call): string {
  const files = args.filter((one) => one.startsWith('release/'))
  for (const file of ['release/SHA256SUMS', 'release/SHA256SUMS.sigstore.json', 'notes.md'])
    if (!existsSync(join(cwd, file)) || !args.includes(file))
      throw new Error(`the page of the release would be without ${file}`)
  return `a page at GitHub; it would have the notes and ${files.length} files`
}

function filesIn(stdout: string): readonly string[] {
  return stdout.split('\n').filter((line) => /^\/.*\.tgz$/.test(line))
}

function describeFile(file: string): string {
  const bytes = readFileSync(file)
  return `${basename(file)}: ${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}`
}

function linesOf(text: string): number {
  return text.trim().split('\n').length
}
