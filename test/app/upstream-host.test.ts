/** Which host the application reads, as operators choose it; over TLS the certificate is that of its address all the same. */
import { once } from 'node:events'
import { request } from 'node:http'
import { createServer } from 'node:https'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { makeAuthority } from '../support/certificates.ts'
import { listening } from '../support/listening.ts'
import { between, startSidecar } from '../support/sidecar.ts'

/** What a client that asks for this host is answered. */
async function answered(origin: string, host: string, method = 'GET'): Promise<string> {
  const sent = request(`${origin}/things`, { method, headers: { host, 'idempotency-key': host } }).end()
  const [response] = await once(sent, 'response')
  return `${response.statusCode} ${await text(response)}`
}

test.each([
  ['an address', '127.0.0.1'],
  ['a name', 'localhost'],
])(
  'an application with a certificate for %s reads the host of each client, over one connection',
  async (_what, name) => {
    using authority = makeAuthority()
    const { cert, key } = authority.sign('application')
    const connections = new Set<Socket>()
    const application = createServer({ cert: cert(), key: key() }, ({ headers, socket }, response) => {
      connections.add(socket)
      response.end(headers.host)
    })
    const { port } = await listening(application)
    await using sidecar = await startSidecar({
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: `https://${name}:${port}`,
      FENCEPOST_UPSTREAM_CONNECTIONS: '1',
      NODE_EXTRA_CA_CERTS: authority.caFile,
    })
    for (const host of ['shop.example', 'other.example', 'shop.example'])
      expect(await answered(sidecar.proxy, host)).toBe(`200 ${host}`)
    expect(await answered(sidecar.proxy, 'third.example', 'POST')).toBe('200 third.example')
    expect(connections.size).toBe(1)
    application.close()
  },
)

test('an application that is chosen by its name reads its own, and the client’s in X-Forwarded-Host', async () => {
  await using application = await startApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_UPSTREAM_HOST: 'application',
  })
  for (const method of ['GET', 'POST']) await answered(sidecar.proxy, 'shop.example', method)
  const { host } = new URL(application.origin)
  expect(application.seen.map((seen) => [seen.values('host'), seen.values('x-forwarded-host')])).toEqual([
    [[host], ['shop.example']],
    [[host], ['shop.example']],
  ])
})
