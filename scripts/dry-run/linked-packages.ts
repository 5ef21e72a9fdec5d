/** The installed packages in a clone of this repository, by links: what `npm ci` would download into it. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
/** scripts/run.mjs writes it, and would install again where it is another one. */
const INSTALLED_LOCK = '.fencepost-lock'
/** Made beside the packages, by tools. */
const NO_PACKAGES = /^\.(?!bin$|package-lock)/

/**
 * @returns how many packages there are
 * @throws where those that are installed are not those of the clone
 */
export function linkPackages(clone: string): number {
  const installed = join(root, 'node_modules')
  const place = join(clone, 'node_modules')
  const lock = readFileSync(join(clone, 'package-lock.json'), 'utf8')
  const known = join(installed, INSTALLED_LOCK)
  if (!existsSync(known) || packagesOf(lock) !== packagesOf(readFileSync(known, 'utf8')))
    throw new Error(
      'the packages of package-lock.json are not installed: start this with npm run, which installs them',
    )
  mkdirSync(place, { recursive: true })
  for (const name of readdirSync(installed).filter((one) => one !== '@fencepost' && !NO_PACKAGES.test(one)))
    symlinkSync(join(installed, name), join(place, name))
  mkdirSync(join(place, '@fencepost'))
  for (const own of ['client', 'saga']) symlinkSync(`../../packages/${own}`, join(place, '@fencepost', own))
  cpSync(join(clone, 'package-lock.json'), join(place, INSTALLED_LOCK))
  return Object.keys(JSON.parse(lock).packages).filter((path) => path.startsWith('node_modules/')).length
}

/** All but our own, which have the version of the release. */
function packagesOf(lock: string): string {
  const { packages } = JSON.parse(lock) as { readonly packages: Readonly<Record<string, unknown>> }
  return JSON.stringify(Object.entries(packages).filter(([path]) => path.startsWith('node_modules/')))
}
