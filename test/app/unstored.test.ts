import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

test('an answer not recorded in time is recorded while the sidecar drains, and replayed after', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  const env = {
    ...between(servers, application),
    ...PATIENT,
    FENCEPOST_SETTLE_BUDGET: '50ms',
    // It ends as soon as the outcome is recorded; until then the nodes have to be found again.
    FENCEPOST_DRAIN_TIMEOUT: '15s',
  }
  const init = { method: 'POST', headers: { 'Idempotency-Key': '"pay-1"' }, body: '{"amount":1}' }
  {
    await using sidecar = await startSidecar(env)
    application.hold()
    const asked = fetch(`${sidecar.proxy}/payments`, init)
    await application.arrived(1)
    servers.pause(1)
    servers.pause(2)
    application.letGo()
    expect((await asked).headers.get('idempotency-status')).toBe('unstored')

    sidecar.process.signal('SIGTERM')
    await sidecar.process.line(/draining/)
    servers.resume(1)
    servers.resume(2)
    await sidecar.process.line(/answered before it was recorded: recorded/)
    expect(await sidecar.process.exited).toMatchObject({ code: 0 })
  }
  await using after = await startSidecar(env)
  const again = await fetch(`${after.proxy}/payments`, init)
  expect(again.headers.get('idempotency-status')).toBe('replayed')
  expect(application.of('"pay-1"')).toHaveLength(1)
})
