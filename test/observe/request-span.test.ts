// The span of a request: what an SRE reads in it, by the conventions for HTTP servers.
import { readFileSync } from 'node:fs'
import { request as rawRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { expect, test } from 'vitest'
import type { TracedRequest } from '../../src/core/tracing.ts'
import { serverSpan } from '../../src/observe/tracing.ts'
import { startApplication } from '../support/application.ts'
import { makeAuthority } from '../support/certificates.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { type ReceivedSpan, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'
const SAMPLED = `00-${TRACE}-${CALLER}-01`
const packageVersion = JSON.parse(readFileSync('package.json', 'utf8')).version as string
const named = (spans: readonly ReceivedSpan[], name: string) => spans.find((span) => span.name === name)

const REQUEST = {
  method: 'POST',
  route: 'payments',
  scheme: 'https',
  host: undefined,
  protocolVersion: undefined,
  header: () => undefined,
} as const

type Said = Omit<TracedRequest, 'scheme' | 'host'> & {
  readonly scheme: 'http' | 'https' | undefined
  readonly host: string | undefined
}
const spanOf = ({ scheme, host, ...request }: Said) =>
  serverSpan({ ...request, scheme: () => scheme, host: () => host })

test.each([
  { ...REQUEST, name: 'POST payments', attributes: { 'http.request.method': 'POST', 'url.scheme': 'https' } },
  {
    ...REQUEST,
    // Bug: whatever a client called its method was the name of a span, so there were as many names as clients liked.
    method: 'PROPFIND',
    name: 'HTTP payments',
    attributes: { 'http.request.method': '_OTHER', 'http.request.method_original': 'PROPFIND' },
  },
  {
    ...REQUEST,
    host: 'shop.example',
    name: 'POST payments',
    attributes: { 'server.address': 'shop.example' },
  },
  {
    ...REQUEST,
    host: 'shop.example:8443',
    name: 'POST payments',
    attributes: { 'server.address': 'shop.example', 'server.port': 8443 },
  },
  {
    ...REQUEST,
    host: '[::1]:8080',
    name: 'POST payments',
    attributes: { 'server.address': '::1', 'server.port': 8080 },
  },
])('$method of $host is $name with $attributes', ({ name, attributes, ...request }) => {
  const span = spanOf(request)
  expect(span.name).toBe(name)
  expect(span.attributes).toMatchObject(attributes)
})

test('what nobody knows of a request is no attribute of its span', () => {
  const span = spanOf({ ...REQUEST, route: undefined, scheme: undefined })
  expect(span).toEqual({ name: 'POST', attributes: { 'http.request.method': 'POST' } })
})

// Bug: it was http, also where the sidecar or who is in front of it speaks TLS with the client.
test.each([
  { forwarded: 'append', stated: undefined, tls: false, scheme: 'http' },
  { forwarded: 'append', stated: 'https', tls: false, scheme: 'https' },
  { forwarded: 'append', stated: 'HTTPS, http', tls: false, scheme: 'https' },
  { forwarded: 'append', stated: 'gopher', tls: false, scheme: 'http' },
  { forwarded: 'replace', stated: 'https', tls: false, scheme: 'http' },
  { forwarded: 'append', stated: undefined, tls: true, scheme: 'https' },
])(
  'the scheme of a span is the client’s: $scheme where $stated is stated, the connection has TLS: $tls, FENCEPOST_FORWARDED_HEADERS=$forwarded',
  async ({ forwarded, stated, tls, scheme }) => {
    await using receiver = await startOtlpReceiver()
    await using application = await startCountingApplication()
    using authority = makeAuthority()
    const { certFile, keyFile } = authority.sign('sidecar')
    await using sidecar = await startSidecar({
      ...receiver.env,
      ...between('embedded', application),
      FENCEPOST_FORWARDED_HEADERS: forwarded,
      ...(tls
        ? {
            FENCEPOST_TLS_LISTENERS: 'proxy',
            FENCEPOST_TLS_CERT_FILE: certFile,
            FENCEPOST_TLS_KEY_FILE: keyFile,
          }
        : {}),
    })
    const headers = stated === undefined ? {} : { 'x-forwarded-proto': stated }
    const { port } = new URL(sidecar.proxy)
    await new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port, path: '/p', headers, rejectUnauthorized: false }
      const sent = (tls ? tlsRequest : rawRequest)(options, (answer) => answer.resume().on('end', resolve))
      sent.on('error', reject).end()
    })
    const span = await receiver.until('the span of the request', (spans) => named(spans, 'GET'))
    expect(span.attributes).toMatchObject({
      'url.scheme': scheme,
      'server.address': '127.0.0.1',
      'server.port': Number(port),
    })
  },
)

// Bug: it had no span, and its application got the trace headers as they came, members of the baggage that only we set included.
test('a WebSocket is a span from its handshake to the switch, and its application continues the trace', async () => {
  await using receiver = await startOtlpReceiver()
  await using application = await startApplication()
  await using sidecar = await startSidecar({ ...receiver.env, ...between('embedded', application) })
  const headers = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'sec-websocket-version': '13',
    traceparent: SAMPLED,
    baggage: 'user=7,fencepost.lock_id=forged',
  }
  const socket = await new Promise<import('node:net').Socket>((resolve, reject) => {
    const sent = rawRequest(`${sidecar.proxy}/socket`, { headers })
    sent
      .on('upgrade', (_, it) => resolve(it))
      .on('error', reject)
      .end()
  })
  // While the tunnel is open.
  const span = await receiver.until('the span of the handshake', (spans) => named(spans, 'GET'))
  expect(span).toMatchObject({ traceId: TRACE, parentSpanId: CALLER, kind: 2 })
  expect(span.attributes).toMatchObject({
    'http.response.status_code': 101,
    'fencepost.outcome': 'bypassed',
    'fencepost.entrypoint': 'proxy',
  })
  const [handshake] = application.seen
  expect(handshake?.values('traceparent')).toEqual([`00-${TRACE}-${span.spanId}-01`])
  expect(handshake?.values('baggage')).toEqual(['user=7'])
  socket.destroy()
  const line = await eventually('the line of the tunnel', () =>
    sidecar.process.output.split('\n').find((text) => text.includes('bypassed: upgraded')),
  )
  expect(JSON.parse(line)).toMatchObject({ trace_id: TRACE, span_id: span.spanId })
})

test('a WebSocket that is refused is a span with the status of the refusal', async () => {
  await using receiver = await startOtlpReceiver()
  await using application = await startApplication()
  await using sidecar = await startSidecar({ ...receiver.env, ...between('embedded', application) })
  const { port } = new URL(sidecar.proxy)
  const headers = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'idempotency-key': 'k',
    traceparent: SAMPLED,
  }
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: '/socket', method: 'POST', headers }
    const sent = rawRequest(options, (answer) =>
      answer.resume().on('close', () => resolve(answer.statusCode)),
    )
    sent.on('error', reject).end()
  })
  const span = await receiver.until('its span', (spans) => named(spans, 'POST unsafe-with-key'))
  expect(span).toMatchObject({ traceId: TRACE, attributes: { 'http.response.status_code': status } })
})

// Bug: it had neither, so from a replay nobody found the execution, and a search for a lock id showed no replay.
test('a duplicate has the lock id of the claim that executed it, and links to it where this sidecar claimed', async () => {
  await using receiver = await startOtlpReceiver()
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  const settings = { ...receiver.env, ...PATIENT, ...between(servers, application) }
  await using one = await startSidecar({ ...settings, OTEL_SERVICE_NAME: 'one' })
  await using other = await startSidecar({ ...settings, OTEL_SERVICE_NAME: 'other' })
  const send = (to: string) =>
    fetch(`${to}/p`, { method: 'POST', headers: { 'idempotency-key': 'k' }, body: 'x' })
  for (const to of [one.proxy, one.proxy, other.proxy]) expect((await send(to)).status).toBe(201)
  const [first, replayed, elsewhere] = await receiver.until('three requests', (all) => {
    const found = all.filter(({ kind }) => kind === 2)
    return found.length === 3 && all.some(({ name }) => name === 'fencepost.acquire')
      ? found.sort((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)))
      : undefined
  })
  const acquire = receiver.spans.find(({ parentSpanId }) => parentSpanId === first?.spanId)
  const lockId = first?.attributes['fencepost.lock_id']
  expect(lockId).toBeDefined()
  for (const span of [replayed, elsewhere])
    expect(span?.attributes).toMatchObject({
      'fencepost.outcome': 'duplicate_completed',
      'fencepost.lock_id': lockId,
    })
  expect(replayed?.links).toMatchObject([{ traceId: first?.traceId, spanId: acquire?.spanId }])
  expect(elsewhere).toMatchObject({ service: 'other' })
  expect(elsewhere?.links ?? []).toEqual([])
})

test('the resource of spans is what OTEL_RESOURCE_ATTRIBUTES says, and the version of the sidecar is that of their scope', async () => {
  await using receiver = await startOtlpReceiver()
  await using sidecar = await startSidecar({
    ...receiver.env,
    OTEL_RESOURCE_ATTRIBUTES: 'service.instance.id=shop.pod-1,k8s.pod.name=pod-1',
    FENCEPOST_REDIS_NODES: 'embedded',
  })
  await fetch(`${sidecar.api}/v1/reservations`, { method: 'POST' })
  const span = await receiver.until('a span', (spans) => spans[0])
  expect(span.resource).toMatchObject({
    'service.name': 'fencepost',
    'service.instance.id': 'shop.pod-1',
    'k8s.pod.name': 'pod-1',
  })
  expect(span.scope).toEqual({ name: 'fencepost', version: packageVersion })
})

// Bug: the end of the lease is told first, and with it the claim was forgotten.
test('the release of a claim whose answer is not kept links to its acquire', async () => {
  await using receiver = await startOtlpReceiver()
  await using application = await startApplication((_, response) => void response.writeHead(500).end())
  await using sidecar = await startSidecar({ ...receiver.env, ...between('embedded', application) })
  const init = { method: 'POST', headers: { 'idempotency-key': 'k' }, body: 'x' }
  expect((await fetch(`${sidecar.proxy}/p`, init)).status).toBe(500)
  const release = await receiver.until('the release', (spans) => named(spans, 'fencepost.release'))
  expect(release.attributes['fencepost.outcome']).toBe('released')
  const acquire = named(receiver.spans, 'fencepost.acquire')
  expect(release.links).toMatchObject([{ traceId: acquire?.traceId, spanId: acquire?.spanId }])
})
