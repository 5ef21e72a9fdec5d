/**
 * What a replay costs the nodes when no sidecar remembers its outcome: the claim that finds an outcome, beside the claim of a free key.
 *
 *     npm run bench -- stored-replay [in flight, default 64]
 *
 * Claims alone, in this process, without the memory of outcomes that a sidecar has; five real nodes. Processor time is that of the
 * nodes' own count (INFO cpu), so the sockets of the claims are in it and another program's work is not.
 */
import { Redis } from 'ioredis'
import { printGoals } from './support/goal-report.ts'
import { watchMachine } from './support/machine.ts'
import { connectLeases } from './support/our-leases.ts'
import { writeResults } from './support/results.ts'
import { alternate, type Contender, closedLoop, printMeasured } from './support/rounds.ts'
import { serverCpuMicrosOf } from './support/server-cpu.ts'
import { startWarmNodes } from './support/warm-nodes.ts'

const concurrency = Number(process.argv[2] ?? 64)
const OPERATIONS = 6_000
const ROUNDS = 9
const RECORD_BYTES = 600
const OUTCOME = {
  kind: 'response',
  status: 201,
  headers: [['Content-Type', 'application/json']],
  body: Buffer.from(JSON.stringify({ id: 'pay_1', status: 'captured', note: 'x'.repeat(158) })),
  completedAtWallMs: 0,
} as const

await using servers = await startWarmNodes(5, RECORD_BYTES)
await using ours = await connectLeases(servers.urls)
const clients = servers.urls.map((url) => new Redis(url))
let serial = 0

const claim = async (id: number) =>
  ours.leases.claim({
    key: `dedup:bench:bench:v1:${String(id).padStart(64, '0')}`,
    fingerprint: '0'.repeat(64),
    leaseMs: 30_000,
    retentionMs: 600_000,
    budgetMs: 5_000,
  })

const stored = Array.from({ length: OPERATIONS }, () => serial++)
await closedLoop(OPERATIONS, concurrency, async (index) => {
  const claimed = await claim(stored[index]!)
  if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
  const done = await ours.leases.complete(claimed.lease, OUTCOME)
  if (done.kind !== 'recorded') throw new Error(`a completion was ${done.kind}`)
})
const contender = (name: string, expected: string, keyOf: (index: number) => number): Contender => ({
  name,
  run: (operations, inFlight) =>
    closedLoop(operations, inFlight, async (index) => {
      const { kind } = await claim(keyOf(index))
      if (kind !== expected) throw new Error(`a claim was ${kind}, not ${expected}`)
    }),
})
const machine = watchMachine()
const measured = await alternate(
  [
    contender('claim of a stored outcome', 'duplicate', (index) => stored[index % OPERATIONS]!),
    contender('claim of a free key', 'granted', () => serial++),
  ],
  OPERATIONS,
  concurrency,
  ROUNDS,
  () => serverCpuMicrosOf(clients),
)
printMeasured(`${concurrency} in flight`, measured)
const [replay, free] = measured
printGoals(
  'stored-replay',
  {
    'stored-replay': replay!.serverCpuMicrosPerOperation.map(
      (micros, round) => micros / free!.serverCpuMicrosPerOperation[round]!,
    ),
  },
  machine,
)
writeResults('stored-replay', {}, { concurrency, measured })
for (const client of clients) client.disconnect()
