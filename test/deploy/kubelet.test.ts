/**
 * What the kubelet does with a native sidecar, done to real processes: it is started first and the application only
 * after its startup probe; at the end the application gets SIGTERM, then the sidecar; and when the grace period is used
 * up both get SIGTERM at once and are killed two seconds later.
 *
 * Source: Kubernetes, KEP-753 "Sidecar containers", section "Termination of containers".
 */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { runningClock } from '../support/held-clock.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

/** The kubelet's, after the grace period. */
const LAST_MS = 2_000

const pay = (proxy: string, key: string) =>
  fetch(`${proxy}/payments`, { method: 'POST', headers: { 'Idempotency-Key': key }, body: '{}' })

test('it starts before the application and without the nodes: its startup probe needs neither', async () => {
  const upstream = `http://127.0.0.1:${await freePort()}`
  const nodes = await Promise.all([0, 1, 2].map(async () => `redis://127.0.0.1:${await freePort()}`))
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: nodes.join(),
    FENCEPOST_UPSTREAM: upstream,
  })
  await sidecar.process.http(`${sidecar.admin}/startupz`, 200)
  await sidecar.process.http(`${sidecar.admin}/livez`, 200)
  // The pod gets no requests yet: that is up to readiness.
  await sidecar.process.http(`${sidecar.admin}/readyz`, 503)
})

test('an application that is not there yet is 502, and the same request is executed when it is', async () => {
  const port = await freePort()
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_UPSTREAM: `http://127.0.0.1:${port}`,
    ...PATIENT,
  })
  const key = randomUUID()
  expect((await pay(sidecar.proxy, key)).status).toBe(502)
  const application = createServer((_request, response) => response.writeHead(201).end())
  await new Promise<void>((resolve) => application.listen(port, '127.0.0.1', resolve))
  try {
    expect((await pay(sidecar.proxy, key)).status).toBe(201)
  } finally {
    application.close()
    application.closeAllConnections()
  }
})

test('SIGTERM after the application’s end: the sidecar exits with 0 in the kubelet’s last two seconds', async () => {
  await using nodes = await startRedisServers(3)
  const application = await startApplication()
  await using sidecar = await startSidecar({ ...between(nodes, application), ...PATIENT })
  expect((await pay(sidecar.proxy, randomUUID())).status).toBe(201)
  await application[Symbol.asyncDispose]()
  using clock = runningClock()
  const beganMs = clock.monoMs()
  expect(await sidecar.process.end()).toEqual({ code: 0, signal: null })
  expect(clock.monoMs() - beganMs).toBeLessThan(LAST_MS)
})

test('the grace period ends while a request is under way: it is not executed again before its lease ends', async () => {
  await using nodes = await startRedisServers(3)
  await using application = await startApplication()
  const held = Promise.withResolvers<void>()
  application.respond = async (_request, response) => {
    await held.promise
    response.writeHead(201).end()
  }
  const env = { ...between(nodes, application), FENCEPOST_DRAIN_TIMEOUT: '25s', ...PATIENT }
  await using sidecar = await startSidecar(env)
  const key = randomUUID()
  const lost = pay(sidecar.proxy, key).then(
    () => 'answered',
    () => 'cut',
  )
  await eventually('the application has the request', () => application.seen.length === 1)
  // SIGTERM and, two seconds later, SIGKILL: the drain (25 s) is not over by then.
  const startedMs = performance.now()
  sidecar.process.signal('SIGTERM')
  await eventually('two seconds have passed', () => performance.now() - startedMs >= LAST_MS)
  expect(sidecar.process.running).toBe(true)
  await sidecar.process.end({ signal: 'SIGKILL' })
  expect(await lost).toBe('cut')

  await using next = await startSidecar(env)
  const retried = await pay(next.proxy, key)
  expect(retried.status).toBe(409)
  expect(Number(retried.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(application.seen).toHaveLength(1)
  held.resolve()
})
