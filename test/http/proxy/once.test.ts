import { expect, test } from 'vitest'
import { startApplication } from '../../support/application.ts'
import { startProxy } from '../../support/proxy.ts'

test('a request sent twice is executed once, and answered twice alike', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  const first = await proxy.post('k-1')
  const second = await proxy.post('k-1')

  expect([first.status, second.status]).toEqual([201, 201])
  expect(first.headers.get('idempotency-status')).toBe('created')
  expect(second.headers.get('idempotency-status')).toBe('replayed')
  expect(await second.text()).toBe(await first.text())
  expect(application.seen.length).toBe(1)
})
