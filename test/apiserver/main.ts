/**
 * `npm run campaign -- apiserver`: every mode of the chart is installed, tested and upgraded on a real API server of
 * Kubernetes, and every folder of deploy/k8s applied to it, in namespaces that enforce Pod Security "restricted";
 * upgrades replace pods where the nodes that they are given have changed; the policies that add the sidecar, and that demand it, get pods of every
 * kind; and the lines of docs/operations/one-key.md for a cluster are run.
 *
 * There is no kubelet: that pods may run is shown by the API server admitting one from each workload's template. Not in
 * the suite, because building the server takes minutes where it is not in the cache. One line a check, the last line is
 * JSON; ends with 1 where something was not accepted.
 */
import { globSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { endInTime } from '../support/end-of-program.ts'
import { fetchProgram } from '../support/fetched-programs.ts'
import { checkAdmission } from './admission.ts'
import { Cluster } from './cluster.ts'
import { checkGiven } from './given.ts'
import { checkInjection } from './injection.ts'
import { checkOneKeyPage } from './one-key.ts'
import { buildPrograms, KUBERNETES } from './programs.ts'
import { startApiServer } from './server.ts'

const root = join(import.meta.dirname, '../..')
const failures: string[] = []
let checks = 0

async function check(sentence: string, of: () => Promise<unknown>): Promise<void> {
  checks += 1
  try {
    await of()
    console.log(`accepted  ${sentence}`)
  } catch (error) {
    failures.push(sentence)
    console.log(`REFUSED   ${sentence}\n${(error as Error).message}`)
  }
}

async function installed(cluster: Cluster, chart: string, values: string | undefined, namespace: string) {
  const given = values === undefined ? [] : ['--values', values]
  const name = `${basename(chart)} ${values === undefined ? '' : basename(values)}`.trim()
  await cluster.addNamespace(namespace)
  await check(`${name}: helm install`, () => cluster.helm(namespace, 'install', 'rel', chart, ...given))
  await check(`${name}: every field is known`, () => cluster.strictly(namespace, chart, given))
  await check(`${name}: pods under "restricted"`, () => cluster.admitsPods(namespace))
  await check(`${name}: helm upgrade`, () => cluster.helm(namespace, 'upgrade', 'rel', chart, ...given))
  if (values !== undefined) await check(`${name}: helm test`, () => cluster.helmTest(namespace, 'rel'))
}

const programs = await buildPrograms()
await using owned = new AsyncDisposableStack()
const charts = await mkdtemp(join(tmpdir(), 'fencepost-charts-'))
owned.defer(() => rm(charts, { recursive: true, force: true }))
const server = owned.use(await startApiServer(programs))
const cluster = new Cluster(server, await fetchProgram('helm'))
await cp(join(root, 'deploy/helm'), charts, { recursive: true, dereference: true })
for (const chart of ['fencepost', 'example']) await cluster.dependencies(join(charts, chart))

await cluster.addDefinitions(await fetchProgram('prometheusOperator'))
await cluster.addNamespace('refused')
await check('the server itself refuses a pod that may run as root', () =>
  cluster.refusesUnrestricted('refused'),
)
for (const values of globSync(join(charts, 'fencepost/ci/*-values.yaml')).sort())
  await installed(cluster, join(charts, 'fencepost'), values, basename(values, '-values.yaml'))
await installed(cluster, join(charts, 'example'), undefined, 'library')

await checkGiven(cluster, join(charts, 'fencepost'), check)
const secured = join(charts, 'fencepost/ci/bundled-tls-acl-values.yaml')
await checkInjection(cluster, join(charts, 'fencepost'), secured, check)

await checkOneKeyPage(cluster, join(charts, 'fencepost'), check)

for (const folder of ['nodes', 'nodes-tls-acl', 'example']) {
  await check(`kubectl apply -k deploy/k8s/${folder}`, () => cluster.apply(join(root, 'deploy/k8s', folder)))
  const namespace = folder === 'example' ? 'payments' : 'fencepost'
  await cluster.addAccount(namespace)
  await check(`deploy/k8s/${folder}: pods under "restricted"`, () => cluster.admitsPods(namespace))
}
await checkAdmission(cluster, join(root, 'deploy/k8s/admission'), check)
console.log(JSON.stringify({ kubernetes: KUBERNETES, checks, refused: failures }))
process.exitCode = failures.length === 0 && checks > 0 ? 0 : 1
endInTime()
