/**
 * Requests whose claim ends while they wait for a connection to the application; streams without a reader; answers that come
 * before the body was read.
 */
import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/system/clock.ts'
import { type Respond, startApplication } from '../support/application.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { hold } from '../support/proxy.ts'
import { applicationAt } from './application-at.ts'

test('a request whose claim ended while it waited for a connection is not sent when one comes free', async () => {
  const held = hold()
  await using server = await startApplication(async (_request, response) => {
    await held.released
    response.writeHead(200, { 'Content-Length': '0' }).end()
  })
  await using application = applicationAt(server.origin)
  let claimed = true
  const forward = (target: string, mayBegin: () => boolean = () => true) =>
    application.forward(
      { method: 'POST', target, headers: [], body: Buffer.from('pay') },
      { answerWithinMs: 5_000, storedLimitBytes: 1_024, mayBegin },
    )
  const first = forward('/first')
  await eventually('the only connection is taken', () => server.seen.length === 1)
  const waiting = forward('/lost', () => claimed)
  const behind = forward('/behind')
  claimed = false
  held.release()
  expect(await waiting).toEqual({
    kind: 'never_sent',
    detail: 'the claim ended before there was a connection',
  })
  expect((await Promise.all([first, behind])).map(({ kind }) => kind)).toEqual(['answered', 'answered'])
  expect(server.seen.map(({ target }) => target)).toEqual(['/first', '/behind'])
})

test('a stream whose reader has left ends after the time of any other answer', async () => {
  const timers: { afterMs: number; due: () => void }[] = []
  const clock = {
    ...systemClock,
    timer: (afterMs: number, due: () => void) => {
      const timer = { afterMs, due }
      timers.push(timer)
      return { cancel: () => void timers.splice(timers.indexOf(timer), 1) }
    },
  }
  let ended = false
  await using server = await startApplication((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
    response.once('close', () => {
      ended = true
    })
  })
  await using application = applicationAt(server.origin, { bodyIdleMs: 60_000, clock })
  const reader = new AbortController()
  const result = await application.forward(
    { method: 'POST', target: '/events', headers: [], body: undefined },
    { answerWithinMs: 7_000, storedLimitBytes: 1_024, abandoned: reader.signal },
  )
  if (result.kind !== 'answered' || result.response.oversized === undefined) throw new Error('no stream')
  const parts = result.response.oversized.stream[Symbol.asyncIterator]()
  expect((await parts.next()).value).toEqual(Buffer.from('data: 1\n\n'))
  // As long as the client reads there is no limit.
  expect(timers).toEqual([])
  reader.abort()
  expect(timers.map(({ afterMs }) => afterMs)).toEqual([7_000])
  expect(ended).toBe(false)
  timers[0]?.due()
  await expect(parts.next()).rejects.toThrow('nobody has read for 7000 ms')
  await eventually('the application is told', () => ended)
})

test.each<[answer: string, Respond, passedOn: 'whole' | 'stream']>([
  ['with its length, in one write', (_, response) => void response.end('paid'), 'whole'],
  [
    'in chunks, in one write',
    (_, response) => {
      response.socket?.cork()
      response.writeHead(200, { 'Transfer-Encoding': 'chunked' }).write('pa')
      response.end('id')
      response.socket?.uncork()
    },
    'whole',
  ],
  [
    'without a length, to the end of the connection',
    (_, response) => void response.socket?.end('HTTP/1.1 200 OK\r\n\r\npaid'),
    'stream',
  ],
  [
    'of events',
    (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Content-Length': '4' }).end('paid')
    },
    'stream',
  ],
  [
    'longer than one packet',
    (_, response) => void response.writeHead(200, { 'Content-Length': '2000000' }).end('x'.repeat(2_000_000)),
    'stream',
  ],
])('an answer %s is passed on as it came', async (_, answer, passedOn) => {
  await using server = await startApplication(answer)
  await using application = applicationAt(server.origin)
  const request = { method: 'GET', target: '/', headers: [['Host', 'a'] as const], body: undefined }
  const reply = await application.stream(request, 5_000, new AbortController().signal)
  if (reply.kind !== 'answered') throw new Error(JSON.stringify(reply))
  expect(Buffer.isBuffer(reply.body) ? 'whole' : 'stream').toBe(passedOn)
  const body = Buffer.isBuffer(reply.body) ? reply.body : await buffer(reply.body)
  expect(body.toString()).toBe(body.length > 4 ? 'x'.repeat(2_000_000) : 'paid')
})

/**
 * Bug: an application that answers an upload without having read it, and closes, was taken for one that broke off, though its answer was there: the
 * client got 502 in place of a refusal, or of a success.
 */
test('an answer that comes before the body was read is the answer, also where the connection is closed behind it', async () => {
  const part = Buffer.alloc(64 * 1024)
  const upload = new Readable({ read: () => {} })
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .once('data', () => {
        socket.pause()
        socket.end(
          'HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge',
          () => {
            // Closing with bytes unread resets the connection. The next part is written before anybody looks at what came.
            socket.destroy().once('close', () => upload.push(part))
          },
        )
      })
  })
  await using served = await listening(server)
  await using application = applicationAt(served.origin)
  upload.push(part)
  upload.push(part)
  const passed = await application.stream(
    { method: 'PUT', target: '/files/1', headers: [], body: upload },
    5_000,
    new AbortController().signal,
  )
  expect(passed).toMatchObject({ kind: 'answered', status: 413, body: Buffer.from('large') })
})

test('a connection that is closed before the body was read, without an answer, is a reset', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {}).once('data', () => socket.destroy())
  })
  await using served = await listening(server)
  await using application = applicationAt(served.origin)
  expect(
    await application.forward(
      { method: 'POST', target: '/payments', headers: [], body: Buffer.alloc(16 * 1024 * 1024) },
      { answerWithinMs: 5_000, storedLimitBytes: 1_024 },
    ),
  ).toMatchObject({ kind: 'no_answer', cause: 'reset' })
})

/**
 * Bug: gunicorn with threads, Jetty and the JDK's server close a connection behind an answer for which they did not read a long body, without
 * `Connection: close`. The next POST was written to it, and got 502 though it had nothing to do with the refused one.
 */
test.each<[what: string, bytes: number, stream: boolean, status: number, connections: number]>([
  ['a long body that is refused', 100_000, false, 413, 2],
  ['a long body that is refused, passed on as it comes', 100_000, true, 401, 2],
  ['a long body that is answered by a redirect', 100_000, false, 302, 2],
  ['a long body that is taken', 100_000, false, 201, 1],
  ['a short body that is refused', 1_000, false, 413, 1],
])(
  'the request behind %s gets a connection that was read to its end',
  async (_what, bytes, stream, status, connections) => {
    const used = new Set<unknown>()
    await using server = await startApplication((request, response) => {
      used.add(response.socket)
      response.writeHead(request.target === '/next' ? 201 : status, { 'Content-Length': '2' }).end('ok')
    })
    await using application = applicationAt(server.origin)
    const post = (target: string, body: Buffer) =>
      application.forward(
        { method: 'POST', target, headers: [], body },
        { answerWithinMs: 5_000, storedLimitBytes: 1_024 },
      )
    const body = Buffer.alloc(bytes)
    if (stream)
      await application.stream(
        { method: 'POST', target: '/long', headers: [], body: Readable.from([body]) },
        5_000,
        new AbortController().signal,
      )
    else await post('/long', body)
    expect(await post('/next', Buffer.from('pay'))).toMatchObject({ response: { status: 201 } })
    expect(used.size).toBe(connections)
  },
)
