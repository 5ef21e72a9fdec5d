/**
 * Whose headers are trusted: tenant, version and origin from a trusted peer, and from no other.
 */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { trustedPeers } from '../../../src/http/request/arrival.ts'
import { startApplication } from '../../support/application.ts'
import { route, startProxy } from '../../support/proxy.ts'

const blocks = (...texts: readonly string[]) => ({
  kind: 'blocks' as const,
  blocks: texts.map((text) => {
    const [address = '', prefix = ''] = text.split('/')
    const family = address.includes(':') ? ('ipv6' as const) : ('ipv4' as const)
    return { address, prefix: Number(prefix), family }
  }),
})

test.each<[peer: string | undefined, trusted: boolean]>([
  ['10.1.2.3', true],
  ['::ffff:10.1.2.3', true],
  ['11.1.2.3', false],
  ['::ffff:11.1.2.3', false],
  ['fe80::1%eth0', true],
  ['fe90::1', false],
  ['not an address', false],
  ['', false],
  // A Unix socket: anyone who can open its file is a trusted peer.
  [undefined, true],
])('membership in 10.0.0.0/8 and fe80::/16: %s', (peer, trusted) => {
  expect(trustedPeers(blocks('10.0.0.0/8', 'fe80::/16'))(peer)).toBe(trusted)
})

const SAID = {
  'x-tenant-id': 'victim',
  'x-api-version': 'v9',
  'x-client-id': 'victim',
  'x-forwarded-for': '1.2.3.4',
  'x-forwarded-proto': 'https',
  'x-forwarded-port': '443',
  'x-real-ip': '1.2.3.4',
  forwarded: 'for=1.2.3.4',
}

test.each<[what: string, peers: ReturnType<typeof blocks>, tenant: string[], chain: string]>([
  ['believed', blocks('127.0.0.0/8'), ['victim'], '1.2.3.4, 127.0.0.1'],
  ['dropped', blocks('10.0.0.0/8'), [], '127.0.0.1'],
])('what a peer states of tenant, client and origin is %s', async (_what, peers, tenant, chain) => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { options: { trustedPeers: peers } })
  await proxy.post('k', '{}', SAID)
  const [seen] = application.seen
  expect(seen?.values('x-tenant-id')).toEqual(tenant)
  expect(seen?.values('x-client-id')).toEqual(tenant)
  expect(seen?.values('x-forwarded-for')).toEqual([chain])
  expect(seen?.values('x-real-ip').length).toBe(tenant.length)
  expect(seen?.values('forwarded').length).toBe(tenant.length)
})

test.each([
  ['underscores, which CGI, WSGI and Rack read as dashes', '_'],
  ['dots, which PHP reads as dashes', '.'],
])('with %s, what an untrusted peer states is dropped too', async (_what, between) => {
  await using application = await startApplication()
  const ofVictim = {
    name: 'of-victim',
    match: { headers: [{ kind: 'present', name: `x${between}tenant${between}id` }] },
    mode: 'bypass',
    upstreamTimeoutMs: 1_000,
  } as const
  await using proxy = await startProxy(application.origin, {
    routes: [ofVictim, route()],
    options: { trustedPeers: blocks(), forwarded: 'off' },
  })
  const said = Object.entries(SAID).map(([name, value]) => [name.replaceAll('-', between), value] as const)
  const answer = await proxy.post('k', '{}', Object.fromEntries(said))
  expect(answer.headers.get('idempotency-status')).toBe('created')
  const [seen] = application.seen
  expect(said.filter(([name]) => seen?.values(name).length !== 0)).toEqual([])
})

test('an untrusted peer that names a tenant gets none of its records and matches no route by it', async () => {
  await using application = await startApplication()
  await using trusted = await startProxy(application.origin)
  await using untrusted = await startProxy(application.origin, {
    nodes: trusted.nodes as never,
    routes: [
      {
        name: 'of-victim',
        match: { headers: [{ kind: 'present', name: 'x-tenant-id' }] },
        mode: 'bypass',
        upstreamTimeoutMs: 1_000,
      },
      route(),
    ],
    options: { trustedPeers: blocks() },
  })
  expect((await trusted.post('k', '{}', SAID)).status).toBe(201)
  const stolen = await untrusted.post('k', '{}', SAID)
  expect(stolen.headers.get('idempotency-status')).toBe('created')
  expect(await stolen.json()).toEqual({ execution: 2 })
})

test('an untrusted peer that names a client does not get the answers of that client', async () => {
  await using application = await startApplication()
  await using trusted = await startProxy(application.origin)
  const shared = { nodes: trusted.nodes }
  await using untrusted = await startProxy(application.origin, {
    ...shared,
    options: { trustedPeers: blocks() },
  })
  const named = { 'x-client-id': 'victim' }
  const status = async (answer: Promise<Response>) => (await answer).headers.get('idempotency-status')
  expect(await status(trusted.post('k', '{}', named))).toBe('created')
  expect(await status(trusted.post('k', '{}', named))).toBe('replayed')
  // The request is anonymous, whatever the peer states.
  expect(await status(untrusted.post('k', '{}', named))).toBe('created')
  expect(await status(untrusted.post('k'))).toBe('replayed')
  expect(await status(trusted.post('k'))).toBe('replayed')
})

// Bug: the guide named x-user-id where a gateway says who a client is, and a peer that went around the gateway was believed.
test.each([
  ['x-client-id', 'created'],
  ['x-user-id', 'replayed'],
])(
  'with the principal %s, a request of an untrusted peer in the name of another client is %s',
  async (name, stolen) => {
    await using application = await startApplication()
    const routes = [route({ principal: { kind: 'header', name } })]
    await using trusted = await startProxy(application.origin, { routes })
    await using untrusted = await startProxy(application.origin, {
      nodes: trusted.nodes,
      routes,
      options: { trustedPeers: blocks() },
    })
    const named = { [name]: 'victim' }
    const renewed = { ...named, authorization: 'Bearer renewed' }
    const status = async (answer: Promise<Response>) => (await answer).headers.get('idempotency-status')
    expect(await status(trusted.post('k', '{}', { ...named, authorization: 'Bearer first' }))).toBe('created')
    expect(await status(trusted.post('k', '{}', renewed))).toBe('replayed')
    expect(await status(untrusted.post('k', '{}', named))).toBe(stolen)
  },
)

test('an untrusted peer that resets its connection at once is not trusted, although it has no address any more', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { options: { trustedPeers: blocks() } })
  const lines = Object.entries(SAID).map(([name, value]) => `${name}: ${value}\r\n`)
  const request = `POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n${lines.join('')}Content-Length: 2\r\n\r\n{}`
  const client = `const socket = require('node:net').connect(${proxy.port}, '127.0.0.1', () =>
    socket.write(${JSON.stringify(request)}, () => socket.resetAndDestroy()))`
  // The proxy runs in this process, and looks at its connections after the client is gone.
  execFileSync(process.execPath, ['-e', client])
  expect((await proxy.post('behind')).status).toBe(201)
  await proxy.proxy.close(20_000)
  expect(application.seen.flatMap((seen) => seen.values('x-tenant-id'))).toEqual([])
})
