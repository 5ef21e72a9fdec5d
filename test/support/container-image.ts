/**
 * The image of the Dockerfile, built without a registry, from base images of this machine's own Node, npm and shell;
 * and run as by a container runtime, without one: its own entry point under its own user, on a read-only root.
 */
import { copyFileSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buildImageFor } from '../../scripts/image.ts'
import { OWN_ARCHITECTURE, ownBaseImage } from './base-images.ts'
import { type Buildah, openBuildah } from './buildah.ts'
import { TestProcess } from './processes.ts'
import { findProgram } from './programs.ts'

const repository = dirname(dirname(import.meta.dirname))

export type BuiltImage = AsyncDisposable & {
  /** The user, entry point, command, environment and labels of the image. */
  readonly config: {
    readonly User: string
    readonly Entrypoint: readonly string[]
    readonly Cmd: readonly string[]
    readonly Env: readonly string[]
    readonly Labels: Readonly<Record<string, string>>
    readonly WorkingDir: string
  }
  /** Where its file system is mounted. */
  readonly root: string
  /** @param emulator a static program that runs those of its architecture, where it is not that of this machine */
  start(env: Readonly<Record<string, string>>, args?: readonly string[], emulator?: string): TestProcess
}

export async function buildImage(): Promise<BuiltImage> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-image-'))
  const buildah = await openBuildah(folder)
  try {
    const base = await ownBaseImage(buildah, join(folder, 'base'))
    const bases = { build: base, runtime: base, pull: 'never' } as const
    const name = await buildImageFor(buildah, {
      ...{ context: repository, architecture: OWN_ARCHITECTURE, bases },
      ...{ epochSeconds: 0, revision: 'of-a-test', kept: false },
    })
    const mounted = await mountImage(buildah, name)
    return { ...mounted, [Symbol.asyncDispose]: () => buildah[Symbol.asyncDispose]() }
  } catch (cause) {
    await buildah[Symbol.asyncDispose]()
    throw cause
  }
}

/** @param args further arguments of `buildah from`, such as where it is pulled from */
export async function mountImage(
  buildah: Buildah,
  name: string,
  args: readonly string[] = ['--pull-never'],
): Promise<Omit<BuiltImage, keyof AsyncDisposable>> {
  const container = await buildah.command('from', ...args, name)
  const root = await buildah.command('mount', container)
  const described = JSON.parse(await buildah.command('inspect', '--type', 'container', container))
  const { config } = described.OCIv1 as { config: BuiltImage['config'] }
  return {
    config,
    root,
    start: (env, given, emulator) => startIn(root, config, env, given ?? config.Cmd, emulator),
  }
}

/** In its own mount namespace, with a read-only root, under the image's user, which drops all capabilities. */
function startIn(
  root: string,
  config: BuiltImage['config'],
  env: Readonly<Record<string, string>>,
  args: readonly string[],
  emulator?: string,
): TestProcess {
  if (emulator !== undefined) copyFileSync(emulator, join(root, 'emulator'))
  const [uid, gid] = config.User.split(':') as [string, string]
  const script =
    'root=$1; shift; mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && exec "$@"'
  const set = [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)]
  const entry = [...(emulator === undefined ? [] : ['/emulator']), ...config.Entrypoint, ...args]
  // By its path: the environment from there on is that of the image.
  const chroot = findProgram({ programs: ['chroot'] }) ?? 'chroot'
  const inside = ['env', '-i', ...set, chroot, `--userspec=${uid}:${gid}`, root, ...entry]
  return new TestProcess('unshare', ['--mount', 'sh', '-c', script, 'sh', root, ...inside], {
    name: 'the image',
  })
}

export async function jsonOf(image: BuiltImage, path: string): Promise<unknown> {
  return JSON.parse(await readFile(join(image.root, path), 'utf8'))
}
