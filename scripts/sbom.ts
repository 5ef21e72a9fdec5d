/**
 * `npm run --silent generate -- sbom`: what the running sidecar is made of, as CycloneDX.
 *
 * npm makes the bill of everything in the lock file, and the packages that are for development only are taken out here:
 * `npm sbom --omit=dev` (npm 11.19.1) also leaves out packages that both kinds need, `yaml` for one.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Bill = {
  readonly bomFormat: string
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

export function billOfMaterials(): Bill {
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
  return {
    ...all,
    components,
    dependencies: (all.dependencies ?? [])
      .filter(({ ref }) => refs.has(ref) || !all.components.some((one) => one['bom-ref'] === ref))
      .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) })),
  }
}

/** `name@version` of every package of the lock file that is not for development. */
export function runningPackages(): ReadonlySet<string> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { readonly dev?: boolean; readonly version?: string }>
  }
  const running = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true)
  return new Set(running.map(([path, { version }]) => `${path.replace(/^.*node_modules\//, '')}@${version}`))
}

export function nameOf(purl: string): string {
  return decodeURIComponent(purl.replace('pkg:npm/', ''))
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  console.log(JSON.stringify(billOfMaterials(), undefined, 2))
