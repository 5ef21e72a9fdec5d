import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

test('what is still under way after limits.drain is cut off, and the process exits by itself', async () => {
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_DRAIN_TIMEOUT: '300ms',
  })
  application.hold()
  const headers = { 'Idempotency-Key': 'never-answered' }
  const asked = fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers, body: '{}' }).catch(
    (error: unknown) => error,
  )
  await application.arrived(1)
  const startedMs = performance.now()
  sidecar.process.signal('SIGTERM')
  expect(await sidecar.process.exited).toMatchObject({ code: 0 })
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(300)
  expect(await asked).toBeInstanceOf(Error)
  expect(sidecar.process.output).toContain('draining')
})

test('a sidecar whose log has lost its reader finishes what is under way, and exits', async () => {
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_DRAIN_TIMEOUT: '60s',
  })
  application.hold()
  const pay = (key: string) =>
    fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers: { 'Idempotency-Key': key }, body: '{}' })
  const held = pay('under-way')
  await application.arrived(1)
  sidecar.process.deafen()
  // Each is a line of the log: the first meets the closed pipe, those while it drains must not end the process either.
  await eventually('it takes no more', () =>
    pay('under-way').then(
      () => false,
      () => true,
    ),
  )
  application.letGo()
  expect((await held).status).toBe(201)
  expect(await sidecar.process.exited).toEqual({ code: 0, signal: null })
})

test('a sidecar that waits for an orphan to be resolved refuses new work as soon as it is told to stop', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...PATIENT,
    ...between(servers, application),
    FENCEPOST_SETTLE_PATH: '/settle',
    FENCEPOST_SWEEP_INTERVAL: '100ms',
  })
  application.hold()
  const orphan = { session_id: 's', reserved_value: 'v', lease: '1s' }
  await postedJson(`${sidecar.api}/v1/reservations`, orphan)
  await application.arrived(1)
  expect(application.executions[0]?.url).toBe('/settle')
  const toldMs = performance.now()
  sidecar.process.signal('SIGTERM')
  await eventually('no connection is taken any more', async () => {
    const url = `${sidecar.api}/v1/reservations?value=v`
    const refused = await fetch(url).catch((error: unknown) => error)
    return refused instanceof Error
  })
  // The application has 5 s for its answer.
  expect(performance.now() - toldMs).toBeLessThan(4_000)
  expect(await sidecar.process.exited).toMatchObject({ code: 0 })
})
