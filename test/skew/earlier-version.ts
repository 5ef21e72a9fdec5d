/**
 * The version that this tree has to work beside: which one it is, and a build of it in the cache.
 *
 * It is the newest release that this tree descends from. Until 0.1.0 is tagged there is none, and {@link BEFORE_0_1_0} stands for it.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as Client from '@fencepost/client'
import type * as Saga from '@fencepost/saga'
import type * as Mailbox from '@fencepost/saga/mailbox'
import { cached, run } from '../support/fetched-programs.ts'

const root = join(import.meta.dirname, '../..')

/**
 * 22 November 2026: the last build before records got the mark of a kept claim, reservation ids the attempt of each intent, JSON one
 * fingerprint for its two spellings, and the saga kit its migrations 6 to 8. So every format that has changed yet changes between it and
 * this tree, and it has the listeners and calls that the comparison needs. Later builds would prove less; 30dd815, two days earlier, is no
 * fair one, because it accepts a cluster that was founded anew beside it (docs/operations/upgrading.md).
 */
export const BEFORE_0_1_0 = '398e7827ff8d87b8040add970d4b9f11667168b0'

type EarlierVersion = {
  /** A tag, or the beginning of a commit. */
  readonly name: string
  readonly commit: string
}

/**
 * The newest release among the ancestors of HEAD, HEAD itself left out.
 *
 * @param without what stands for it where nothing was released
 */
export function earlierVersion(repository = root, without = BEFORE_0_1_0): EarlierVersion {
  const own = git(repository, 'rev-parse', 'HEAD')
  const tags = git(repository, 'tag', '--merged', 'HEAD', '--sort=-version:refname', '--list', 'v*')
  // Candidates (v1.0.0-rc.1) are not what operators run.
  for (const name of tags.split('\n').filter((tag) => /^v\d+\.\d+\.\d+$/.test(tag))) {
    const commit = git(repository, 'rev-list', '-1', name)
    if (commit !== own) return { name, commit }
  }
  return { name: without.slice(0, 7), commit: without }
}

function git(repository: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: repository, encoding: 'utf8', stdio: 'pipe' }).trim()
}

export type EarlierBuild = EarlierVersion & {
  /** The main program of its sidecar. */
  readonly main: string
  readonly client: () => Promise<typeof Client>
  readonly saga: () => Promise<typeof Saga>
  readonly mailbox: () => Promise<typeof Mailbox>
}

/**
 * Built once, from its own sources with its own lock file.
 *
 * @throws Error that names the version, and says what is missing
 */
export async function earlierBuild(version = earlierVersion()): Promise<EarlierBuild> {
  const { name, commit } = version
  let main: string
  try {
    main = await cached(`fencepost-${commit.slice(0, 12)}`, 'dist/main.js', (folder) => build(commit, folder))
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(
      `the earlier version ${name} is not in the cache and could not be built, so nothing about it was checked. ` +
        `It needs the history of the repository (git fetch --unshallow --tags) and the npm registry, once. ${why}`,
      { cause },
    )
  }
  const dist = dirname(main)
  // Until 398e782 the three packages were one.
  const packages = existsSync(join(dist, 'packages'))
  const load = (before: string, since: string) =>
    import(pathToFileURL(join(dist, packages ? since : before)).href)
  return {
    ...version,
    main,
    client: () => load('client/client.js', 'packages/client/client.js'),
    saga: () => load('saga.js', 'packages/saga/saga.js'),
    mailbox: () => load('saga/brokers/mailbox.js', 'packages/saga/brokers/mailbox.js'),
  }
}

/** @param folder empty */
async function build(commit: string, folder: string): Promise<void> {
  const what = `fencepost ${commit.slice(0, 7)}`
  const archive = join(folder, 'sources.tar')
  await run(what, 'git', ['archive', '--output', archive, commit], {}, root)
  await run(what, 'tar', ['--extract', '--file', archive], {}, folder)
  await rm(archive)
  const npm = npmCommand()
  // No install scripts: they fetch a Node, and this process has one.
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  await run(what, npm[0]!, [...npm.slice(1), 'ci', '--include=dev', ...options], {}, folder)
  const path = [join(folder, 'node_modules/.bin'), dirname(process.execPath), process.env.PATH].join(
    delimiter,
  )
  await run(what, process.execPath, ['scripts/build.ts'], { PATH: path }, folder)
  // What built it is three quarters of what it takes on the disk.
  await run(what, npm[0]!, [...npm.slice(1), 'prune', '--omit=dev', ...options], {}, folder)
}

/** Under `npm run`, npm says where it is. */
function npmCommand(): readonly string[] {
  const path = process.env.npm_execpath
  return path?.endsWith('.js') ? [process.execPath, path] : ['npm']
}
