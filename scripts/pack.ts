/**
 * `npm run release -- pack`: builds the three packages, packs each into dist/tarballs/, and checks what is in the tarballs.
 *
 * Owns what is published: the manifest of the sidecar without its dependencies, which are all in its bundle, and the checks that
 * a tarball has to pass. publint reads it as the registry and the runtimes will, attw as TypeScript does.
 *
 * Usage: npm run release -- pack [folder instead of dist]
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'

const root = join(import.meta.dirname, '..')
export const PACKAGES = ['client', 'saga', 'fencepost'] as const
export type PackageName = (typeof PACKAGES)[number]

type Manifest = Readonly<Record<string, unknown>>

/**
 * @returns the tarball of each package, in the folder `tarballs` beside what is built
 * @param checked false where only the contents are looked at: the checks, of types too, take longer than the packing
 */
export async function packAll(
  dist: string,
  { checked }: { readonly checked: boolean },
): Promise<Readonly<Record<PackageName, string>>> {
  node('scripts/build.ts', ...(checked ? [] : ['--unchecked']), dist)
  placeSidecar(dist)
  const tarballs = join(dist, 'tarballs')
  mkdirSync(tarballs, { recursive: true })
  const packed = PACKAGES.map((name) => {
    const folder = join(dist, 'packages', name)
    const options = ['--silent', '--json', '--pack-destination', tarballs]
    const said = execFileSync('npm', ['pack', ...options, folder], { cwd: root, encoding: 'utf8' })
    return [name, join(tarballs, packedFile(said))] as const
  })
  for (const [name, tarball] of checked ? packed : []) {
    await checkManifest(join(dist, 'packages', name))
    if (name !== 'fencepost') checkTypes(tarball)
  }
  return Object.fromEntries(packed) as Record<PackageName, string>
}

/** Its dependencies are in the bundle already: installed, they would be a hundred packages that nothing loads. */
export function manifestOfSidecar(manifest: Manifest): Manifest {
  const {
    private: _private,
    workspaces: _workspaces,
    scripts: _scripts,
    allowScripts: _allowScripts,
    dependencies: _dependencies,
    devDependencies: _devDependencies,
    ...published
  } = manifest
  return { ...published, exports: { './package.json': './package.json' } }
}

function placeSidecar(dist: string): void {
  const folder = join(dist, 'packages/fencepost')
  rmSync(folder, { recursive: true, force: true })
  const beside = ['packages', 'tarballs']
  // Source maps lead to sources that are not published.
  const parts = readdirSync(dist).filter((name) => !beside.includes(name) && !name.endsWith('.map'))
  for (const name of parts) cpSync(join(dist, name), join(folder, 'dist', name), { recursive: true })
  for (const name of parts.filter((part) => part.endsWith('.js'))) {
    const code = readFileSync(join(folder, 'dist', name), 'utf8')
    writeFileSync(join(folder, 'dist', name), code.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'))
  }
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify(manifestOfSidecar(manifest), undefined, 2)}\n`,
  )
  for (const file of ['README.md', 'LICENSE']) copyFileSync(join(root, file), join(folder, file))
}

/** `npm pack --json` of npm 11 and before is a list, of later ones an object by name. */
function packedFile(said: string): string {
  const [{ filename }] = Object.values(JSON.parse(said)) as [{ readonly filename: string }]
  return basename(filename)
}

async function checkManifest(folder: string): Promise<void> {
  const { messages, pkg } = await publint({ pkgDir: folder, strict: true, pack: false })
  if (messages.length === 0) return
  throw new Error(
    messages
      .map((message) => `publint: ${folder}: ${formatMessage(message, pkg, { color: false })}`)
      .join('\n'),
  )
}

/**
 * In every way in which TypeScript resolves a package. They are ECMAScript modules alone: Node gives them to `require`, too, from the
 * versions on that `engines` names.
 */
export function checkTypes(tarball: string): void {
  const attw = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js')
  const ways = ['--profile', 'strict', '--ignore-rules', 'cjs-resolves-to-esm']
  node(attw, ...ways, '--no-definitely-typed', '--no-color', '--no-emoji', tarball)
}

/** `SHA256SUMS`, as `sha256sum --check` reads it, of every file beside it. */
export function writeChecksums(folder: string): void {
  const lines = globSync('*', { cwd: folder })
    .filter((file) => file !== 'SHA256SUMS')
    .sort()
    .map(
      (file) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, file)))
          .digest('hex')}  ${file}`,
    )
  writeFileSync(join(folder, 'SHA256SUMS'), `${lines.join('\n')}\n`)
}

function node(...args: readonly string[]): void {
  try {
    execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string }
    throw new Error(`${args.join(' ')} failed\n${stdout}${stderr}`)
  }
}

if (import.meta.main) {
  const dist = process.argv[2] ?? join(root, 'dist')
  for (const tarball of Object.values(await packAll(dist, { checked: true }))) console.log(tarball)
  writeChecksums(join(dist, 'tarballs'))
}
