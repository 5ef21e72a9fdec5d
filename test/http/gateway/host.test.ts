/** The host of the request that a gateway describes: not that of the check, which is the sidecar's own. */
import { expect, test } from 'vitest'
import { startGatewayListener } from '../../support/gateway-listener.ts'
import { route } from '../../support/proxy.ts'

test.each([
  ['forward-auth', 'x-forwarded-'],
  ['auth-request', 'x-original-'],
])('%s: where the host identifies a request, two hosts have two records', async (call, prefix) => {
  const named = ['host', 'idempotency-key'].map((name) => ({ in: 'header', name }) as const)
  const byHost = route({ key: { ...route().key, headers: [], parts: named } })
  await using gateway = await startGatewayListener({ options: { routes: [byHost] } })
  const check = async (host: string) => {
    const described = { [`${prefix}method`]: 'POST', [`${prefix}uri`]: '/things', [`${prefix}host`]: host }
    const headers = { 'idempotency-key': '1001', ...described }
    return (await fetch(`${gateway.origin}/v1/gateway/${call}`, { headers })).status
  }
  expect([await check('acme.example'), await check('globex.example')]).toEqual([200, 200])
  expect(await check('acme.example')).not.toBe(200)
})
