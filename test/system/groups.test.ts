// Two quorum groups of three real nodes each: every identity is on one of them, and a lost group loses only its own.
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { isWork } from '../../src/core/request/identity.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { posted } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { seriesOf } from '../support/series.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const IDENTITIES = 120
const COPIES = 5

const SETTINGS = {
  ...PATIENT,
  // A busy machine must not look like slow nodes.
  FENCEPOST_READINESS_LATENCY_GATE: 'report',
  // Every answer is one of the nodes.
  FENCEPOST_OUTCOME_CACHE: '0B',
}

const pay = async ({ proxy }: Sidecar, key: string) => {
  const response = await posted(`${proxy}/payments`, { 'idempotency-key': key }, key)
  const idempotency = response.headers.get('idempotency-status') ?? ''
  return { key, status: response.status, idempotency, body: await response.text() }
}

/** As clients do: a machine without time for so many at once answers 503, and then they come again. */
const paid = (sidecar: Sidecar, key: string) =>
  eventually(
    `an answer that decides about ${key}`,
    async () => {
      const answer = await pay(sidecar, key)
      return answer.status !== 503 && answer
    },
    { withinMs: 60_000, everyMs: 1_000 },
  )

const readiness = async ({ admin }: Sidecar) => {
  const response = await fetch(`${admin}/readyz`)
  return { status: response.status, body: await response.text() }
}

/** Of requests, as one node has them. */
async function recordsOn(url: string): Promise<string[]> {
  const client = new Redis(url)
  try {
    return (await client.keys('dedup:*')).filter(isWork)
  } finally {
    client.disconnect()
  }
}

test('each request of a storm on two groups is executed once; one group is lost, and the other goes on', async () => {
  await using servers = await startRedisServers(6)
  await using application = await startCountingApplication()
  const [one, two] = [servers.urls.slice(0, 3), servers.urls.slice(3)]
  const start = (nodes: string) =>
    startSidecar({ ...SETTINGS, FENCEPOST_REDIS_NODES: nodes, FENCEPOST_UPSTREAM: application.url })
  await using first = await start(`one=${one};two=${two}`)
  // The order of groups, and of nodes in a group, does not matter.
  await using second = await start(`two=${two.toReversed()};one=${one}`)

  const keys = Array.from({ length: IDENTITIES }, (_, index) => `key-${index}`)
  const copies = keys.flatMap((key) => Array.from({ length: COPIES }, () => key))
  const answers = await Promise.all(copies.map((key, at) => paid(at % 2 === 0 ? first : second, key)))
  expect(answers.filter(({ status }) => status !== 201 && status !== 409)).toEqual([])
  expect(keys.map((key) => application.of(key).length)).toEqual(keys.map(() => 1))

  const onGroup = async (urls: readonly string[]) => new Set((await Promise.all(urls.map(recordsOn))).flat())
  const [onOne, onTwo] = [await onGroup(one), await onGroup(two)]
  expect([...onOne].filter((record) => onTwo.has(record))).toEqual([])
  expect(onOne.size + onTwo.size).toBe(IDENTITIES)
  expect(Math.min(onOne.size, onTwo.size)).toBeGreaterThan(IDENTITIES / 5)

  for (const index of [4, 5]) servers.pause(index)
  await eventually('the loss to be noticed', async () => (await readiness(first)).body.includes('two'))
  // What a machine without time refuses of the other group is answered when it is asked again.
  const again = await eventually('those of the other group to be answered', async () => {
    const all = await Promise.all(keys.map((key) => pay(first, key)))
    return all.filter(isReplayed).length >= onOne.size && all
  })
  const refused = again.filter(({ status }) => status === 503)
  expect([again.filter(isReplayed).length, refused.length]).toEqual([onOne.size, onTwo.size])
  const fresh = await Promise.all(keys.map((key) => pay(second, `fresh-${key}`)))
  for (const { key, status } of fresh)
    expect([key, application.of(key).length]).toEqual([key, status === 201 ? 1 : 0])
  const done = fresh.filter(({ status }) => status === 201).length
  expect((await onGroup(one)).size).toBe(onOne.size + done)
  expect(done).toBeGreaterThan(IDENTITIES / 5)
  expect(done).toBeLessThan((IDENTITIES * 4) / 5)

  // It stays ready for the others, and says whose identities are refused.
  expect(await readiness(first)).toMatchObject({
    status: 200,
    body: expect.stringContaining('no majority can vote and take writes in two: its identities are refused'),
  })
  const metrics = seriesOf(await (await fetch(`${first.admin}/metrics`)).text())
  expect(metrics.get('fencepost_quorum_required')).toBe(2)
  expect(metrics.get('fencepost_quorum_nodes')).toBe(3)
  expect(metrics.get('fencepost_quorum_reachable_nodes')).toBe(1)
  expect(metrics.get(`fencepost_redis_node_up{node="${servers.names[2]}"}`)).toBe(1)
  expect(metrics.get(`fencepost_redis_node_up{node="${servers.names[5]}"}`)).toBe(0)
  expect(metrics.get('fencepost_readiness_failing{reason="quorum"}')).toBe(1)

  // A new sidecar can't know whether an operator changed the groups meanwhile: it waits, and makes no claim.
  await using late = await start(`one=${one};two=${two}`)
  expect((await readiness(late)).status).toBe(503)
  expect((await Promise.all(keys.slice(0, 10).map((key) => pay(late, `late-${key}`)))).map(statusOf)).toEqual(
    Array(10).fill(503),
  )

  for (const index of [4, 5]) servers.resume(index)
  for (const sidecar of [first, late]) {
    await eventually(
      'every identity to be answered again',
      async () => (await Promise.all(keys.map((key) => pay(sidecar, key)))).every(isReplayed),
      { withinMs: 40_000, everyMs: 100 },
    )
    await eventually('it to be ready', async () => (await readiness(sidecar)).status === 200)
  }
  expect(keys.map((key) => application.of(key).length)).toEqual(keys.map(() => 1))
})

const statusOf = ({ status }: { status: number }) => status
const isReplayed = ({ status, idempotency }: { status: number; idempotency: string }) =>
  status === 201 && idempotency === 'replayed'
