// The promise of the first page: a storm of duplicates is executed once. Real nodes, real processes.
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, SHORT_LEASE, startSidecar } from '../support/sidecar.ts'
import { testsOfStorms } from './storms.ts'

/** `storm.long.test.ts` sends five times as many. */
testsOfStorms(2_000, 100)

test('a sidecar killed while the application works: 409 before the lease ends, then attempt 2 with a larger token', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using application = await startCountingApplication()
  const env = { ...between(servers, application), ...SHORT_LEASE }
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
    'the retry to be executed after the lease',
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
})

test('a client that disconnects gets its stored answer on retry, and the application was called once', async () => {
  await using servers = await startRedisServers(5, { founded: true })
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({ ...between(servers, application), ...PATIENT })
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
})
