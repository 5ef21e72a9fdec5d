/** docs/dependencies.md names every dependency of package.json, and none that is not there. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import manifest from '../package.json' with { type: 'json' }

const page = readFileSync(join(import.meta.dirname, '../docs/dependencies.md'), 'utf8')

/** The first column of the table under a heading, and the second. */
function rows(heading: string): Map<string, string> {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''
  const found = section.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm)
  return new Map([...found].map(([, name, second]) => [name as string, (second as string).trim()]))
}

test.each([
  ['In the running sidecar', manifest.dependencies],
  ['For development', manifest.devDependencies],
])('%s: the table names what package.json names', (heading, dependencies) => {
  expect([...rows(heading).keys()].sort()).toEqual(Object.keys(dependencies).sort())
})

test('the packages whose install scripts may run are those of the page', () => {
  const documented = [...rows('Install scripts')].map(([name, may]) => [name, may === 'yes'])
  expect(Object.fromEntries(documented)).toEqual(manifest.allowScripts)
})

test('every version is exact', () => {
  const versions = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })
  expect(versions.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([])
})

type LockEntry = {
  readonly hasInstallScript?: boolean
  readonly optional?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}
const lock = JSON.parse(readFileSync(join(import.meta.dirname, '../package-lock.json'), 'utf8')) as {
  packages: Record<string, LockEntry>
}
const locked = Object.entries(lock.packages).map(([path, entry]) => ({
  name: path.replace(/^.*node_modules\//, ''),
  entry,
}))

test('a package with an install script is on the list, allowed or not', () => {
  // Optional ones are for other platforms, or bring a program that is ready to use.
  const scripted = locked.filter(({ entry }) => entry.hasInstallScript && !entry.optional)
  expect(scripted.map(({ name }) => name).filter((name) => !(name in manifest.allowScripts))).toEqual([])
})

test('the lock file names the packages of every platform: npm ci refuses it otherwise', () => {
  const names = new Set(locked.map(({ name }) => name))
  const wanted = locked.flatMap(({ entry }) => Object.keys(entry.optionalDependencies ?? {}))
  expect(wanted.filter((name) => !names.has(name))).toEqual([])
})
