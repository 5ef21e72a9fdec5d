/**
 * Calls of gRPC through real Envoy with the ext_proc configuration that is shipped: a real client, and an application whose frames,
 * heads and trailers the test chooses. HTTP says 200 whatever came of a call.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { closing } from '../../support/closing.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { FETCH_MS_MAX, fetchProgram } from '../../support/fetched-programs.ts'
import { frame } from '../../support/frames.ts'
import { EXT_PROC, type Gateway, startGateway } from '../../support/gateways.ts'
import { type Sidecar, startSidecar } from '../../support/sidecar.ts'

type Respond = (stream: ServerHttp2Stream, execution: number) => void

const stack = stackOfTests()
let sidecar: Sidecar
let envoy: Gateway
let client: Client
let seen: IncomingHttpHeaders[] = []
let respond: Respond

beforeAll(async () => {
  await fetchProgram('envoy')
  const application = createServer().on('stream', (stream: ServerHttp2Stream, head) => {
    stream.on('error', () => {})
    if (head[':method'] !== 'POST') return void stream.respond({ ':status': 201 }, { endStream: true })
    seen.push(head)
    const execution = seen.length
    stream.resume().on('end', () => respond(stream, execution))
  })
  application.listen(0, '127.0.0.1')
  await once(application, 'listening')
  stack.defer(() => void application.close())
  sidecar = stack.use(
    await startSidecar({
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_PROXY_LISTEN: 'off',
      FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
      FENCEPOST_CLAIM_BUDGET: '2s',
    }),
  )
  const { port } = application.address() as AddressInfo
  envoy = stack.use(
    await startGateway(
      EXT_PROC,
      `http://127.0.0.1:${port}`,
      { 8083: sidecar.gatewayGrpc },
      // The application speaks HTTP/2.
      { [CLUSTER]: `${CLUSTER}${HTTP2}` },
    ),
  )
  client = clientOf(envoy)
  stack.defer(() => client.close())
}, FETCH_MS_MAX)
beforeEach(() => {
  seen = []
})

const CLUSTER = `    - name: application
      type: STATIC
`
const HTTP2 = `      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: { http2_protocol_options: {} }
`

function clientOf({ origin }: Gateway, options: Record<string, string | number> = {}): Client {
  return new Client(new URL(origin).host, credentials.createInsecure(), options)
}

/** As its service config asks it to. */
function retrying(): Client {
  const retryPolicy = {
    maxAttempts: 4,
    initialBackoff: '0.01s',
    maxBackoff: '0.01s',
    backoffMultiplier: 1,
    retryableStatusCodes: ['UNAVAILABLE'],
  }
  return clientOf(envoy, {
    'grpc.service_config': JSON.stringify({
      methodConfig: [{ name: [{ service: 'shop.Payments' }], retryPolicy }],
    }),
  })
}

const HEAD = { ':status': 200, 'content-type': 'application/grpc' }
/** A head alone. */
const alone =
  (code: status): Respond =>
  (stream) =>
    stream.respond({ ...HEAD, 'grpc-status': code, 'grpc-message': 'said' }, { endStream: true })
/** Messages, and trailers behind them. */
const behind =
  (code: status, ...messages: readonly string[]): Respond =>
  (stream) => {
    stream.respond(HEAD, { waitForTrailers: true })
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': code, 'grpc-message': 'said' }))
    for (const message of messages) stream.write(frame(0, message))
    stream.end()
  }

type Called = {
  readonly code: status
  readonly details: string
  readonly text?: string
  /** Of the head or the trailers. */
  readonly said: Record<string, unknown>
}

function charge(key: string, { body = 'order', by = client } = {}): Promise<Called> {
  const metadata = new Metadata()
  metadata.set('idempotency-key', key)
  return new Promise((resolve) => {
    const said: Record<string, unknown> = {}
    let text: string | undefined
    let failure: ServiceError | undefined
    by.makeUnaryRequest(
      '/shop.Payments/Charge',
      (message: string) => Buffer.from(message),
      (bytes) => bytes.toString(),
      body,
      metadata,
      (error, value) => {
        if (error === null) text = value
        else failure = error
      },
    )
      .on('metadata', (head) => Object.assign(said, head.getMap()))
      .on('status', ({ code, details, metadata: trailers }) => {
        Object.assign(said, trailers.getMap())
        resolve({ code: failure?.code ?? code, details, said, ...(text === undefined ? {} : { text }) })
      })
  })
}

/**
 * Bug: every call was recorded as the 200 that HTTP says. A service that was unavailable for a moment was so to each retry, for as long as
 * the record was kept, and what had passed its deadline was settled.
 */
test.each<[where: string, fails: Respond]>([
  ['in the head', alone(status.UNAVAILABLE)],
  ['in trailers', behind(status.UNAVAILABLE)],
  ['in trailers behind a message', behind(status.UNAVAILABLE, 'paid')],
])(
  'a call whose answer says %s that the service is unavailable is released, and its retry executed',
  async (_, fails) => {
    const key = randomUUID()
    respond = fails
    const first = await charge(key)
    expect([first.code, first.details, first.said['idempotency-status']]).toEqual([
      status.UNAVAILABLE,
      'said',
      'released',
    ])
    respond = behind(status.OK, 'paid')
    const again = await charge(key)
    expect([again.code, again.text, again.said['idempotency-status']]).toEqual([status.OK, 'paid', 'created'])
    expect(seen.map((head) => head['fencepost-attempt'])).toEqual(['1', '1'])
  },
)

test('a client that sends again by itself what is UNAVAILABLE gets its call executed', async () => {
  respond = (stream, execution) =>
    (execution < 3 ? alone(status.UNAVAILABLE) : behind(status.OK, 'paid'))(stream, execution)
  await using by = closing(retrying())
  expect(await charge(randomUUID(), { by })).toMatchObject({ code: status.OK, text: 'paid' })
  expect(seen).toHaveLength(3)
})

test.each<[where: string, late: Respond]>([
  ['in the head', alone(status.DEADLINE_EXCEEDED)],
  ['in trailers', behind(status.DEADLINE_EXCEEDED)],
])(
  'a call that met its deadline, as its answer says %s, may have been executed: the claim stays',
  async (_, late) => {
    const key = randomUUID()
    respond = late
    const first = await charge(key)
    expect([first.code, first.said['idempotency-status']]).toEqual([
      status.DEADLINE_EXCEEDED,
      'indeterminate',
    ])
    expect((await charge(key)).said['idempotency-status']).toBe('in-progress')
    expect(seen).toHaveLength(1)
  },
)

test('a call that is refused for good is recorded: its retry gets the same code and message', async () => {
  const key = randomUUID()
  respond = alone(status.INVALID_ARGUMENT)
  const answers = [await charge(key), await charge(key)]
  expect(answers.map(({ code, details, said }) => [code, details, said['idempotency-status']])).toEqual([
    [status.INVALID_ARGUMENT, 'said', 'created'],
    [status.INVALID_ARGUMENT, 'said', 'replayed'],
  ])
  expect(seen).toHaveLength(1)
})

/** Bug: whatever the sidecar said reached a client of gRPC as UNKNOWN, which none sends again. */
test('a call that came to a good end is recorded without its messages: a duplicate is told ALREADY_EXISTS, another call FAILED_PRECONDITION', async () => {
  const key = randomUUID()
  respond = behind(status.OK, 'paid')
  const first = await charge(key)
  expect([first.code, first.text, first.said['idempotency-status']]).toEqual([status.OK, 'paid', 'created'])
  const [duplicate, other] = [await charge(key), await charge(key, { body: 'other' })]
  expect([duplicate, other].map(({ code, said }) => [code, said['idempotency-status']])).toEqual([
    [status.ALREADY_EXISTS, 'gone'],
    [status.FAILED_PRECONDITION, 'mismatch'],
  ])
  expect(JSON.parse(duplicate.details)).toMatchObject({ code: 'response-not-stored' })
  expect(seen).toHaveLength(1)
})

test('a client that sends again by itself what is UNAVAILABLE comes back when the call under way may be over', async () => {
  const key = randomUUID()
  const end = Promise.withResolvers<void>()
  respond = (stream, execution) =>
    void end.promise.then(() => alone(status.INVALID_ARGUMENT)(stream, execution))
  await using by = closing(retrying())
  const first = charge(key)
  await eventually('the application has the call', () => seen.length === 1)
  const refused = await charge(key)
  expect([refused.code, refused.said['grpc-retry-pushback-ms']]).toEqual([status.UNAVAILABLE, '1000'])
  const duplicate = charge(key, { by })
  end.resolve()
  expect((await first).code).toBe(status.INVALID_ARGUMENT)
  expect(await duplicate).toMatchObject({
    code: status.INVALID_ARGUMENT,
    said: { 'idempotency-status': 'replayed' },
  })
  expect(seen).toHaveLength(1)
})

test('messages of a stream reach the client before its end', async () => {
  const end = Promise.withResolvers<void>()
  respond = (stream) => {
    stream.respond(HEAD, { waitForTrailers: true })
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status.OK }))
    stream.write(frame(0, 'first'))
    void end.promise.then(() => stream.end(frame(0, 'second')))
  }
  const metadata = new Metadata()
  metadata.set('idempotency-key', randomUUID())
  const call = client.makeServerStreamRequest(
    '/shop.Payments/Watch',
    (message: string) => Buffer.from(message),
    (bytes) => bytes.toString(),
    'order',
    metadata,
  )
  const trailers = once(call, 'status')
  const messages = call[Symbol.asyncIterator]()
  expect((await messages.next()).value).toBe('first')
  end.resolve()
  expect((await messages.next()).value).toBe('second')
  expect((await messages.next()).done).toBe(true)
  const [{ metadata: last }] = await trailers
  expect(last.getMap()).toMatchObject({ 'idempotency-status': 'created' })
})
