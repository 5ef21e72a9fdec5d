/** A page in a browser on the machine of a gateway listener that has no token: it may make a check, as any client may, and end nothing. */
import { expect, test } from 'vitest'
import { duringTests } from '../../support/during-tests.ts'
import { type GatewayListener, startGatewayListener } from '../../support/gateway-listener.ts'

const gateway = duringTests(() => startGatewayListener())

async function granted(of: GatewayListener, key: string, headers: Record<string, string> = {}) {
  const answer = await fetch(`${of.origin}/v1/gateway/auth-request`, {
    headers: {
      'x-original-method': 'POST',
      'x-original-uri': '/things',
      'idempotency-key': key,
      ...headers,
    },
  })
  expect(answer.status).toBe(200)
  return answer.headers.get('fencepost-reservation-id') ?? ''
}

/**
 * Bug: a page whose name was led to 127.0.0.1 (DNS rebinding) made a check, read the id in its answer, and recorded an answer of its own: each
 * request with that key was told that it had been executed.
 */
test.each(['complete', 'release'])('%s of a page is refused, and the claim stands', async (call) => {
  const id = await granted(gateway, `page-${call}`)
  const end = (headers: Record<string, string>) =>
    fetch(`${gateway.origin}/v1/gateway/${call}`, {
      method: 'POST',
      headers: { 'fencepost-reservation-id': id, ...headers },
      body: '{"status":201}',
    })
  const refused = await end({ origin: gateway.origin })
  expect([refused.status, (await refused.json()) as unknown]).toEqual([
    403,
    expect.objectContaining({ code: 'page-refused' }),
  ])
  expect((await end({})).status).toBe(204)
})

test('the Origin of a client whose request a check is about is no matter', async () => {
  expect(await granted(gateway, 'of-a-client', { origin: 'https://shop.example' })).not.toBe('')
})

test('where a token is required it decides alone', async () => {
  await using guarded = await startGatewayListener({ options: { tokens: () => ['secret'] } })
  const token = { 'fencepost-gateway-token': 'secret' }
  const id = await granted(guarded, 'guarded', token)
  const done = await fetch(`${guarded.origin}/v1/gateway/complete`, {
    method: 'POST',
    headers: { 'fencepost-reservation-id': id, origin: 'https://shop.example', ...token },
    body: '{"status":201}',
  })
  expect(done.status).toBe(204)
})
