/**
 * Lock libraries over five nodes beside ours: acquire and release, alone and many at once; the same over HTTP; and
 * twenty contenders for one key.
 *
 *     npm run bench -- locks
 *
 * Libraries of Node run in this process; redsync (Go) and Redisson (Java) as programs of their own, built from
 * `bench/peers` where `go` and `mvn` are installed, else left out with a sentence. Over HTTP: our reservation API over
 * five nodes, and Dapr's lock API with one Redis where `DAPRD` names a daprd. Only ratios mean anything.
 */
import { Redis } from 'ioredis'
import Redlock from 'redlock'
import { Pool } from 'undici'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { startDapr } from './support/dapr.ts'
import { cpuSecondsOf } from './support/load.ts'
import { type LockProgram, startRedisson, startRedsync } from './support/lock-programs.ts'
import { connectLeases } from './support/our-leases.ts'
import { importPeer, installPeers, peerVersion } from './support/peers.ts'
import { barChart, writePlot, writeResults } from './support/results.ts'
import {
  alternate,
  type Contender,
  closedLoop,
  type Measured,
  median,
  printMeasured,
} from './support/rounds.ts'

const LEASE_MS = 30_000
const CONTENDERS = 20
const JITTER_MS = 10

installPeers()
const { Redlock: SesameRedlock } = await importPeer('@sesamecare-oss/redlock')
const { createRedlock, IoredisAdapter } = await importPeer('redlock-universal')
const { RedlockMutex } = await importPeer('redis-semaphore')

await using servers = await startRedisServers(5)
await using ours = await connectLeases(servers.urls)
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  FENCEPOST_LOG_DECISIONS: '0',
  // As for our claims in this process: programs of four languages on one machine must not look like a lost quorum.
  FENCEPOST_NODE_DEADLINE: '1s',
  FENCEPOST_CLAIM_BUDGET: '5s',
})
await using dapr = await startDapr(servers.urls[0]!)
const clients = servers.urls.map((url) => new Redis(url))
const pipelined = servers.urls.map((url) => new Redis(url, { enableAutoPipelining: true }))

const PEERS = ['@sesamecare-oss/redlock', 'redlock-universal', 'redis-semaphore']
const pools: Pool[] = []
let serial = 0
type Cycle = (key: string) => Promise<unknown>
const contender = (name: string, cycle: Cycle): Contender => ({
  name,
  run: (operations, concurrency) =>
    closedLoop(operations, concurrency, async () => {
      serial += 1
      await cycle(`${name}:${serial}`)
    }),
})

const claimOf = (key: string) => ({
  key: `dedup:bench:bench:v1:${Buffer.from(key).toString('hex').slice(-64).padStart(64, '0')}`,
  fingerprint: '0'.repeat(64),
  leaseMs: LEASE_MS,
  retentionMs: 60_000,
  budgetMs: 5_000,
})
const fencepost: Cycle = async (key) => {
  const claimed = await ours.leases.claim(claimOf(key))
  if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
  await ours.leases.release(claimed.lease)
}
const redlock = (over: readonly Redis[]): Cycle => {
  const library = new Redlock(over)
  return async (key) => (await library.acquire([key], LEASE_MS)).release()
}
const sesame = new SesameRedlock(clients)
const adapters = clients.map((client) => new IoredisAdapter(client))

const programs = [startRedsync(servers.urls), startRedisson(servers.urls)].filter((one) => one !== undefined)
const libraries: readonly Contender[] = [
  contender('fencepost claim + release', fencepost),
  contender('redlock 5.0.0-beta.2', redlock(clients)),
  contender('redlock, autopipelined', redlock(pipelined)),
  contender(`@sesamecare-oss/redlock ${peerVersion('@sesamecare-oss/redlock')}`, async (key) =>
    (await sesame.acquire([key], LEASE_MS)).release(),
  ),
  contender(`redlock-universal ${peerVersion('redlock-universal')}`, async (key) => {
    const lock = createRedlock({ adapters, key, ttl: LEASE_MS })
    await lock.release(await lock.acquire())
  }),
  contender(`redis-semaphore ${peerVersion('redis-semaphore')} RedlockMutex`, async (key) => {
    const mutex = new RedlockMutex(clients, key, { lockTimeout: LEASE_MS, refreshInterval: 0 })
    await mutex.acquire()
    await mutex.release()
  }),
  ...programs.map((program: LockProgram) => program.contender),
  overHttp('fencepost over HTTP, five nodes', sidecar.process.pid, sidecar.api, {
    acquire: (key) => ['/v1/reservations', { session_id: 'bench', reserved_value: key, lease: '30s' }],
    release: (_, { reservation_id, fencing_token }) => [
      `/v1/reservations/${reservation_id}/release`,
      { fencing_token },
    ],
  }),
  ...(dapr === undefined
    ? []
    : [
        overHttp('Dapr lock API 1.14.0, one node', dapr.pid, dapr.url, {
          acquire: (key) => [
            '/v1.0-alpha1/lock/locks',
            { resourceId: key, lockOwner: 'bench', expiryInSeconds: 30 },
          ],
          release: (key) => ['/v1.0-alpha1/unlock/locks', { resourceId: key, lockOwner: 'bench' }],
        }),
      ]),
]

const results: { concurrency: number; measured: readonly Measured[] }[] = []
for (const concurrency of [1, 64]) {
  const measured = await alternate(libraries, concurrency === 1 ? 500 : 3_000, concurrency, 5)
  printMeasured(`${concurrency} in flight`, measured)
  results.push({ concurrency, measured })
}
const winners = await firstRounds()
writeResults('locks', Object.fromEntries(PEERS.map((name) => [name, peerVersion(name)])), {
  results,
  winners,
})
writePlot(
  'locks',
  barChart(
    'Locks acquired and released a second, for each second of processor time of the client',
    'median of the rounds',
    results.map(({ concurrency, measured }) => ({
      title: `${concurrency} in flight`,
      bars: measured.map(({ name, cpuMicrosPerOperation }) => ({
        label: name,
        value: 1e6 / median(cpuMicrosPerOperation),
      })),
    })),
  ),
)
for (const client of [...clients, ...pipelined]) client.disconnect()
for (const program of programs) await program[Symbol.asyncDispose]()
for (const pool of pools) await pool.close()

type Call = readonly [path: string, body: object]
type Reserved = { readonly reservation_id: string; readonly fencing_token: number }

function overHttp(
  name: string,
  pid: number,
  url: string,
  { acquire, release }: { acquire: (key: string) => Call; release: (key: string, got: Reserved) => Call },
): Contender {
  const pool = new Pool(url, { connections: 64, pipelining: 1 })
  pools.push(pool)
  const call = async ([path, body]: Call): Promise<Reserved> => {
    const headers = { 'content-type': 'application/json' }
    const response = await pool.request({ method: 'POST', path, headers, body: JSON.stringify(body) })
    const text = await response.body.text()
    if (response.statusCode >= 300) throw new Error(`${name} answered ${response.statusCode}: ${text}`)
    return (text === '' ? {} : JSON.parse(text)) as Reserved
  }
  const cycle: Cycle = async (key) => {
    const plain = key.replace(/[^a-zA-Z0-9:.-]/g, '-')
    await call(release(plain, await call(acquire(plain))))
  }
  return { ...contender(name, cycle), cpuMicros: () => cpuSecondsOf([pid]) * 1e6 }
}

/**
 * In how many of a hundred races of twenty contenders, all starting within ten milliseconds, one won at the first try.
 * Every contender has its own connections: over shared ones all nodes would see the same order.
 */
async function firstRounds(): Promise<Record<string, number>> {
  await using stack = new AsyncDisposableStack()
  const tries: Record<string, ((key: string) => Promise<boolean>)[]> = {
    'fencepost claim': [],
    'redlock, one try': [],
  }
  for (let index = 0; index < CONTENDERS; index += 1) {
    const own = stack.use(await connectLeases(servers.urls))
    tries['fencepost claim']!.push(
      async (key) => (await own.leases.claim({ ...claimOf(key), budgetMs: 100 })).kind === 'granted',
    )
    const nodes = servers.urls.map((url) => new Redis(url))
    stack.defer(() => {
      for (const client of nodes) client.disconnect()
    })
    const library = new Redlock(nodes, { retryCount: 0 })
    tries['redlock, one try']!.push((key) =>
      library.acquire([key], LEASE_MS).then(
        () => true,
        () => false,
      ),
    )
  }
  const races = 100
  const won: Record<string, number> = {}
  for (const [name, attempts] of Object.entries(tries)) {
    won[name] = 0
    for (let race = 0; race < races; race += 1) {
      const all = await Promise.all(
        attempts.map(async (attempt) => {
          await new Promise((resolve) => setTimeout(resolve, Math.random() * JITTER_MS))
          return attempt(`race:${name}:${race}`)
        }),
      )
      won[name] += all.filter(Boolean).length === 1 ? 1 : 0
    }
    console.log(
      `${name}: of ${races} races of ${CONTENDERS} within ${JITTER_MS} ms, ${won[name]} had one winner at the first try`,
    )
  }
  return won
}
