/** Answers sent before their request was read. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import type { Answer } from '../../../src/http/message/answer.ts'
import { send } from '../../../src/http/server/send.ts'
import { openWire } from '../../support/proxy.ts'

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
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      await using wire = await openWire((server.address() as AddressInfo).port)
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
