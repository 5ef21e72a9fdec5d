// The promise of the first page: a storm of duplicates is carried out once. Real nodes, real processes.
import { Pool } from 'undici'
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

const REQUESTS = 10_000
const IDENTITIES = 500
const CONCURRENCY = 100

/** A lease that a test waits for, longer than a pause of the machine; the deadline is the largest that it allows. */
const SHORT_LEASE = {
  ...PATIENT,
  FENCEPOST_LEASE: '6s',
  FENCEPOST_NODE_DEADLINE: '300ms',
}

type Seen = {
  readonly status: number
  readonly body: string
  readonly idempotency: string
  readonly retryAfter: string
}

/** Sends `requests` over `identities`, `CONCURRENCY` at a time, to the sidecars in turn. */
async function storm(
  proxies: readonly string[],
  requests: number,
  identities: number,
  prefix: string,
): Promise<Map<string, Seen[]>> {
  const pools = proxies.map((proxy) => new Pool(proxy, { connections: CONCURRENCY, pipelining: 1 }))
  const seen = new Map<string, Seen[]>()
  let next = 0
  const worker = async () => {
    for (let i = next++; i < requests; i = next++) {
      const key = `${prefix}-${i % identities}`
      const pool = pools[i % pools.length]!
      const response = await pool.request({
        method: 'POST',
        path: '/payments',
        headers: { 'idempotency-key': key, 'content-type': 'application/json' },
        body: JSON.stringify({ key }),
      })
      const body = await response.body.text()
      const idempotency = String(response.headers['idempotency-status'] ?? '')
      const retryAfter = String(response.headers['retry-after'] ?? '')
      seen.set(key, [
        ...(seen.get(key) ?? []),
        { status: response.statusCode, body, idempotency, retryAfter },
      ])
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  await Promise.all(pools.map((pool) => pool.close()))
  return seen
}

function expectOnceEach(
  seen: ReadonlyMap<string, readonly Seen[]>,
  executionsOf: (key: string) => number,
): void {
  for (const [key, answers] of seen) {
    expect({ key, executions: executionsOf(key) }).toEqual({ key, executions: 1 })
    const bodies = new Set(answers.filter(({ status }) => status === 201).map(({ body }) => body))
    expect({ key, bodies: bodies.size }).toEqual({ key, bodies: 1 })
    const others = answers.filter(
      ({ status, retryAfter }) => status !== 201 && !(status === 409 && Number(retryAfter) >= 1),
    )
    expect({ key, others }).toEqual({ key, others: [] })
  }
}

test('10,000 requests of 500 identities through two sidecars on five real nodes: 500 executions', async () => {
  await using servers = await startRedisServers(5)
  await using application = await startCountingApplication()
  const env = {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    ...PATIENT,
  }
  await using one = await startSidecar(env)
  await using other = await startSidecar(env)

  const seen = await storm([one.proxy, other.proxy], REQUESTS, IDENTITIES, 'healthy')
  expect(application.executions.length).toBe(IDENTITIES)
  expectOnceEach(seen, (key) => application.of(key).length)
  expect([...seen.values()].flat().length).toBe(REQUESTS)
}, 120_000)

test('the same with two of five nodes stopped; with three stopped 503 with Retry-After and nothing executed', async () => {
  await using servers = await startRedisServers(5)
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    ...PATIENT,
  })
  await servers.kill(0)
  await servers.kill(3)

  const seen = await storm([sidecar.proxy], REQUESTS, IDENTITIES, 'two-down')
  expect(application.executions.length).toBe(IDENTITIES)
  expectOnceEach(seen, (key) => application.of(key).length)

  await servers.kill(4)
  const refused = await storm([sidecar.proxy], 200, 50, 'three-down')
  const answers = [...refused.values()].flat()
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
  expect(answers.every(({ retryAfter }) => Number(retryAfter) >= 1)).toBe(true)
  expect(application.executions.length).toBe(IDENTITIES)
}, 120_000)

test('a sidecar killed while the application works: 409 before the lease ends, then attempt 2 with a larger token', async () => {
  await using servers = await startRedisServers(5)
  await using application = await startCountingApplication()
  const env = {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    ...SHORT_LEASE,
  }
  await using doomed = await startSidecar(env)
  await using other = await startSidecar(env)
  const send = (proxy: string) =>
    fetch(`${proxy}/payments`, { method: 'POST', headers: { 'idempotency-key': 'killed' }, body: 'pay' })

  application.hold()
  const lost = send(doomed.proxy).catch(() => 'connection lost')
  await application.arrived(1)
  await doomed.process.end({ signal: 'SIGKILL' })
  expect(await lost).toBe('connection lost')

  const before = await send(other.proxy)
  expect(before.status).toBe(409)
  expect(Number(before.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(application.executions.length).toBe(1)

  application.letGo()
  const after = await eventually(
    'the retry to be carried out after the lease',
    async () => {
      const response = await send(other.proxy)
      return response.status === 201 ? response : undefined
    },
    { withinMs: 30_000, everyMs: 100 },
  )
  expect(after.headers.get('idempotency-status')).toBe('created')
  const [first, second] = application.executions
  expect(second?.attempt).toBe(2)
  expect(second?.token).toBeGreaterThan(first?.token ?? 0)
  expect(application.executions.length).toBe(2)
}, 60_000)

test('a client that disconnects gets its stored answer on retry, and the application was called once', async () => {
  await using servers = await startRedisServers(5)
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    ...PATIENT,
  })
  const send = (signal?: AbortSignal) =>
    fetch(`${sidecar.proxy}/payments`, {
      method: 'POST',
      headers: { 'idempotency-key': 'gone' },
      body: 'pay',
      ...(signal === undefined ? {} : { signal }),
    })

  application.hold()
  const client = new AbortController()
  const left = send(client.signal).catch((error: Error) => error.name)
  await application.arrived(1)
  client.abort()
  expect(await left).toBe('AbortError')
  application.letGo()

  const retry = await eventually('the stored answer', async () => {
    const response = await send()
    return response.status === 201 ? response : undefined
  })
  expect(retry.headers.get('idempotency-status')).toBe('replayed')
  expect(application.executions.length).toBe(1)
}, 60_000)
