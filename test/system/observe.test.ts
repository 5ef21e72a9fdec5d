// Observe before you enforce: a storm of duplicates is executed as if no sidecar was there, the report says what would have been, and
// its routes file enforces it. Real nodes, real processes.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { ObservedRow } from '../../src/core/health/observations.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { posted } from '../support/post.ts'
import { startFencepost } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

const OBSERVING = `
routes:
  - name: payments
    match: { methods: [POST], paths: [/payments] }
    mode: observe
`
const PAYMENTS = 20
const COPIES = 10

test('a storm is executed in full and reported; the routes of the report execute it once', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-observe-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const routes = join(folder, 'routes.yaml')
  await writeFile(routes, OBSERVING)
  await using servers = await startRedisServers(5, { founded: true })
  await using application = await startCountingApplication()
  const env = { ...PATIENT, ...between(servers, application), FENCEPOST_CONFIG: routes }
  const send = (proxy: string, headers: Record<string, string>, body = '{"amount":1}') =>
    posted(`${proxy}/payments`, { 'content-type': 'application/json', ...headers }, body)
  const storm = async (proxy: string): Promise<string[]> => {
    const names = Array.from({ length: PAYMENTS * COPIES }, (_, at) => `key-${at % PAYMENTS}`)
    const answers = await Promise.all(names.map((key) => send(proxy, { 'idempotency-key': key })))
    return answers.map(({ status, headers }) => `${status} ${headers.get('idempotency-status')}`)
  }
  const report = async (...args: string[]) => {
    await using run = startFencepost(['observe', 'report', ...args], { env })
    const exit = await run.exited
    return { ...exit, output: run.output }
  }

  {
    await using sidecar = await startSidecar(env)
    expect(new Set(await storm(sidecar.proxy))).toEqual(new Set(['201 bypassed']))
    expect(application.executions).toHaveLength(PAYMENTS * COPIES)
    const seen = async () => {
      const { code, output } = await report(sidecar.admin, '--json')
      expect(code, output).toBe(0)
      const { observed } = JSON.parse(output) as { observed: ObservedRow[] }
      return Map.groupBy(observed, ({ would }) => would)
    }
    const would = await eventually('everything to be observed', async () => {
      const counts = [...(await seen())].map(
        ([word, rows]) => [word, rows.reduce((sum, { count }) => sum + count, 0)] as const,
      )
      return counts.reduce((sum, [, count]) => sum + count, 0) === PAYMENTS * COPIES
        ? Object.fromEntries(counts)
        : undefined
    })
    const { executed, replayed_other: other = 0, waited = 0, ...rest } = would
    expect(executed).toBe(PAYMENTS)
    expect(other + waited).toBe(PAYMENTS * (COPIES - 1))
    expect(rest).toEqual({})

    // Two without a key: the report splits the route.
    await send(sidecar.proxy, {})
    const scraped = async () => (await fetch(new URL('/metrics', sidecar.admin))).text()
    await eventually('the metric', async () =>
      /fencepost_observed_total\{route="payments",would="executed"\} 21$/m.test(await scraped()),
    )
    // Nodes away: executed, answered, unknown.
    for (const at of [0, 1, 2]) await servers.kill(at)
    expect((await send(sidecar.proxy, { 'idempotency-key': 'without-nodes' })).status).toBe(201)
    expect((await fetch(new URL('/readyz', sidecar.admin))).status).toBe(200)
    await eventually('the unknown', async () =>
      /fencepost_observed_total\{route="payments",would="unknown"\} 1$/m.test(await scraped()),
    )
    const { output } = await report(sidecar.admin)
    expect(output).toContain('payments, by key: 201 requests would have been')
    expect(output).toContain('  of those refused or unknown: 1 unavailable')
    const file = output.slice(output.indexOf('routes:'))
    expect(file).toBe(`routes:
  - name: payments
    match:
      methods:
        - POST
      paths:
        - /payments
      headers:
        idempotency-key: present
    mode: header
  - name: payments-by-content
    match:
      methods:
        - POST
      paths:
        - /payments
    mode: content
`)
    await writeFile(routes, file)
  }

  await using fresh = await startRedisServers(5, { founded: true })
  await using enforcing = await startSidecar({ ...env, FENCEPOST_REDIS_NODES: fresh.nodesSetting })
  const before = application.executions.length
  const answers = await storm(enforcing.proxy)
  expect(application.executions.length - before).toBe(PAYMENTS)
  expect(answers.filter((answer) => answer === '201 created')).toHaveLength(PAYMENTS)
}, 120_000)
