/**
 * What `npm run release -- newcomer chart` does: it has the address of a registry, and nothing of this repository.
 *
 * Owns the claim that the charts work from where they are pulled. The registry is one on loopback, because what is released is not
 * there before it is released. Nothing is installed into a cluster: `npm run campaign -- apiserver` does that.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fetchProgram } from '../test/support/fetched-programs.ts'
import { startImageRegistry } from '../test/support/image-registry.ts'
import { CHARTS, packCharts } from './charts.ts'
import type { Hiding } from './hidden-checkout.ts'
import { currentVersion } from './version.ts'

const root = join(import.meta.dirname, '..')
type Say = (line: string) => void

/** @returns `HOST/charts/NAME@sha256:…` of each */
export async function pushCharts(host: string, archives: readonly string[]): Promise<readonly string[]> {
  const helm = await fetchProgram('helm')
  return archives.map((archive) => {
    const said = ended(helm, ['push', '--plain-http', archive, `oci://${host}/charts`])
    const [, name] = /^Pushed: (\S+):/m.exec(said) ?? []
    const [, digest] = /^Digest: (\S+)$/m.exec(said) ?? []
    if (name === undefined || digest === undefined)
      throw new Error(`helm push did not say what it pushed: ${said}`)
    return `${name}@${digest}`
  })
}

/** Values that every installation of the chart has to decide. */
const DECIDED = [
  // No cluster says which Kubernetes it is.
  '--kube-version',
  '1.37.0',
  '--set',
  'service.tokenSecret=token,redis.bundled.openToAll=true',
]

/** Renders the chart from the registry, and a chart of somebody's own that has the library from there. */
export async function playChart(host: string, folder: string, { without }: Hiding, say: Say): Promise<void> {
  const program = await fetchProgram('helm')
  const helm = (args: readonly string[]) => {
    const [command, ...rest] = without(program, args)
    return ended(command, rest, folder)
  }
  const from = [`oci://${host}/charts/fencepost`, '--version', currentVersion(), '--plain-http']
  const rendered = helm(['template', 'fencepost', ...from, ...DECIDED])
  for (const part of ['kind: StatefulSet', 'kind: Deployment', `fencepost/fencepost:${currentVersion()}`])
    if (!rendered.includes(part)) throw new Error(`the chart from the registry does not render "${part}"`)
  const [command, ...rest] = without(program, [
    ...['template', 'fencepost', ...from, ...DECIDED, '--set', 'service.replicas=none'],
  ])
  const refused = spawnSync(command, rest, { encoding: 'utf8', cwd: folder })
  if (refused.status === 0 || !refused.stderr.includes('replicas'))
    throw new Error(`the chart from the registry takes service.replicas=none: ${refused.stderr}`)
  say(`chart: oci://…/charts/fencepost renders, and its schema refuses a wrong value`)
  const own = join(folder, 'own-chart')
  cpSync(join(root, 'deploy/helm/example'), own, { recursive: true })
  const manifest = readFileSync(join(own, 'Chart.yaml'), 'utf8')
  writeFileSync(join(own, 'Chart.yaml'), manifest.replace('file://../fencepost-lib', `oci://${host}/charts`))
  helm(['dependency', 'update', '--plain-http', own])
  if (!helm(['template', 'own', own, '--kube-version', '1.37.0']).includes('restartPolicy: Always'))
    throw new Error('a chart with the library from the registry has no native sidecar')
  say('chart: a chart of its own has the library from oci://…/charts, and with it the sidecar')
  const pulled = join(folder, 'pulled')
  mkdirSync(pulled)
  for (const chart of CHARTS) {
    const where = [`oci://${host}/charts/${chart}`, '--version', currentVersion(), '--plain-http']
    helm(['pull', ...where, '--untar', '--untardir', pulled])
    if (readFileSync(join(pulled, chart, 'Chart.yaml'), 'utf8').includes('file:'))
      throw new Error(`the published chart ${chart} names a folder of this repository`)
  }
  say('chart: nothing in the published charts leads to a folder')
}

/** Packs, pushes to a registry of its own, and plays. */
export async function playChartAlone(folder: string, hiding: Hiding, say: Say): Promise<void> {
  await using registry = await startImageRegistry()
  const archives = await packCharts(join(folder, 'charts'), `oci://${registry.host}/charts`)
  await pushCharts(registry.host, Object.values(archives))
  await playChart(registry.host, folder, hiding, say)
}

/** @returns what it wrote to both outputs: helm says what it pushed on stderr */
function ended(command: string, args: readonly string[], cwd?: string): string {
  try {
    return execFileSync('sh', ['-c', '"$@" 2>&1', 'sh', command, ...args], {
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
      ...(cwd === undefined ? {} : { cwd }),
    })
  } catch (cause) {
    throw new Error(`${command} ${args.join(' ')} failed\n${(cause as { stdout?: string }).stdout ?? ''}`)
  }
}
