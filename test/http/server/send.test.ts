/** Answers on the wire: sent before their request was read, and byte for byte. */
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import type { Answer } from '../../../src/http/message/answer.ts'
import { send } from '../../../src/http/server/send.ts'
import { listening } from '../../support/listening.ts'
import { openWire, sendAllThenRead } from '../../support/proxy.ts'

const BYTES = 1_000_000

test.each([
  ['with its length', [['Content-Length', String(BYTES)]]],
  ['in chunks', []],
] as const)(
  'a streamed answer arrives in full while the rest of its request is still arriving, %s',
  async (_how, headers) => {
    let rest = (): void => {}
    const { promise: sent, resolve: whenSent } = Promise.withResolvers<void>()
    async function* body(): AsyncGenerator<Buffer> {
      yield Buffer.from('~'.repeat(BYTES))
      rest()
    }
    const answer: Answer = { status: 413, headers, body: body(), decision: 'bypassed', detail: 'bypassed' }
    const server = createServer((req, res) => {
      const inbound = { req, res, expectsContinue: false, cut: new AbortController().signal }
      void send(inbound, answer, { readerIdleMs: 60_000, close: false }).then(whenSent)
    })
    const at = await listening(server)
    try {
      await using wire = await openWire(at.port)
      // It sends all that it has before it reads, as blocking clients do.
      wire.socket.pause()
      rest = () => wire.send(Buffer.alloc(900_000))
      wire.send('PUT /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 900001\r\n\r\n-')
      await sent
      wire.socket.resume()
      await wire.ended
      expect(wire.received().split('~').length - 1).toBe(BYTES)
    } finally {
      server.close()
      server.closeAllConnections()
    }
  },
)

// Bug: what came after one MiB was not read any more, and the client's write failed before it had read the answer.
test('an answer reaches a client that sends 30 MB before it reads', async () => {
  const answer: Answer = {
    status: 413,
    headers: [],
    body: Buffer.from('too large'),
    decision: 'invalid',
    detail: 'body-too-large',
  }
  const server = createServer((req, res) => {
    const inbound = { req, res, expectsContinue: false, cut: new AbortController().signal }
    void send(inbound, answer, { readerIdleMs: 60_000, close: true })
  })
  const served = await listening(server)
  try {
    await using wire = await openWire(served.port)
    wire.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n')
    await sendAllThenRead(wire, Buffer.alloc(30_000_000))
    await wire.ended
    expect(wire.received()).toMatch(/^HTTP\/1\.1 413 .*too large$/s)
  } finally {
    server.close()
    server.closeAllConnections()
  }
})

test.each([0, 1, 256, 1024, 1025, 70_000])(
  'an answer of %i bytes of all values arrives byte for byte',
  async (length) => {
    const body = Buffer.from(Array.from({ length }, (_, index) => index % 256))
    const headers = [['X-Latin', 'Zo\u00eb']] as const
    const answer: Answer = { status: 200, headers, body, decision: 'bypassed', detail: 'bypassed' }
    const server = createServer((req, res) => {
      const inbound = { req, res, expectsContinue: false, cut: new AbortController().signal }
      void send(inbound, answer, { readerIdleMs: 60_000, close: true })
    })
    const served = await listening(server)
    try {
      const socket = connect(served.port, '127.0.0.1')
      socket.end('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      const received = await buffer(socket)
      const headEnd = received.indexOf('\r\n\r\n') + 4
      expect(received.subarray(0, headEnd).toString('latin1')).toMatch(
        new RegExp(
          `^HTTP/1\\.1 200 OK\r\nX-Latin: Zo\u00eb\r\nContent-Length: ${length}\r\nConnection: close\r\nDate: [^\r]+\r\n\r\n$`,
        ),
      )
      expect(received.subarray(headEnd).equals(body)).toBe(true)
    } finally {
      server.close()
      server.closeAllConnections()
    }
  },
)
