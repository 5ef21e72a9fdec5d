/**
 * Claim + complete on five real nodes, beside redlock's acquire + release as its users run it, with ioredis
 * autopipelining, and beside the floor: one SET NX on one node.
 *
 *     npm run bench -- claims [64 256] [--cold]     with so many in flight; else 1, 8, 64 and 256.
 *                                               `--cold`: on nodes that were just started
 *
 * Everything runs on this machine: nodes, clients and load. Only the ratios mean anything; CPU time is that of this
 * process and that of all nodes together (`INFO cpu`), which share two cores, so a rate alone hides it. Writes JSON to
 * bench/results/.
 */

import { Redis } from 'ioredis'
import Redlock from 'redlock'
import type { Quorum } from '../src/core/ports.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { printGoals } from './support/goal-report.ts'
import { createHandCountedQuorum } from './support/hand-counted-quorum.ts'
import { watchMachine } from './support/machine.ts'
import { connectLeases, leasesOver } from './support/our-leases.ts'
import { writeResults } from './support/results.ts'
import { alternate, type Contender, closedLoop, type Measured, printMeasured } from './support/rounds.ts'
import { serverCpuMicrosOf } from './support/server-cpu.ts'
import { startWarmNodes } from './support/warm-nodes.ts'

const LEASE_MS = 30_000
const asked = process.argv.slice(2).filter((argument) => /^\d+$/.test(argument))
const CONCURRENCIES = asked.length > 0 ? asked.map(Number) : [1, 8, 64, 256]

/** Of a claim that was completed with a tombstone. redlock deletes its keys and needs none. */
const RECORD_BYTES = 280

await using servers = process.argv.includes('--cold')
  ? await startRedisServers(5)
  : await startWarmNodes(5, RECORD_BYTES)
await using ours = await connectLeases(servers.urls)
const byHand = createHandCountedQuorum(ours.nodes.nodes)

let serial = 0
const run = (operation: (key: string) => Promise<void>) => (operations: number, concurrency: number) =>
  closedLoop(operations, concurrency, () => operation(String(serial++)))

const connect = (options: { enableAutoPipelining?: boolean }) =>
  servers.urls.map((url) => new Redis(url, options))
const plainClients = connect({})
const pipelinedClients = connect({ enableAutoPipelining: true })
const floor = new Redis(servers.urls[0]!)

const serverCpuMicros = () => serverCpuMicrosOf(plainClients)

function redlockCycle(clients: readonly Redis[]): (key: string) => Promise<void> {
  const redlock = new Redlock(clients)
  return async (key) => {
    const lock = await redlock.acquire([`redlock:${key}`], LEASE_MS)
    await lock.release()
  }
}

function ourCycle(quorum: Quorum): (key: string) => Promise<void> {
  const leases = leasesOver(quorum)
  return async (id) => {
    const key = `dedup:bench:bench:v1:${id.padStart(64, '0')}`
    const claimed = await leases.claim({
      key,
      fingerprint: '0'.repeat(64),
      leaseMs: LEASE_MS,
      retentionMs: 600_000,
      budgetMs: 5_000,
    })
    if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
    const done = await leases.complete(claimed.lease, {
      kind: 'tombstone',
      status: 201,
      completedAtWallMs: 0,
    })
    if (done.kind !== 'recorded') throw new Error(`a completion was ${done.kind}`)
  }
}

const contenders: readonly Contender[] = [
  { name: 'fencepost claim + complete', run: run(ourCycle(ours.quorum)) },
  { name: '  votes counted by hand', run: run(ourCycle(byHand)) },
  { name: 'redlock acquire + release', run: run(redlockCycle(plainClients)) },
  { name: 'redlock, autopipelined', run: run(redlockCycle(pipelinedClients)) },
  {
    name: 'SET NX PX on one node',
    run: run(async (id) => {
      await floor.set(`floor:${id}`, '1', 'PX', LEASE_MS, 'NX')
    }),
  },
]

const results: { concurrency: number; measured: readonly Measured[] }[] = []
const machine = watchMachine()
for (const concurrency of CONCURRENCIES) {
  const operations = concurrency === 1 ? 1_000 : 6_000
  const measured = await alternate(
    contenders,
    operations,
    concurrency,
    concurrency === 1 ? 7 : 5,
    serverCpuMicros,
  )
  printMeasured(`${concurrency} in flight`, measured)
  results.push({ concurrency, measured })
}
/** One ratio a round, ours over redlock's; none where this run left out so many in flight. */
function pairs(concurrency: number, figure: 'perSecond' | 'p50Ms'): readonly number[] {
  const measured = results.find((one) => one.concurrency === concurrency)?.measured ?? []
  const of = (name: string) => measured.find((one) => one.name === name)?.[figure] ?? []
  const theirs = of('redlock acquire + release')
  return of('fencepost claim + complete').map((value, round) => value / theirs[round]!)
}
printGoals(
  'claims',
  { 'cycle-64-over-redlock': pairs(64, 'perSecond'), 'cycle-lone-p50': pairs(1, 'p50Ms') },
  machine,
)
writeResults('claims', { redlock: '5.0.0-beta.2' }, results)

for (const client of [...plainClients, ...pipelinedClients, floor]) client.disconnect()
