/**
 * What the steps of a dry run work on: a folder that is gone at the end, what would be released in a clone with its tag, a registry on
 * loopback, a key. And how a step calls a real program: without a way to npm's registry, and without the user's credentials.
 */
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Buildah } from '../../test/support/buildah.ts'
import { startImageRegistry } from '../../test/support/image-registry.ts'
import { type Commit, commitOf } from '../image.ts'
import { currentVersion } from '../version.ts'
import { linkPackages } from './linked-packages.ts'

const root = join(import.meta.dirname, '../..')

/** What the report says of one command or action. */
export type Row = { readonly outcome: 'done' | 'left'; readonly said: string }
export const done = (said: string): Row => ({ outcome: 'done', said })
export const left = (said: string): Row => ({ outcome: 'left', said })

/** A program that a script of the workflow started. */
export type Call = {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}
/** A step that uses an action. */
export type ActionCall = {
  /** The empty folder that the job began in. */
  readonly workspace: string
  readonly id: string | undefined
  readonly commit: string
  readonly inputs: Readonly<Record<string, string>>
}

export type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string }
export type Reply = Ended & { readonly rows: readonly Row[] }

export type Build = { readonly buildah: Buildah; readonly name: string; readonly digest: string }

/** What takes minutes, and is left where it is not asked for. */
export type Wanted = {
  /** The image is built a second time, to be the same. */
  readonly twice: boolean
  /** It is built for arm64, too. */
  readonly arm64: boolean
}

export type Stage = AsyncDisposable &
  Wanted & {
    readonly folder: string
    readonly version: string
    readonly tag: string
    /** A clone of this repository with the tag of the release. */
    readonly source: string
    readonly commit: Commit
    /** How many files of it are not committed in this folder. */
    readonly uncommitted: number
    /** Of the registry: `127.0.0.1:…`. */
    readonly host: string
    /** The outputs of steps, from `steps.build.outputs.digest`. */
    readonly outputs: Map<string, string>
    /** By the file that the workflow writes each to. */
    readonly builds: Map<string, Build>
    /** What npm was offered: `NAME@VERSION`. */
    readonly published: Set<string>
    /** Is ended with the stage, before the folder is removed. */
    readonly keep: <T extends AsyncDisposable>(resource: T) => T
  }

export async function openStage(wanted: Wanted = { twice: false, arm64: false }): Promise<Stage> {
  await using resources = new AsyncDisposableStack()
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'fencepost-dry-run-')))
  resources.defer(() => rmSync(folder, { recursive: true, force: true }))
  const { host } = resources.use(await startImageRegistry())
  const version = currentVersion()
  const uncommitted = uncommittedFiles()
  const source = taggedClone(folder, version, uncommitted)
  const kept = resources.move()
  return {
    ...{ folder, version, tag: `v${version}`, source, host, ...wanted },
    commit: commitOf(source),
    uncommitted: uncommitted.length,
    outputs: new Map(),
    builds: new Map(),
    published: new Set(),
    keep: (resource) => kept.use(resource),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** As this folder stands; prepared and tagged as CONTRIBUTING.md says, where the changelog is not dated yet. */
function taggedClone(folder: string, version: string, uncommitted: readonly string[]): string {
  const source = join(folder, 'source')
  git(root, 'clone', '--quiet', root, source)
  for (const file of uncommitted) {
    rmSync(join(source, file), { force: true })
    if (existsSync(join(root, file))) cpSync(join(root, file), join(source, file), { verbatimSymlinks: true })
  }
  linkPackages(source)
  execFileSync(process.execPath, ['scripts/version.ts', version], {
    cwd: source,
    env: offline(process.env),
    stdio: 'pipe',
  })
  const author = [
    'user.name=dry run',
    'user.email=dry-run@localhost',
    'commit.gpgSign=false',
    'tag.gpgSign=false',
  ]
  const own = (...args: readonly string[]) => git(source, ...author.flatMap((one) => ['-c', one]), ...args)
  git(source, 'add', '--all')
  if (git(source, 'status', '--porcelain') !== '')
    own('commit', '--quiet', '--no-verify', '--message', `release: ${version}`)
  own('tag', '--force', `v${version}`)
  return source
}

function uncommittedFiles(): readonly string[] {
  const lists = [
    ['diff', '--name-only', '-z', 'HEAD'],
    ['ls-files', '--others', '--exclude-standard', '-z'],
  ]
  return lists.flatMap((args) => git(root, ...args).split('\0')).filter(Boolean)
}

export function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
}

/** What `npm run` says of this repository would lead npm astray in another folder. */
const OF_NPM_RUN = /^(npm_(package|lifecycle|command|execpath|node_execpath|config_local_prefix)|INIT_CWD)/

function offline(env: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> {
  const others = Object.entries(env).filter(([name]) => !OF_NPM_RUN.test(name))
  return { ...Object.fromEntries(others), npm_config_offline: 'true', npm_config_update_notifier: 'false' }
}

/** Runs the real program where the step started it, with its environment; the stand-ins are off its PATH. */
export function real(
  stage: Pick<Stage, 'folder'>,
  call: Call,
  command = call.program,
  args = call.args,
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const own = join(stage.folder, 'credentials')
  mkdirSync(own, { recursive: true })
  const credentials = {
    DOCKER_CONFIG: own,
    HELM_REGISTRY_CONFIG: join(own, 'helm.json'),
    NPM_CONFIG_USERCONFIG: join(own, 'npmrc'),
  }
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      {
        cwd: call.cwd,
        encoding: 'utf8',
        maxBuffer: 64 * 1024 * 1024,
        env: { ...offline(call.env), PATH: process.env.PATH, ...credentials, ...env },
      },
      (error, stdout, stderr) => {
        if (error !== null && typeof error.code !== 'number')
          reject(new Error(`${command} could not be run: ${error.message}`))
        else resolve({ code: (error?.code as number | undefined) ?? 0, stdout, stderr })
      },
    )
  })
}

/** A reply with rows where the program ended well; where not, the step fails with what the program said. */
export function replied(ended: Ended, rows: (ended: Ended) => readonly Row[]): Reply {
  return { ...ended, rows: ended.code === 0 ? rows(ended) : [] }
}

/** Of what is not called. No step reads what it would have said. */
export function notCalled(reason: string): Reply {
  return { code: 0, stdout: '', stderr: '', rows: [left(reason)] }
}

/** Where the dry run keeps what a step uploads. */
export function artifactIn({ folder }: Pick<Stage, 'folder'>, name: string): string {
  return join(folder, 'artifacts', name)
}
