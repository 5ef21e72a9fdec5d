/**
 * `npm run --silent generate -- sbom`: the packages of the running sidecar, as CycloneDX.
 *
 * npm makes the bill of everything in the lock file, and what the sidecar does not run is taken out here: `npm sbom
 * --omit=dev` (npm 11.19.1) also leaves out packages that both kinds need, `yaml` for one. Not run are packages for
 * development, optional ones, and those of the other two packages of this repository.
 *
 * The same packages have the same bill: npm writes a random number and the time of day into it, which here come from the
 * packages and from SOURCE_DATE_EPOCH, or are left out.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Bill = {
  readonly bomFormat: string
  readonly serialNumber?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly components: readonly Component[]
  readonly dependencies?: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[]
}
export type Component = {
  readonly 'bom-ref': string
  readonly purl: string
  readonly licenses?: readonly unknown[]
  readonly hashes?: readonly unknown[]
}

const root = join(import.meta.dirname, '..')

/** @param epochSeconds the time that it states, in seconds since 1970; none without it */
export function billOfMaterials(epochSeconds?: number): Bill {
  const written = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx', '--package-lock-only'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const all = JSON.parse(written) as Bill
  const running = runningPackages()
  const components = all.components.filter(({ purl }) => running.has(nameOf(purl)))
  const refs = new Set(components.map((component) => component['bom-ref']))
  const { timestamp: _now, ...metadata } = all.metadata ?? {}
  const time = epochSeconds === undefined ? {} : { timestamp: new Date(epochSeconds * 1_000).toISOString() }
  return {
    ...all,
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify(components))}`,
    metadata: { ...time, ...metadata },
    components,
    dependencies: (all.dependencies ?? [])
      .filter(({ ref }) => refs.has(ref) || !all.components.some((one) => one['bom-ref'] === ref))
      .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) })),
  }
}

/** Version 8 of RFC 9562: the bits are ours to choose, here of a hash. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}

/** As `npm ci --omit=dev --omit=optional` sees an entry of the lock file: it stays out of the image. */
export function isLeftOut({ dev, optional, devOptional }: LockEntry): boolean {
  return (dev ?? optional ?? devOptional) === true
}

export type LockEntry = {
  readonly dev?: boolean
  readonly optional?: boolean
  readonly devOptional?: boolean
  readonly version?: string
  readonly dependencies?: Readonly<Record<string, string>>
}

/** `name@version` of every package of the lock file that the sidecar runs with: what its own dependencies lead to. */
export function runningPackages(): ReadonlySet<string> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockEntry>
  }
  const reached = new Set<string>()
  const visit = (from: string): void => {
    for (const name of Object.keys(packages[from]?.dependencies ?? {})) {
      const path = placeOf(name, from, packages)
      if (path === undefined || reached.has(path)) continue
      reached.add(path)
      visit(path)
    }
  }
  visit('')
  return new Set(
    [...reached].map((path) => `${path.replace(/^.*node_modules\//, '')}@${packages[path]?.version}`),
  )
}

/** As Node looks for it: in the folder of the package that asks, and in those above it. */
function placeOf(name: string, from: string, packages: Record<string, LockEntry>): string | undefined {
  const path = `${from === '' ? '' : `${from}/`}node_modules/${name}`
  if (path in packages) return path
  return from === ''
    ? undefined
    : placeOf(name, from.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, ''), packages)
}

export function nameOf(purl: string): string {
  return decodeURIComponent(purl.replace('pkg:npm/', ''))
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  console.log(JSON.stringify(billOfMaterials(), undefined, 2))
