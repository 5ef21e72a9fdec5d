/** The whole comparison of this tree with an earlier build: nodes, sidecars, clients and saga kits. */
import * as ownClient from '@fencepost/client'
import * as ownSaga from '@fencepost/saga'
import * as ownMailbox from '@fencepost/saga/mailbox'
import { SETTINGS } from '../faults/stage.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'
import { callAcross } from './clients.ts'
import { type Crossed, cross, describe } from './cross.ts'
import { CROSSINGS } from './crossings.ts'
import { BEFORE_0_1_0, type EarlierBuild } from './earlier-version.ts'
import { START_MS, type Version } from './pair.ts'
import { runSkew } from './run.ts'
import { sagasAcross } from './sagas.ts'

type Comparison = {
  readonly earlier: EarlierBuild
  readonly ownMain: string
  readonly seed: number
  readonly operations: number
  /** Only crossings whose name contains it. */
  readonly only?: string | undefined
  readonly historyFile?: string
  readonly tell?: (line: string) => void
}

type Compared = {
  /** What did not go as the tables say, a sentence each. */
  readonly failures: readonly string[]
  /** Why the load proves nothing, where it doesn't. */
  readonly invalid: readonly string[]
  readonly counts: Readonly<Record<string, number>>
}

/** What a pair tries on nodes that this version founded and the earlier one joins. */
const ON_OWN_CLUSTER = [
  'an outcome is replayed byte for byte',
  'a reservation is read, extended and completed',
  'an entity is locked, and free again with a larger token',
]

export async function compareVersions(options: Comparison): Promise<Compared> {
  const { earlier, ownMain, seed, operations, only = '', historyFile, tell = () => {} } = options
  const before: Version = { name: earlier.name, main: earlier.main }
  const own: Version = { name: 'this version', main: ownMain }
  const crossings = Object.keys(CROSSINGS).filter((name) => name.includes(only))
  const { report, crossed, askedAgain } = await runSkew(
    { earlier: before, own },
    { seed, operations, crossings, tell, ...(historyFile === undefined ? {} : { historyFile }) },
  )
  tell('nodes that this version founded')
  const founded = await onOwnCluster(own, before, tell)
  tell('clients')
  const clients = [
    ...(await clientsAt(
      `@fencepost/client of ${earlier.name} with a sidecar of this version`,
      own,
      await earlier.client(),
    )),
    ...(await clientsAt(
      `@fencepost/client of this version with a sidecar of ${earlier.name}`,
      before,
      ownClient,
    )),
  ]
  tell('saga kits')
  const sagas = await sagasAcross(
    {
      name: earlier.name,
      saga: await earlier.saga(),
      mailbox: await earlier.mailbox(),
      // Migration 6 was not an addition (docs/operations/upgrading.md). Migrations of releases are.
      consumesLater: earlier.commit !== BEFORE_0_1_0,
      startsOnLater: earlier.commit !== BEFORE_0_1_0,
    },
    { name: 'this version', saga: ownSaga, mailbox: ownMailbox, consumesLater: true, startsOnLater: true },
  )
  const allCrossed = [...crossed, ...founded]
  return {
    failures: [
      ...report.violations.map(({ checker, key, detail }) => `${checker} ${key}: ${detail}`),
      ...allCrossed.filter(({ failure }) => failure !== undefined).map(describe),
      ...clients
        .filter(({ failure }) => failure !== undefined)
        .map(({ name, failure }) => `${name}: ${failure}`),
      ...(sagas.failure === undefined ? [] : [`saga kit ${sagas.failure}`]),
    ],
    invalid: report.invalid,
    counts: {
      operations: report.operations,
      executions: report.executions,
      askedAgain,
      crossings: allCrossed.length,
      clientCalls: clients.length,
      sagaSteps: sagas.done.length,
      tookMs: Math.round(report.tookMs),
    },
  }
}

async function onOwnCluster(
  own: Version,
  earlier: Version,
  tell: (line: string) => void,
): Promise<readonly Crossed[]> {
  await using servers = await startRedisServers(5)
  // The first of the two founds the cluster and writes the list of its nodes.
  const crossed = await cross([own, earlier], servers.urls, ON_OWN_CLUSTER)
  for (const one of crossed)
    tell(`  ${one.failure === undefined ? 'as expected' : 'FAILED'}  ${describe(one)}`)
  return crossed
}

/** Every call of a client at a sidecar of another version. */
export async function clientsAt(
  name: string,
  { main }: Version,
  client: Pick<typeof ownClient, 'createClient'>,
) {
  await using servers = await startRedisServers(5, { founded: true })
  await using sidecar = await startSidecar(
    { ...SETTINGS, FENCEPOST_CLAIM_BUDGET: '3s', FENCEPOST_REDIS_NODES: servers.nodesSetting },
    { main, startWithinMs: START_MS },
  )
  const called = await callAcross(client.createClient, sidecar.api)
  return called.map((one) => ({ ...one, name: `${name}: ${one.name}` }))
}
