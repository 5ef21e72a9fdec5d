/** docs/internals/dependencies.md names every dependency of package.json, and none that is not there. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import manifest from '../package.json' with { type: 'json' }
import client from '../packages/client/package.json' with { type: 'json' }
import kit from '../packages/saga/package.json' with { type: 'json' }
import { billOfMaterials, isLeftOut, nameOf, runningPackages } from '../scripts/sbom.ts'

const page = readFileSync(join(import.meta.dirname, '../docs/internals/dependencies.md'), 'utf8')

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

test('the client has no dependencies', () => {
  expect(Object.keys(client).filter((name) => /dependencies/i.test(name))).toEqual([])
})

test('the saga kit depends on the client alone, and its peers are those of the page', () => {
  expect(kit.dependencies).toEqual({ '@fencepost/client': client.version })
  const documented = [...rows('Of the packages')].map(([name, optional]) => [name, optional === 'yes'])
  const meta: Record<string, { optional: boolean }> = kit.peerDependenciesMeta
  const peers = Object.keys(kit.peerDependencies).map((name) => [name, meta[name]?.optional === true])
  expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(peers))
})

test('neither PostgreSQL nor a client of a broker is among what the sidecar runs with', () => {
  const brokers = Object.keys(kit.peerDependenciesMeta).filter((name) => !(name in manifest.dependencies))
  expect(brokers.length).toBeGreaterThan(3)
  const running = [...runningPackages()].map((one) => one.replace(/@[^@]*$/, ''))
  expect(running.filter((name) => ['pg', ...brokers].includes(name))).toEqual([])
})

test('the three packages are of one version', () => {
  const versions = [
    manifest.version,
    client.version,
    kit.version,
    manifest.devDependencies['@fencepost/saga'],
  ]
  expect(new Set([...versions, manifest.devDependencies['@fencepost/client']]).size).toBe(1)
})

test('the page lists exactly the packages whose install scripts may run', () => {
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
  readonly dev?: boolean
  readonly devOptional?: boolean
  readonly version?: string
  readonly license?: string
  readonly integrity?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
}
const lock = JSON.parse(readFileSync(join(import.meta.dirname, '../package-lock.json'), 'utf8')) as {
  packages: Record<string, LockEntry>
}
/** Of others: the packages of this repository are links. */
const locked = Object.entries(lock.packages)
  .filter(([path]) => /node_modules\/(?!@fencepost\/)/.test(path))
  .map(([path, entry]) => ({ name: path.replace(/^.*node_modules\//, ''), entry }))

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

test('versions are exact: what is installed tomorrow is what was tested today', () => {
  const ranges = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(
    ([, version]) => !/^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$/.test(version),
  )
  expect(ranges).toEqual([])
})

test('every package of the lock file has a hash that the registry signed, so none can be exchanged on the way', () => {
  const unproven = locked.filter(({ entry }) => !/^sha512-/.test(entry.integrity ?? ''))
  expect(unproven.map(({ name }) => name)).toEqual([])
})

test('every package states a licence of the list', () => {
  const section = page.split(/^## /m).find((text) => text.startsWith('Licences\n')) ?? ''
  const allowed = new Map(
    [...section.matchAll(/^\| `([^`]+)` \| (yes|no) \| (yes|no) \|/gm)].map(
      ([, name, running, development]) => [
        name,
        { running: running === 'yes', development: development === 'yes' },
      ],
    ),
  )
  expect(allowed.size).toBeGreaterThan(3)
  const others = locked.filter(({ entry }) => {
    const of = allowed.get(entry.license)
    return of === undefined || !(isLeftOut(entry) ? of.development : of.running)
  })
  expect(others.map(({ name, entry }) => `${name}: ${entry.license}`)).toEqual([])
})

test('the bill of materials names every package of the running sidecar, with licence and hash, and no other', () => {
  const bill = billOfMaterials()
  expect(bill.bomFormat).toBe('CycloneDX')
  const listed = bill.components.map(({ purl }) => nameOf(purl))
  expect(new Set(listed)).toEqual(runningPackages())
  const bare = bill.components.filter(({ licenses = [], hashes = [] }) => !licenses.length || !hashes.length)
  expect(bare.map(({ purl }) => purl)).toEqual([])
})
