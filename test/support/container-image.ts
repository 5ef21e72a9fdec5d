/**
 * The image of the Dockerfile, built without a registry, from base images of this machine's own Node, npm and shell;
 * and run as by a container runtime, without one: its own entry point under its own user, on a read-only root.
 */
import { execFile } from 'node:child_process'
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

const run = promisify(execFile)
const repository = dirname(dirname(import.meta.dirname))
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const APPLETS = ['sh', 'env', 'cat', 'cp', 'ls', 'mkdir', 'rm']
/** Parts of every glibc; the last is needed by the bundler. */
const LOADED_AT_RUN_TIME = ['libnss_dns.so.2', 'libnss_files.so.2', 'libresolv.so.2', 'librt.so.1']

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
  start(env: Readonly<Record<string, string>>, args?: readonly string[]): TestProcess
}

export async function buildImage(): Promise<BuiltImage> {
  const buildah = requireProgram('buildah')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-image-'))
  const command = async (...args: string[]): Promise<string> => {
    const storage = [
      '--storage-driver',
      'vfs',
      '--root',
      join(folder, 'images'),
      '--runroot',
      join(folder, 'run'),
    ]
    const { stdout } = await run(buildah, [...storage, ...args], {
      maxBuffer: 64 * 1024 * 1024,
      env: { ...process.env, BUILDAH_ISOLATION: 'chroot' },
    })
    return stdout.trim()
  }
  const dispose = async () => {
    await command('umount', '--all').catch(() => '')
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const base = await command('from', 'scratch')
    await command('copy', '--quiet', base, await baseFiles(join(folder, 'base')), '/')
    await command(
      'config',
      '--env',
      'PATH=/usr/local/bin:/usr/bin:/bin',
      '--env',
      `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`,
      base,
    )
    await command('commit', '--quiet', base, 'localhost/base')
    const cache = join(homedir(), '.npm')
    await mkdir(cache, { recursive: true })
    const bases = ['BUILD_IMAGE', 'RUNTIME_IMAGE'].flatMap((name) => [
      '--build-arg',
      `${name}=localhost/base`,
    ])
    await command(
      'build',
      '--pull-never',
      '--network',
      'host',
      '--volume',
      `${cache}:/root/.npm`,
      ...bases,
      '--tag',
      'fencepost',
      repository,
    )
    const container = await command('from', '--pull-never', 'localhost/fencepost')
    const root = await command('mount', container)
    const described = JSON.parse(await command('inspect', '--type', 'image', 'localhost/fencepost'))
    const { config } = described.OCIv1 as { config: BuiltImage['config'] }
    return {
      config,
      root,
      start: (env, args) => startIn(root, config, env, args ?? config.Cmd),
      [Symbol.asyncDispose]: dispose,
    }
  } catch (cause) {
    await dispose()
    throw cause
  }
}

/** A Node with npm and a shell for the build, and at /nodejs/bin/node for the image. */
async function baseFiles(at: string): Promise<string> {
  await nodeFiles(at)
  await cp(await npmFolder(), join(at, 'usr/local/lib/npm'), { recursive: true, dereference: true })
  await symlink('/usr/local/lib/npm/bin/npm-cli.js', join(at, 'usr/local/bin/npm'))
  return at
}

/** A root file system with the Node and the shell of this machine. */
export async function nodeFiles(at: string): Promise<string> {
  const busybox = requireProgram('busybox')
  for (const path of [
    'bin',
    'usr/bin',
    'usr/local/bin',
    'usr/local/lib',
    'nodejs/bin',
    'etc/ssl/certs',
    'root',
    'tmp',
    'proc',
  ])
    await mkdir(join(at, path), { recursive: true })
  const node = await realpath(process.execPath)
  await place(busybox, at, '/bin/busybox')
  for (const applet of APPLETS) await symlink('busybox', join(at, 'bin', applet))
  await symlink('/bin/env', join(at, 'usr/bin/env'))
  await place(node, at, '/nodejs/bin/node')
  await symlink('/nodejs/bin/node', join(at, 'usr/local/bin/node'))
  const libraries = await librariesOf(node)
  const [anyOf] = libraries.filter((path) => path.includes('libc.so'))
  const runTime = LOADED_AT_RUN_TIME.map((name) => join(dirname(anyOf!), name))
  for (const library of [...libraries, ...runTime]) await place(library, at, library)
  await place(CERTIFICATES, at, CERTIFICATES)
  await writeFile(join(at, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\n')
  return at
}

/** The shared libraries that a program of this machine is loaded with. */
export async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program])
  return [...stdout.matchAll(/(\/\S+)/g)].map(([, path]) => path!)
}

/** Copies a program or library to the path in a root file system. */
export async function place(file: string, root: string, path: string): Promise<void> {
  await mkdir(join(root, dirname(path)), { recursive: true })
  await copyFile(await realpath(file), join(root, path))
  await chmod(join(root, path), 0o755)
}

/** The npm of this machine, by the target of the link `npm`. */
async function npmFolder(): Promise<string> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const program = await realpath(join(folder, 'npm')).catch(() => '')
    if (program.endsWith('npm/bin/npm-cli.js')) return dirname(dirname(program))
  }
  throw new Error(
    'npm is not on the PATH as a link to its npm-cli.js: the base image of the test is made with it.',
  )
}

/** In its own mount namespace, with a read-only root, under the image's user, which drops all capabilities. */
function startIn(
  root: string,
  config: BuiltImage['config'],
  env: Readonly<Record<string, string>>,
  args: readonly string[],
): TestProcess {
  const [uid, gid] = config.User.split(':') as [string, string]
  // Not every user has the folder of `chroot` on the PATH.
  const script =
    'PATH=$PATH:/usr/sbin:/sbin; root=$1; shift; mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && exec "$@"'
  const set = [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)]
  const inside = [
    'chroot',
    `--userspec=${uid}:${gid}`,
    root,
    '/usr/bin/env',
    '-i',
    ...set,
    ...config.Entrypoint,
    ...args,
  ]
  return new TestProcess('unshare', ['--mount', 'sh', '-c', script, 'sh', root, ...inside], {
    name: 'the image',
  })
}

export async function jsonOf(image: BuiltImage, path: string): Promise<unknown> {
  return JSON.parse(await readFile(join(image.root, path), 'utf8'))
}
