/**
 * A client that leaves before its request's turn: in a burst, or while the process stands still.
 *
 * Bug: its body was waited for, or its answer was forwarded, for ever. Each such request kept its place, and 256 of them every connection
 * to the application.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { finished } from 'node:stream/promises'
import { expect, test } from 'vitest'
import { createBodyMemory } from '../../../src/http/server/body-memory.ts'
import { abandoned, bodyStream, type Inbound, readBody } from '../../../src/http/server/inbound.ts'
import { startApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { listening } from '../../support/listening.ts'
import { between, PATIENT, startSidecar } from '../../support/sidecar.ts'

type Ended = (inbound: Inbound) => Promise<unknown>

test.each<[what: string, ended: Ended, how: unknown]>([
  [
    'its body is not waited for',
    (inbound) => readBody(inbound, 1_000, createBodyMemory(10_000).hold()),
    { kind: 'gone' },
  ],
  [
    'the stream of its body fails',
    (inbound) => finished(bodyStream(inbound).resume()).catch(({ message }: Error) => message),
    'the rest of the request does not come',
  ],
  ['what waits for its answer is told', async ({ res }) => abandoned(res).aborted, true],
])('%s', async (_, ended, how) => {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    res.once('close', () =>
      setImmediate(() =>
        resolve(ended({ req, res, expectsContinue: false, cut: new AbortController().signal })),
      ),
    )
    client.destroy()
  })
  const served = await listening(server)
  const client = connect(served.port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}')
  expect(await promise).toEqual(how)
  server.close()
})

const CLIENTS = 200

test('hundreds that leave while the process stands still hold nothing afterwards', async () => {
  await using application = await startApplication()
  const streams = new Set<ServerResponse>()
  application.onRequest = (request, response) => {
    request.resume()
    if (request.url !== '/events') return void response.writeHead(201).end('done')
    streams.add(response)
    response.on('close', () => streams.delete(response))
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
  }
  await using sidecar = await startSidecar({ ...PATIENT, ...between('embedded', application) })
  const port = Number(new URL(sidecar.proxy).port)
  const open = () =>
    new Promise<Socket>((opened) => {
      const socket = connect(port, '127.0.0.1', () => opened(socket)).on('error', () => {})
    })
  const inFlight = async () => {
    const metrics = await (await fetch(`${sidecar.admin}/metrics`)).text()
    return Number(/^fencepost_http_requests_in_flight (\d+)$/m.exec(metrics)?.[1])
  }
  for (const head of [
    (at: number) =>
      `POST /payments HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ${at}\r\nContent-Length: 2\r\n\r\n{}`,
    () => 'PUT /payments HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}',
    () => 'GET /events HTTP/1.1\r\nHost: a\r\n\r\n',
  ]) {
    const sockets = await Promise.all(Array.from({ length: CLIENTS }, open))
    sidecar.process.signal('SIGSTOP')
    await Promise.all(
      sockets.map((socket, at) =>
        new Promise((sent) => socket.write(head(at), sent)).then(() => socket.destroy()),
      ),
    )
    sidecar.process.signal('SIGCONT')
    await eventually('all of them to end', async () => (await inFlight()) === 0 && streams.size === 0)
  }
  expect((await fetch(`${sidecar.proxy}/payments`)).status).toBe(201)
})
