/**
 * How much load five nodes carry, computed from measurements made here, and checked by a simulation of a hundred
 * sidecars.
 *
 *     npm run bench -- capacity [price of a vCPU-hour, default 0.04] [--idle-sidecars 300] [--only-idle]
 *
 * Measured: processor time of a node for one claim and its completion and for a replay, of the sidecar for a protected
 * request, and memory of a record. Computed: requests a second at which a node is busy for 70 %, sidecars for them, how
 * many the memory of a node carries for a day, and what a million requests cost. Simulated: the production core of a
 * hundred sidecars on a virtual clock, whose nodes serve one command at a time for the measured time: whether they
 * carry the computed rate, and what happens beyond it. At last a fleet of idle sidecars, real but for their listeners: what each costs
 * every node, and so what a thousand do. Take as many as the machine has processors for.
 */
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { createLeases } from '../src/core/claims/leases.ts'
import type { Clock } from '../src/core/clock.ts'
import type { Leases } from '../src/core/ports.ts'
import { createRedlockQuorum } from '../src/redlock/rounds.ts'
import { Scheduler } from '../test/simulation/scheduler.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { seededRandom } from '../test/support/seeded-random.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { VIRTUAL_START_WALL_MS } from '../test/support/virtual-clock.ts'
import { printGoals } from './support/goal-report.ts'
import { LOOKS_A_MINUTE_MIN, measureIdleCost } from './support/idle-cost.ts'
import { cpuSecondsOf, startLoad } from './support/load.ts'
import { watchMachine } from './support/machine.ts'
import { NodeQueue } from './support/node-queue.ts'
import { startBenchApplication } from './support/peers.ts'
import { lineChart, writePlot, writeResults } from './support/results.ts'
import { median } from './support/rounds.ts'

const NODES = 5
const SIDECARS = 100
/** Memory of a node for records; what is left of its machine is Redis' own, for copying on write. */
const NODE_GIB = 16
/** Beyond that, queues in front of a node grow faster than its work. */
const BUSY_SHARE = 0.7
const SEED = 20_261_120
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'idle-sidecars': { type: 'string', default: '300' }, 'only-idle': { type: 'boolean' } },
})
const pricePerHour = Number(positionals[0] ?? 0.04)
const idleSidecars = Number(values['idle-sidecars'])

type Costs = {
  /** Microseconds of one node's processor for a claim and its completion; for the claim that finds an outcome. */
  readonly nodeMicros: number
  readonly nodeMicrosOfReplay: number
  readonly sidecarMicros: number
  readonly bytesPerRecord: number
}

const machine = watchMachine()
if (values['only-idle'] !== true) await underLoad()
const idle = await measureIdleCost(idleSidecars)
const each = median(idle.percentEach)
console.log(`
idle: ${idleSidecars} sidecars without requests
  each takes of every node         ${each.toFixed(4)} % of a core; a thousand take ${(each * 1_000).toFixed(0)} %
  a node by itself                 ${idle.alonePercent.toFixed(2)} %
  polls a node, each a minute   ${idle.pollsAMinute.toFixed(0)}`)
const starved = idle.pollsAMinute < LOOKS_A_MINUTE_MIN
if (starved)
  console.log(
    `  Not judged: fewer than ${LOOKS_A_MINUTE_MIN} polls. They were short of processor time; take fewer with --idle-sidecars.`,
  )
printGoals('capacity', { 'idle-node': starved ? [] : idle.percentEach }, machine)

async function underLoad(): Promise<void> {
  const costs = await measure()
  const computed = computedFrom(costs)
  const simulated = await simulatedWith(costs)
  writeResults('capacity', {}, { costs, computed, simulated })
  writePlot(
    'capacity',
    lineChart(
      `${SIDECARS} simulated sidecars on ${NODES} nodes: latency of a claim and its completion`,
      { x: 'share of a node that is busy', y: 'ms' },
      [
        { label: 'p50', points: simulated.map((one) => [one.share, one.p50Ms]) },
        { label: 'p99', points: simulated.map((one) => [one.share, one.p99Ms]) },
      ],
    ),
  )
}

function computedFrom(costs: Costs) {
  const perSecond = (BUSY_SHARE * 1e6) / costs.nodeMicros
  const cpuMicrosPerRequest = costs.nodeMicros * NODES + costs.sidecarMicros
  const computed = {
    protectedPerSecond: perSecond,
    replaysPerSecond: (BUSY_SHARE * 1e6) / costs.nodeMicrosOfReplay,
    sidecarCores: (perSecond * costs.sidecarMicros) / 1e6,
    perSecondByMemory: (NODE_GIB * 2 ** 30) / costs.bytesPerRecord / 86_400,
    pricePerMillion: ((cpuMicrosPerRequest * 1e6) / 1e6 / 3_600) * pricePerHour,
  }
  console.log(`measured
  one node, claim + complete       ${costs.nodeMicros.toFixed(1)} µs
  one node, replay                 ${costs.nodeMicrosOfReplay.toFixed(1)} µs
  sidecar, one protected request   ${costs.sidecarMicros.toFixed(0)} µs
  one record on a node             ${costs.bytesPerRecord.toFixed(0)} bytes
computed, with each node on one core and busy for ${BUSY_SHARE * 100} % of it
  protected requests a second      ${perSecond.toFixed(0)} for each group of ${NODES} nodes; n groups carry n times as many
  cores of sidecars for them       ${computed.sidecarCores.toFixed(1)}
  requests a second, all day long, whose records of 24 h fill ${NODE_GIB} GiB of a node: ${computed.perSecondByMemory.toFixed(0)}
  processor time of a million requests at ${pricePerHour} a vCPU-hour: ${computed.pricePerMillion.toFixed(4)}`)
  return computed
}

async function simulatedWith(costs: Costs) {
  console.log(`\nsimulated: ${SIDECARS} sidecars, seed ${SEED}
  share of the nodes   offered/s   carried/s    p50 ms    p99 ms   refused`)
  const simulated = []
  for (const share of [0.3, 0.5, 0.7, 0.9, 1.1]) {
    const one = await simulate(share, costs)
    simulated.push(one)
    console.log(
      `  ${`${(share * 100).toFixed(0)} %`.padEnd(18)} ${one.offeredPerSecond.toFixed(0).padStart(11)} ${one.carriedPerSecond.toFixed(0).padStart(11)} ${one.p50Ms.toFixed(2).padStart(9)} ${one.p99Ms.toFixed(2).padStart(9)} ${`${(one.refusedShare * 100).toFixed(1)} %`.padStart(9)}`,
    )
  }
  return simulated
}

async function measure(): Promise<Costs> {
  await using servers = await startRedisServers(NODES)
  await using application = await startBenchApplication()
  await using load = startLoad()
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    FENCEPOST_LOG_DECISIONS: '0',
    // The nodes must answer the replays.
    FENCEPOST_OUTCOME_CACHE: '0B',
    FENCEPOST_TENANT_NEW_RECORDS: '1000000',
  })
  const nodePids = servers.urls.map((_, index) => servers.at(index).process.pid)
  const client = new Redis(servers.urls[0]!)
  const usedBytes = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
  const round = async (prefix: string, count: number, requests: number) => {
    const [nodes, own] = [cpuSecondsOf(nodePids), cpuSecondsOf([sidecar.process.pid])]
    const done = await load.run({
      url: sidecar.proxy,
      method: 'POST',
      path: '/payments',
      bodyBytes: 200,
      key: { prefix, count },
      load: { kind: 'closed', requests, concurrency: 64 },
    })
    const micros = (seconds: number) => (seconds * 1e6) / done.requests
    return {
      node: micros(cpuSecondsOf(nodePids) - nodes) / NODES,
      sidecar: micros(cpuSecondsOf([sidecar.process.pid]) - own),
    }
  }
  await round('warm', Number.MAX_SAFE_INTEGER, 5_000)
  const [bytesBefore, keysBefore] = [await usedBytes(), await client.dbsize()]
  const unique = []
  for (let index = 0; index < 5; index += 1)
    unique.push(await round(`unique-${index}`, Number.MAX_SAFE_INTEGER, 8_000))
  const bytesPerRecord = ((await usedBytes()) - bytesBefore) / ((await client.dbsize()) - keysBefore)
  client.disconnect()
  // Each sent twice.
  await round('replayed', 10_000, 10_000)
  const replays = await round('replayed', 10_000, 10_000)
  return {
    nodeMicros: median(unique.map((one) => one.node)),
    nodeMicrosOfReplay: replays.node,
    sidecarMicros: median(unique.map((one) => one.sidecar)),
    bytesPerRecord,
  }
}

async function simulate(share: number, costs: Costs) {
  const VIRTUAL_MS = 1_000
  const scheduler = new Scheduler()
  const dice = seededRandom(SEED)
  const clock: Clock = {
    monoMs: () => scheduler.nowMs,
    wallMs: () => VIRTUAL_START_WALL_MS + scheduler.nowMs,
    timer: (delayMs, fire) => scheduler.after(Math.max(0, delayMs), fire),
  }
  const queues = Array.from(
    { length: NODES },
    (_, index) => new NodeQueue(index, scheduler, costs.nodeMicros / 2 / 1_000),
  )
  const events = { publish: () => {} }
  const sidecars: Leases[] = Array.from({ length: SIDECARS }, () => {
    const nodes = queues.map((queue) => queue.seenFrom(() => 0.1 + dice.fraction() * 0.4))
    const quorum = createRedlockQuorum({ nodes, clock, events })
    return createLeases({ quorum, clock, random: dice, events })
  })
  const offeredPerSecond = (share * 1e6) / costs.nodeMicros
  const durations: number[] = []
  let refused = 0
  let serial = 0
  const request = async (leases: Leases) => {
    const begunMs = scheduler.nowMs
    serial += 1
    const claimed = await leases.claim({
      key: `dedup:bench:bench:v1:${String(serial).padStart(64, '0')}`,
      fingerprint: '0'.repeat(64),
      leaseMs: 30_000,
      retentionMs: 60_000,
      budgetMs: 100,
    })
    if (claimed.kind !== 'granted') {
      refused += 1
      return
    }
    await leases.complete(claimed.lease, { kind: 'tombstone', status: 201, completedAtWallMs: 0 })
    durations.push(scheduler.nowMs - begunMs)
  }
  // Arrivals without memory, as of many independent clients.
  let offered = 0
  for (let atMs = 0; atMs < VIRTUAL_MS; atMs += (-Math.log(1 - dice.fraction()) * 1_000) / offeredPerSecond) {
    const leases = sidecars[Math.floor(dice.fraction() * SIDECARS)]!
    offered += 1
    scheduler.at(atMs, () => void request(leases))
  }
  await scheduler.run(VIRTUAL_MS + 1_000)
  durations.sort((a, b) => a - b)
  return {
    share,
    offeredPerSecond: offered,
    carriedPerSecond: durations.length,
    refusedShare: refused / offered,
    p50Ms: durations[Math.floor(durations.length * 0.5)] ?? Number.NaN,
    p99Ms: durations[Math.floor(durations.length * 0.99)] ?? Number.NaN,
  }
}
