/** Nodes that demand a certificate of their clients, as Redis does by default: what the sidecar shows, and that it can be renewed. */
import { randomUUID } from 'node:crypto'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Load } from '../rolling/load.ts'
import { type Authority, makeAuthority, type Signed } from '../support/certificates.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'
import { startTlsNodes, type TlsNodes } from '../support/tls-nodes.ts'
import { runVotesScript } from '../support/votes-script.ts'

const settings = (nodes: TlsNodes, { caFile }: Pick<Authority, 'caFile'>, client?: Signed) => ({
  ...PATIENT,
  FENCEPOST_REDIS_NODES: nodes.setting,
  FENCEPOST_REDIS_CA_FILE: caFile,
  ...(client === undefined
    ? {}
    : { FENCEPOST_REDIS_CERT_FILE: client.certFile, FENCEPOST_REDIS_KEY_FILE: client.keyFile }),
})

async function nodesOf({ admin }: Sidecar): Promise<readonly string[]> {
  const answer = await fetch(`${admin}/readyz`)
  const { nodes } = (await answer.json()) as { nodes: { state: string; reason?: string }[] }
  return nodes.map(({ state, reason }) => (reason === undefined ? state : `${state}: ${reason}`))
}

const pay = ({ proxy }: Sidecar, key: string) =>
  fetch(`${proxy}/payments`, { method: 'POST', headers: { 'idempotency-key': key }, body: '{}' })

// Bug: there was no setting for a certificate, so nodes had to let in everyone (`tls-auth-clients no`).
test.each(['TLSv1.2', 'TLSv1.3'] as const)(
  'nodes that demand a certificate are used over %s',
  async (protocol) => {
    using authority = makeAuthority()
    await using nodes = await startTlsNodes(authority, { protocol })
    await using application = await startCountingApplication()
    await using sidecar = await startSidecar({
      ...settings(nodes, authority, authority.sign('sidecar')),
      FENCEPOST_UPSTREAM: application.url,
    })
    expect(await nodesOf(sidecar)).toEqual(['voting', 'voting', 'voting'])
    const key = randomUUID()
    expect((await pay(sidecar, key)).status).toBe(201)
    expect((await pay(sidecar, key)).headers.get('idempotency-status')).toBe('replayed')
    expect(application.of(key)).toHaveLength(1)
  },
)

/**
 * Bug: the reason was OpenSSL's line with its own addresses and files, or `write ECONNRESET` where the first command crossed the
 * refusal, which TLS 1.3 sends in place of the first answer.
 */
test.each(['TLSv1.2', 'TLSv1.3'] as const)(
  'a node that refuses what it is shown says why, over %s',
  {
    timeout: 60_000,
  },
  async (protocol) => {
    using authority = makeAuthority()
    using strangers = makeAuthority('another authority')
    await using nodes = await startTlsNodes(authority, { protocol })
    const setting = 'FENCEPOST_REDIS_CERT_FILE'
    const refused: readonly [what: string, shown: Signed | undefined, told: string][] = [
      ['none', undefined, `it demands a certificate, and ${setting} is not set`],
      [
        'of a stranger',
        strangers.sign('stranger'),
        `it refuses the certificate of ${setting} (its authority is not known there)`,
      ],
      [
        'ended',
        authority.sign('ended', { days: -1 }),
        `it refuses the certificate of ${setting} (it has expired)`,
      ],
      [
        'of a server',
        authority.sign('server', { usage: 'serverAuth' }),
        `it refuses the certificate of ${setting} (it is not for clients)`,
      ],
    ]
    for (const [what, shown, told] of refused) {
      await using sidecar = await startSidecar(settings(nodes, authority, shown))
      const [seen, others] = [new Set<number>(), new Set<string>()]
      await eventually(`${what}: each node has said why`, async () => {
        const reasons = await nodesOf(sidecar)
        for (const [index, reason] of reasons.entries()) {
          if (reason.startsWith(`down: ${told}`)) seen.add(index)
          // The refusal may be lost on the way, and then it is guessed.
          else if (!reason.includes('it closes the connection after the TLS handshake')) others.add(reason)
        }
        return seen.size === reasons.length
      })
      expect([what, ...others]).toEqual([what])
    }
  },
)

test('a node that can not be believed, or speaks something else, says why', async () => {
  using authority = makeAuthority()
  using strangers = makeAuthority('another authority')
  await using nodes = await startTlsNodes(authority, { count: 5 })
  await nodes.show(0, strangers.sign('node-of-strangers'))
  await nodes.show(1, authority.sign('node-of-another-name', { names: 'DNS:elsewhere.example' }))
  await nodes.show(2, authority.sign('node-that-ended', { days: -1 }))
  const urls = nodes.setting.split(',')
  urls[3] = nodes.servers.at(3).url.replace('redis:', 'rediss:')
  urls[4] = urls[4]!.replace('rediss:', 'redis:')
  await using sidecar = await startSidecar({
    ...settings(nodes, authority, authority.sign('sidecar')),
    FENCEPOST_REDIS_NODES: urls.join(),
    FENCEPOST_REDIS_CONNECT_TIMEOUT: '500ms',
  })
  await eventually('each says why', async () => {
    const reasons = await nodesOf(sidecar)
    return [
      'down: its certificate is of no known authority',
      'down: its certificate is not for the host of its URL',
      'down: its certificate, or that of an authority of it, has expired',
      'down: there was a connection, and no TLS handshake within',
      'down: it closes the connection before its first answer',
    ].every((why, index) => reasons[index]?.startsWith(why))
  })
})

test('the readiness probe of a node that demands a certificate shows the one of the node', async () => {
  using authority = makeAuthority()
  const certificate = authority.sign('node')
  await using nodes = await startTlsNodes(authority, { certificate })
  await using _sidecar = await startSidecar(settings(nodes, authority, authority.sign('sidecar')))
  const port = new URL(nodes.setting.split(',')[0]!.replace('rediss:', 'http:')).port
  const tls = ['-p', port, '--tls', '--cacert', authority.caFile]
  const own = ['--cert', certificate.certFile, '--key', certificate.keyFile]
  expect(await runVotesScript([...tls, ...own])).toEqual({ code: 0, said: '' })
  expect(await runVotesScript(tls)).toMatchObject({ code: 1 })
})

test('a certificate is shown with its chain, so that nodes need to know the root alone', async () => {
  using authority = makeAuthority()
  const issuing = authority.intermediate('issuing')
  const client = issuing.sign('sidecar')
  writeFileSync(client.certFile, client.cert() + issuing.ca())
  await using nodes = await startTlsNodes(authority)
  await using sidecar = await startSidecar(settings(nodes, authority, client))
  expect(await nodesOf(sidecar)).toEqual(['voting', 'voting', 'voting'])
})

// Bug: authorities of the nodes were read at the start alone, so a renewed authority needed a restart of every sidecar.
test('certificate, key and authority are replaced under load: no request fails, and new connections use the new ones', {
  timeout: 60_000,
}, async () => {
  using old = makeAuthority('the old authority')
  using next = makeAuthority('the new authority')
  const [first, renewed] = [old.sign('sidecar'), next.sign('sidecar')]
  const both = join(old.folder, 'both.pem')
  writeFileSync(both, old.ca() + next.ca())
  const caFile = join(old.folder, 'believed.pem')
  copyFileSync(old.caFile, caFile)
  await using nodes = await startTlsNodes(old)
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...settings(nodes, { caFile }, first),
    FENCEPOST_UPSTREAM: application.url,
  })
  const told = (outcome: string, times: number) =>
    eventually(`${outcome}, for the ${times}. time`, async () => {
      const line = new RegExp(`"what":"the certificates for the nodes".*${outcome}`, 'g')
      return (sidecar.process.output.match(line) ?? []).length === times
    })
  await using load = new Load([sidecar.proxy])
  /** One node after the other, as its own renewal does it; only what the sidecar shows now is let in. */
  const cutEach = async (before: (index: number) => Promise<void>) => {
    for (const index of [0, 1, 2]) {
      await before(index)
      await nodes.cut(index)
      await eventually('all nodes vote', async () =>
        (await nodesOf(sidecar)).every((node) => node === 'voting'),
      )
    }
  }

  copyFileSync(renewed.certFile, first.certFile)
  await told('what was before stays in force', 1)
  // Half of a pair: connections that are made meanwhile show the former one.
  await cutEach(async () => {})
  copyFileSync(renewed.keyFile, first.keyFile)
  await told('what it holds is in force', 1)
  await cutEach((index) => nodes.trust(index, next.caFile))

  copyFileSync(both, caFile)
  await told('what it holds is in force', 2)
  await cutEach((index) => nodes.show(index, next.sign('node')))
  await load.stop()
  expect([load.sent.failures, load.keys.length > 0]).toEqual([[], true])
  expect(load.keys.filter((key) => application.of(key).length !== 1)).toEqual([])
})

test('a scrape says until when the certificates of the files are valid, and follows their renewal', async () => {
  using authority = makeAuthority()
  await using nodes = await startTlsNodes(authority)
  await using application = await startCountingApplication()
  const used = authority.sign('used', { days: 3 })
  await using sidecar = await startSidecar({
    ...settings(nodes, authority, used),
    FENCEPOST_UPSTREAM: application.url,
  })
  const shown = async () => {
    const text = await (await fetch(`${sidecar.admin}/metrics`)).text()
    const found = text.matchAll(
      /^fencepost_certificate_not_(before|after)_timestamp_seconds\{setting="(.+)"\} (\d+)$/gm,
    )
    const ends = new Map([...found].map(([, end, setting, at]) => [`${setting} ${end}`, Number(at)]))
    const days = (setting: string) =>
      ((ends.get(`${setting} after`) ?? 0) - (ends.get(`${setting} before`) ?? 0)) / 86_400
    return { settings: new Set([...ends.keys()].map((key) => key.split(' ')[0])), days }
  }
  const first = await shown()
  expect(first.settings).toEqual(new Set(['redis.certFile', 'redis.caFile']))
  expect([first.days('redis.certFile'), first.days('redis.caFile')]).toEqual([3, 2])

  const renewed = authority.sign('renewed', { days: 30 })
  copyFileSync(renewed.keyFile, used.keyFile)
  copyFileSync(renewed.certFile, used.certFile)
  await eventually(
    'the renewed certificate to be shown',
    async () => (await shown()).days('redis.certFile') === 30,
  )
})
