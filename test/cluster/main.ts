/**
 * `npm run test:cluster`: a Kubernetes cluster on this machine, the chart installed into it as its README says, and scenarios
 * under traffic whose books are checked: no request is executed twice, none is lost, failures are counted. Then the lines of the
 * documents, as they stand.
 *
 *     npm run test:cluster                      every scenario
 *     npm run test:cluster -- drain rollout     those whose names begin so
 *     npm run test:cluster -- --write           writes their rows into docs/operations/cluster-tests.md
 *     npm run test:cluster -- --patient         with times for a machine that others use, too
 *     npm run test:cluster -- --keep            leaves the cluster up until Ctrl-C, and says how to reach it
 *
 * Needs root, cgroups and some packages of Debian; says what is missing and ends with 1 where it can't run.
 */
import { parseArgs } from 'node:util'
import { endInTime } from '../support/end-of-program.ts'
import { startCluster } from './cluster.ts'
import { writePage } from './page.ts'
import { Reader } from './reader.ts'
import { Release } from './release.ts'
import { whatIsMissing } from './requirements.ts'
import { type Row, runScenario, type Scenario } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'
import { tableOf } from './table.ts'
import { Clients } from './traffic.ts'

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { keep: { type: 'boolean' }, write: { type: 'boolean' }, patient: { type: 'boolean' } },
  })
  const missing = whatIsMissing({ install: true })
  if (missing.length > 0) {
    console.error(`This machine can't run a cluster:\n  ${missing.join('\n  ')}`)
    return 1
  }
  const chosen = SCENARIOS.filter(
    ({ name }) => positionals.length === 0 || positionals.some((one) => name.startsWith(one)),
  )
  if (chosen.length === 0) {
    console.error(`no scenario begins so; there are: ${SCENARIOS.map(({ name }) => name).join(', ')}`)
    return 1
  }
  await using cluster = await startCluster(console.log)
  const patient = values.patient === true
  const release = new Release(cluster, { patient })
  const reader = new Reader(cluster, { patient })
  await using clients = await Clients.start(cluster.machine)
  const rows: Row[] = []
  const run = async (scenarios: readonly Scenario[]) => {
    for (const scenario of scenarios)
      rows.push(await runScenario(scenario, { release, clients, reader, tell: console.log }))
  }
  const onRelease = chosen.filter(({ onPages }) => onPages !== true)
  const onPages = chosen.filter((scenario) => !onRelease.includes(scenario))
  if (onRelease.length > 0) {
    await install(release)
    await run(onRelease)
    if (onPages.length > 0) await release.uninstall()
  }
  await run(onPages)
  console.log(`\n${tableOf(rows)}`)
  if (values.write === true) await writePage(rows, { patient })
  if (values.keep === true) await untilInterrupted(cluster.machine.inNetwork)
  return rows.every(({ faults }) => faults.length === 0) ? 0 : 1
}

async function install(release: Release): Promise<void> {
  await release.install()
  console.log('the chart is installed, and every pod is ready')
  await release.installApplication()
  console.log('the application is installed, and every pod is ready')
}

async function untilInterrupted(inNetwork: readonly string[]): Promise<void> {
  console.log(`the cluster is up until Ctrl-C; in its network: ${inNetwork.join(' ')} kubectl …`)
  // The machine ends itself, and the process, at the signal.
  await new Promise<never>(() => {})
}

process.exitCode = await main()
endInTime()
