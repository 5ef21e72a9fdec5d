/**
 * `npm run release -- charts`: packs the charts as they are published, into dist/tarballs/.
 *
 * Owns the difference between a chart in this repository and a published one. Here it takes the library chart from the folder beside
 * it, so that it is tested as it stands. Published it names the registry, where `helm dependency update` of somebody's chart finds it.
 * And the names of the archives: the one that Helm gives to the chart `fencepost` is that of the npm package, and they are released together.
 *
 * Usage: npm run release -- charts [folder instead of dist/tarballs]
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetchProgram } from '../test/support/fetched-programs.ts'
import { currentVersion } from './version.ts'

const root = join(import.meta.dirname, '..')
/** Where .github/workflows/release.yml pushes them. */
export const CHART_REGISTRY = 'oci://ghcr.io/fencepost/charts'
/** The library first, because the other one depends on it. The chart `example` is to be read, and not published. */
export const CHARTS = ['fencepost-lib', 'fencepost'] as const
export type ChartName = (typeof CHARTS)[number]

/** @returns the archive of each chart in the folder */
export async function packCharts(
  folder: string,
  registry = CHART_REGISTRY,
): Promise<Readonly<Record<ChartName, string>>> {
  const helm = await fetchProgram('helm')
  const version = currentVersion()
  const sources = mkdtempSync(join(tmpdir(), 'fencepost-charts-'))
  try {
    // Without links: the archive has what they lead to.
    cpSync(join(root, 'deploy/helm'), sources, { recursive: true, dereference: true })
    mkdirSync(folder, { recursive: true })
    for (const chart of CHARTS) {
      const place = join(sources, chart)
      const file = join(place, 'Chart.yaml')
      const manifest = readFileSync(file, 'utf8')
      if (manifest.includes('file://')) run(helm, 'dependency', 'build', place)
      run(helm, 'lint', '--quiet', ...(chart === 'fencepost' ? ['--set', LINTED] : []), place)
      writeFileSync(file, publishedManifest(manifest, registry))
      // It is of the repository's dependencies, and would not fit the published ones.
      rmSync(join(place, 'Chart.lock'), { force: true })
      run(helm, 'package', '--destination', sources, place)
      cpSync(join(sources, `${chart}-${version}.tgz`), archiveIn(folder, chart, version))
    }
  } finally {
    rmSync(sources, { recursive: true, force: true })
  }
  return Object.fromEntries(CHARTS.map((chart) => [chart, archiveIn(folder, chart, version)])) as Record<
    ChartName,
    string
  >
}

/** Not as Helm names it, because `npm pack` names its tarball so. */
function archiveIn(folder: string, chart: ChartName, version: string): string {
  return join(folder, `${chart}-chart-${version}.tgz`)
}

/** Values without which the chart refuses to render. */
const LINTED = 'service.tokenSecret=token,redis.bundled.openToAll=true'

/** @throws where a path of this repository is left, which nobody else could follow */
export function publishedManifest(manifest: string, registry: string): string {
  const published = manifest.replaceAll(/(repository: )"?file:\/\/\.\.\/fencepost-lib"?/g, `$1"${registry}"`)
  if (published.includes('file:')) throw new Error(`a published chart can't name a path: ${published}`)
  return published
}

function run(helm: string, ...args: readonly string[]): void {
  try {
    execFileSync(helm, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string }
    throw new Error(`helm ${args.join(' ')} failed\n${stdout}${stderr}`)
  }
}

if (import.meta.main)
  for (const file of Object.values(await packCharts(process.argv[2] ?? join(root, 'dist/tarballs'))))
    console.log(file)
