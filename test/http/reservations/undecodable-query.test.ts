/** The program as it is built, and not its sources: what a bundler takes for a call without effect is not in it. */
import { expect, test } from 'vitest'
import { startSidecar } from '../../support/sidecar.ts'

// Bug: the check was there in the sources, and its only statement was left out of the program. A value that somebody held was called FREE.
test('the sidecar refuses a query that is no UTF-8, and calls no other value free', async () => {
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_PROXY_LISTEN: 'off',
  })
  const response = await fetch(`${sidecar.api}/v1/reservations?value=h%ffeld`)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ code: 'malformed-request' })
})
