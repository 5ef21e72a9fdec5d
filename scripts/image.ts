/**
 * `npm run release -- image`: builds the image of the Dockerfile for amd64 and arm64 as an OCI layout in dist/image/, with buildah.
 *
 * Owns that one Dockerfile makes both, and that a second build has the same digests: every time in it is that of the commit
 * (SOURCE_DATE_EPOCH). Nothing is emulated, because what is built is the same for both. .github/workflows/release.yml does the same
 * with Docker's buildx, which also attaches the provenance.
 *
 * Usage: npm run release -- image [--local-bases] [--twice] [folder instead of dist/image]
 * With `--local-bases` no registry on the Internet is needed: the base images are put together from this machine's Node
 * (test/support/base-images.ts), which shows that the image builds and is no image to publish. With `--twice` it is built again, from a copy
 * of the sources with other times, and has to be the same image.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ARCHITECTURES,
  type Architecture,
  arm64BaseImage,
  OWN_ARCHITECTURE,
  ownBaseImage,
} from '../test/support/base-images.ts'
import { type Buildah, openBuildah } from '../test/support/buildah.ts'
import { startImageRegistry } from '../test/support/image-registry.ts'
import { describeLayout, differencesOf, type Layout } from './image-layout.ts'
import { provideReleasePrograms } from './release-programs.ts'
import { currentVersion } from './version.ts'

const root = join(import.meta.dirname, '..')
/** What .dockerignore lets through, and what says so. */
const CONTEXT = [
  ...['Dockerfile', '.dockerignore', '.npmrc', 'LICENSE', 'package.json', 'package-lock.json'],
  ...['packages', 'scripts', 'src'],
]

export type Bases = {
  readonly build: string
  readonly runtime: string
  /** `never`: they are in the storage; `always`: in a registry on loopback. */
  readonly pull: 'never' | 'always'
}

export type ImageBuild = {
  readonly context: string
  readonly architecture: Architecture
  /** Those that the Dockerfile names, where it is undefined. */
  readonly bases: Bases | undefined
  readonly epochSeconds: number
  readonly revision: string
  /** Whether each step is kept for the next build of the same storage; to keep them costs time. */
  readonly kept: boolean
}

/** @returns the name of the image in the storage of this buildah */
export async function buildImageFor(buildah: Buildah, build: ImageBuild): Promise<string> {
  const { context, architecture, bases, epochSeconds, revision, kept } = build
  const name = `localhost/fencepost-${architecture}`
  const cache = join(homedir(), '.npm')
  mkdirSync(cache, { recursive: true })
  const given = {
    VERSION: currentVersion(),
    REVISION: revision,
    SOURCE_DATE_EPOCH: String(epochSeconds),
    ...(bases === undefined ? {} : { BUILD_IMAGE: bases.build, RUNTIME_IMAGE: bases.runtime }),
  }
  await buildah.command(
    ...['build', ...(bases === undefined ? [] : [`--pull-${bases.pull}`, '--tls-verify=false'])],
    ...['--platform', `linux/${architecture}`, '--timestamp', String(epochSeconds)],
    ...[`--layers=${kept}`, '--network', 'host', '--volume', `${cache}:/root/.npm`],
    ...Object.entries(given).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]),
    ...['--tag', name, context],
  )
  return name
}

/** @param target as containers-transports(5) has it: `oci:FOLDER:TAG`, `docker://HOST/NAME:TAG` */
export async function pushImage(buildah: Buildah, name: string, target: string): Promise<void> {
  await buildah.command('manifest', 'push', '--all', '--quiet', '--tls-verify=false', name, target)
}

/** Base images that no registry on the Internet is asked for. The first stage runs on this machine, whatever it builds for. */
async function localBases(
  buildah: Buildah,
  folder: string,
  host: string,
  architectures: readonly Architecture[],
): Promise<Readonly<Partial<Record<Architecture, Bases>>>> {
  // buildah 1.28 finds a base for another architecture than its own in a registry alone.
  const pushed = async (name: string): Promise<string> => {
    const reference = `${host}/${name.replace('localhost/', '')}:latest`
    await buildah.command('push', '--quiet', '--tls-verify=false', name, `docker://${reference}`)
    return reference
  }
  const build = await pushed(await ownBaseImage(buildah, join(folder, 'base-own')))
  const runtime = async (architecture: Architecture) =>
    architecture === OWN_ARCHITECTURE
      ? build
      : pushed(await arm64BaseImage(buildah, join(folder, 'base-arm64')))
  const bases: Partial<Record<Architecture, Bases>> = {}
  for (const architecture of architectures)
    bases[architecture] = { build, runtime: await runtime(architecture), pull: 'always' }
  return bases
}

export type Commit = { readonly epochSeconds: number; readonly revision: string }

/** The time of the commit, and its name. */
export function commitOf(folder = root): Commit {
  const said = execFileSync('git', ['log', '-1', '--format=%ct %H'], { cwd: folder, encoding: 'utf8' })
  const [seconds, revision = ''] = said.trim().split(' ')
  return { epochSeconds: Number(seconds), revision }
}

export type BuildPlace = {
  readonly buildah: Buildah
  /** For what is made on the way. */
  readonly folder: string
  /** A registry on loopback, which gets the base images. */
  readonly localBasesAt: string | undefined
  /** All of them, where nothing else is said. */
  readonly architectures?: readonly Architecture[]
  /** Read once for all builds that are to be the same: somebody may commit meanwhile. */
  readonly commit: Commit
  readonly context?: string
}

/** @returns the name of an index that has the image of each architecture, in the storage of this buildah */
export async function buildImages({
  buildah,
  folder,
  localBasesAt,
  commit,
  architectures = ARCHITECTURES,
  context = root,
}: BuildPlace): Promise<string> {
  const bases =
    localBasesAt === undefined ? undefined : await localBases(buildah, folder, localBasesAt, architectures)
  const name = 'localhost/fencepost'
  await buildah.command('manifest', 'create', name)
  for (const architecture of architectures) {
    // The first stage is the same for both architectures, and taken from the first build.
    const kept = architectures.length > 1
    const build = { context, architecture, bases: bases?.[architecture], kept, ...commit }
    const image = await buildImageFor(buildah, build)
    await buildah.command('manifest', 'add', name, `containers-storage:${image}`)
  }
  return name
}

/** With a storage of its own, so that nothing is taken from an earlier build. @returns what it is, in the folder `layout` */
export async function buildAgain({
  folder,
  ...place
}: Omit<BuildPlace, 'buildah' | 'context'>): Promise<Layout> {
  const context = join(folder, 'a-copy-in-another-place')
  const another = new Date('2001-01-01')
  mkdirSync(context, { recursive: true })
  for (const part of CONTEXT) {
    cpSync(join(root, part), join(context, part), {
      recursive: true,
      filter: (source) => !source.includes('node_modules'),
    })
    utimesSync(join(context, part), another, another)
  }
  const storage = join(folder, 'storage-of-the-second')
  mkdirSync(storage)
  await using buildah = await openBuildah(storage)
  const name = await buildImages({ ...place, buildah, folder, context })
  const layout = join(folder, 'layout-of-the-second')
  await pushImage(buildah, name, `oci:${layout}:${currentVersion()}`)
  return describeLayout(layout)
}

/** @throws where the second build is another image than the first */
export function expectSame(first: Layout, second: Layout): void {
  const differences = differencesOf(first, second)
  if (first.digest !== second.digest && differences.length === 0)
    throw new Error(`two builds are the indexes ${first.digest} and ${second.digest} of the same images`)
  if (differences.length > 0) throw new Error(`two builds of one commit differ\n${differences.join('\n')}`)
}

/** A line for each platform: what is pulled in all, and what of that is fencepost. */
export function sizesOf({ images }: Layout): readonly string[] {
  const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(1)
  return [...images].map(([platform, { digest, layers }]) => {
    const all = layers.reduce((sum, { size }) => sum + size, 0)
    const added = layers.at(-1)?.size ?? 0
    return `${platform} ${digest}, ${mebibytes(added)} MiB to pull on top of a base of ${mebibytes(all - added)} MiB`
  })
}

async function main(given: readonly string[]): Promise<void> {
  provideReleasePrograms()
  const [layout = join(root, 'dist/image')] = given.filter((one) => !one.startsWith('--'))
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-image-'))
  try {
    const storage = join(folder, 'storage')
    mkdirSync(storage)
    await using registry = await startImageRegistry()
    await using buildah = await openBuildah(storage)
    const localBasesAt = given.includes('--local-bases') ? registry.host : undefined
    const commit = commitOf()
    const name = await buildImages({ buildah, folder, localBasesAt, commit })
    rmSync(layout, { recursive: true, force: true })
    await pushImage(buildah, name, `oci:${layout}:${currentVersion()}`)
    const built = describeLayout(layout)
    console.log([`${layout} ${built.digest}`, ...sizesOf(built)].join('\n'))
    if (!given.includes('--twice')) return
    expectSame(built, await buildAgain({ folder: join(folder, 'again'), localBasesAt, commit }))
    console.log('a second build is the same image')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const given = process.argv.slice(2)
  const unknown = given.find((one) => one.startsWith('--') && !['--local-bases', '--twice'].includes(one))
  if (unknown === undefined) await main(given)
  else {
    console.error(`${unknown} is no option; they are --local-bases and --twice`)
    process.exitCode = 2
  }
}
