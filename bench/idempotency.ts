/**
 * The price of the quorum: one operation made idempotent in this process over five nodes, beside libraries that keep
 * their record on one Redis, and lose it with that one.
 *
 *     npm run bench -- idempotency
 *
 * Unique keys (the operation runs) and replays (the answer is read). The operation itself is empty.
 */
import { startRedisServers } from '../test/support/redis-servers.ts'
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

const POWERTOOLS = '@aws-lambda-powertools/idempotency'
const NODE_IDEMPOTENCY = '@node-idempotency/core'

installPeers()
await using servers = await startRedisServers(5)
await using ours = await connectLeases(servers.urls)

const { createClient } = await importPeer('@redis/client')
const { makeIdempotent, IdempotencyConfig } = await importPeer(POWERTOOLS)
const { CachePersistenceLayer } = await importPeer(`${POWERTOOLS}/cache`)
const { Idempotency } = await importPeer(NODE_IDEMPOTENCY)

const client = await createClient({ url: servers.urls[0]! }).connect()
const payment = { id: 'pay_1', status: 'captured', note: 'x'.repeat(158) }
const OUTCOME = {
  kind: 'response',
  status: 201,
  headers: [['Content-Type', 'application/json']],
  body: Buffer.from(JSON.stringify(payment)),
  completedAtWallMs: 0,
} as const

let inLambda = 0
const powertools = makeIdempotent(async () => payment, {
  persistenceStore: new CachePersistenceLayer({ client }),
  config: new IdempotencyConfig({
    useLocalCache: false,
    lambdaContext: { getRemainingTimeInMillis: () => 30_000, awsRequestId: String(inLambda++) },
  }),
})

/** Its storage port over the same client, as its Redis adapter fills it. */
const storage = {
  setIfNotExists: async (key: string, value: string, { ttl }: { ttl: number }) =>
    (await client.set(key, value, { NX: true, PX: ttl })) === 'OK',
  set: async (key: string, value: string, { ttl }: { ttl: number }) => {
    await client.set(key, value, { PX: ttl })
  },
  get: async (key: string) => (await client.get(key)) ?? undefined,
}
const nodeIdempotency = new Idempotency(storage, { cacheTTLMS: 60_000 })

const operations: Record<string, (key: string) => Promise<unknown>> = {
  'fencepost, five nodes': async (key) => {
    const claimed = await ours.leases.claim({
      key: `dedup:bench:bench:v1:${Buffer.from(key).toString('hex').slice(-64).padStart(64, '0')}`,
      fingerprint: '0'.repeat(64),
      leaseMs: 30_000,
      retentionMs: 60_000,
      budgetMs: 5_000,
    })
    if (claimed.kind === 'duplicate') return
    if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
    const done = await ours.leases.complete(claimed.lease, OUTCOME)
    if (done.kind !== 'recorded') throw new Error(`a completion was ${done.kind}`)
  },
  [`Powertools ${peerVersion(POWERTOOLS)}, one Redis`]: (key) => powertools({ key, amount: 100 }),
  [`${NODE_IDEMPOTENCY} ${peerVersion(NODE_IDEMPOTENCY)}, one Redis`]: async (key) => {
    const request = {
      headers: { 'idempotency-key': key },
      body: { amount: 100 },
      method: 'POST',
      path: '/payments',
    }
    const seen = await nodeIdempotency.onRequest(request)
    if (seen === undefined) await nodeIdempotency.onResponse(request, { body: payment })
  },
}

let serial = 0
const contenders = (keyOf: () => string): readonly Contender[] =>
  Object.entries(operations).map(([name, operation]) => ({
    name,
    run: (count, concurrency) =>
      closedLoop(count, concurrency, async () => {
        await operation(keyOf())
      }),
  }))

const results: { title: string; measured: readonly Measured[] }[] = []
for (const [title, keyOf] of [
  ['unique keys', () => `unique-${serial++}`],
  ['replays of one key', () => 'once'],
] as const) {
  for (const operation of Object.values(operations)) await operation('once')
  for (const concurrency of [1, 64]) {
    const measured = await alternate(contenders(keyOf), concurrency === 1 ? 500 : 3_000, concurrency, 5)
    printMeasured(`${title}, ${concurrency} in flight`, measured)
    results.push({ title: `${title}, ${concurrency} in flight`, measured })
  }
}
client.destroy()
const names = [POWERTOOLS, NODE_IDEMPOTENCY]
writeResults('idempotency', Object.fromEntries(names.map((name) => [name, peerVersion(name)])), results)
writePlot(
  'idempotency',
  barChart(
    'Idempotent operations a second',
    'median of the rounds',
    results.map(({ title, measured }) => ({
      title,
      bars: measured.map(({ name, perSecond }) => ({
        label: name,
        value: median(perSecond),
        min: Math.min(...perSecond),
        max: Math.max(...perSecond),
      })),
    })),
  ),
)
