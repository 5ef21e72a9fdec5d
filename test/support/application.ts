/**
 * A real application behind the proxy, over real sockets: it counts executions, keeps the requests, and answers as and
 * when the test says, also wrongly.
 */

import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { HeaderList } from '../../src/core/header-list.ts'
import { listening } from './listening.ts'

type Seen = {
  readonly method: string
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer
  /** All lines of one header. */
  values(name: string): readonly string[]
}

export type Respond = (request: Seen, response: ServerResponse, execution: number) => void | Promise<void>

export type TestApplication = AsyncDisposable & {
  readonly origin: string
  /** Complete requests, in order. */
  readonly seen: readonly Seen[]
  /** Answers from now on. */
  respond: Respond
  /** Where set: handles requests as soon as they begin, instead of `respond`. */
  onRequest: ((request: IncomingMessage, response: ServerResponse) => void) | undefined
}

/** 201 with the number of the execution in its body. */
const COUNT: Respond = (_request, response, execution) => {
  response.writeHead(201, { 'Content-Type': 'application/json', Location: `/things/${execution}` })
  response.end(JSON.stringify({ execution }))
}

export async function startApplication(
  respond: Respond = COUNT,
  listenAt?: string,
): Promise<TestApplication> {
  const seen: Seen[] = []
  const upgraded = new Set<Socket>()
  const application: Pick<TestApplication, 'respond' | 'onRequest'> = { respond, onRequest: undefined }
  const server = createHttpServer((request, response) => {
    const parts: Buffer[] = []
    request.on('error', () => {})
    response.on('error', () => {})
    if (application.onRequest !== undefined) {
      application.onRequest(request, response)
      return
    }
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const one = seenFrom(request, Buffer.concat(parts))
      seen.push(one)
      void application.respond(one, response, seen.length)
    })
  })
  server.on('upgrade', (request, socket: Socket, first: Buffer) => {
    seen.push(seenFrom(request, Buffer.alloc(0)))
    upgraded.add(socket)
    socket.on('error', () => {})
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
    socket.write(first)
    socket.pipe(socket)
  })
  await new Promise<void>((resolve) =>
    listenAt === undefined ? server.listen(0, '127.0.0.1', resolve) : server.listen(listenAt, resolve),
  )
  return {
    origin:
      listenAt === undefined
        ? `http://127.0.0.1:${(server.address() as AddressInfo).port}`
        : `unix:${listenAt}`,
    seen,
    get respond() {
      return application.respond
    },
    set respond(next: Respond) {
      application.respond = next
    },
    get onRequest() {
      return application.onRequest
    },
    set onRequest(next) {
      application.onRequest = next
    },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
        for (const socket of upgraded) socket.destroy()
      }),
  }
}

function seenFrom(request: IncomingMessage, body: Buffer): Seen {
  const { rawHeaders } = request
  const headers = Array.from({ length: rawHeaders.length / 2 }, (_, index): [string, string] => [
    rawHeaders[2 * index] ?? '',
    rawHeaders[2 * index + 1] ?? '',
  ])
  return {
    method: request.method ?? '',
    target: request.url ?? '',
    headers,
    body,
    values: (name) =>
      headers.filter(([each]) => each.toLowerCase() === name.toLowerCase()).map(([, value]) => value),
  }
}

export type RawApplication = AsyncDisposable & {
  readonly origin: string
  /** Requests that were answered. */
  readonly requests: readonly string[]
}

/** Answers every request with the same bytes, then treats the connection as `after` says. */
export async function startRawApplication(
  answer: string | Buffer,
  after: 'keep' | 'end' | 'reset' = 'keep',
): Promise<RawApplication> {
  const requests: string[] = []
  const server = createServer((socket) => {
    let received = ''
    socket.on('error', () => {})
    socket.on('data', (part) => {
      received += part.toString('latin1')
      const head = received.indexOf('\r\n\r\n')
      const length = Number(/\r\ncontent-length: *([0-9]+)/i.exec(received)?.[1] ?? 0)
      if (head === -1 || received.length < head + 4 + length) return
      requests.push(received)
      received = ''
      socket.write(answer, () => {
        if (after === 'end') socket.end()
        if (after === 'reset') socket.resetAndDestroy()
      })
    })
  })
  return { ...(await listening(server)), requests }
}
