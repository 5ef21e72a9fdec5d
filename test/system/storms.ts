/** Storms of duplicates as tests: each identity is executed once. Real nodes, real processes. */
import { Pool } from 'undici'
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

const CONCURRENCY = 100

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

export function testsOfStorms(requests: number, identities: number): void {
  test(`${requests} requests of ${identities} identities through two sidecars on five real nodes: ${identities} executions`, async () => {
    await using servers = await startRedisServers(5, { founded: true })
    await using application = await startCountingApplication()
    const env = { ...between(servers, application), ...PATIENT }
    await using one = await startSidecar(env)
    await using other = await startSidecar(env)

    const seen = await storm([one.proxy, other.proxy], requests, identities, 'healthy')
    expect(application.executions.length).toBe(identities)
    expectOnceEach(seen, (key) => application.of(key).length)
    expect([...seen.values()].flat().length).toBe(requests)
  })

  test('the same with two of five nodes stopped; with three stopped 503 with Retry-After and no execution', async () => {
    await using servers = await startRedisServers(5, { founded: true })
    await using application = await startCountingApplication()
    await using sidecar = await startSidecar({ ...between(servers, application), ...PATIENT })
    await servers.kill(0)
    await servers.kill(3)

    const seen = await storm([sidecar.proxy], requests, identities, 'two-down')
    expect(application.executions.length).toBe(identities)
    expectOnceEach(seen, (key) => application.of(key).length)

    await servers.kill(4)
    const refused = await storm([sidecar.proxy], 200, 50, 'three-down')
    const answers = [...refused.values()].flat()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
    expect(answers.every(({ retryAfter }) => Number(retryAfter) >= 1)).toBe(true)
    expect(application.executions.length).toBe(identities)
  })
}
