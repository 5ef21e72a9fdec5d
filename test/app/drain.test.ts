import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { startSidecar } from '../support/sidecar.ts'

test('what is still under way after limits.drain is cut off, and the process ends by itself', async () => {
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_UPSTREAM: application.url,
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
