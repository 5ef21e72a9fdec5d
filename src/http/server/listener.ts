/**
 * Fastify in front of Node's HTTP server, with every limit written out.
 *
 * Owns what of HTTP never reaches a handler: limits of heads and times, CONNECT, unknown expectations, what the parser
 * could not take. Fastify's routing and body parsing are not used, because both change what is passed on (a normalised
 * target, a parsed body): every request is taken at `onRequest`.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import Fastify, { type FastifyInstance } from 'fastify'
import { problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import { type ConnectionFaults, createConnectionFaults } from './connection-faults.ts'
import type { Inbound } from './inbound.ts'
import { send, writeRaw } from './send.ts'
import { keepTlsFresh, type ListenerTls, tlsOptions } from './tls.ts'
import { asksForWebSocket } from './websocket-offer.ts'

export type ListenerLimits = {
  readonly headerBytesMax: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly keepAliveTimeoutMs: number
  readonly requestsPerConnectionMax: number
  readonly connectionsMax: number
  readonly readerIdleMs: number
}

export type Handlers = {
  /** Never rejects. */
  readonly take: (inbound: Inbound) => Promise<void>
  /** A client that asks for a WebSocket. Never rejects. Absent where the request is taken like any other. */
  readonly takeUpgrade?: (req: IncomingMessage, socket: Duplex, first: Buffer) => Promise<void>
}

/** How often connections are looked at for the timeouts of heads and requests. */
const TIMEOUT_CHECK_MS = 500

export function createListener(
  limits: ListenerLimits,
  handlers: Handlers,
  newInstance: () => string,
  tls: ListenerTls | undefined,
): FastifyInstance {
  const expecting = new WeakSet<IncomingMessage>()
  /** Their client was told that no answer follows: what it sent behind must not be carried out behind its back. */
  const ending = new WeakSet<Duplex>()
  const faults = createConnectionFaults(limits, newInstance)
  const app = Fastify({
    logger: false,
    forceCloseConnections: false,
    return503OnClosing: false,
    // Fastify has nothing to route: whatever the target is, it is the hook below that takes the request.
    rewriteUrl: () => '/',
    clientErrorHandler: (error, socket) => faults.onClientError(error, socket),
    serverFactory: (handler) => {
      const http = serverOptions(limits, faults, handlers.takeUpgrade !== undefined)
      if (tls === undefined) return continuing(createServer(http, handler), handler)
      const secure = createTlsServer({ ...http, ...tlsOptions(tls, limits.headersTimeoutMs) }, handler)
      keepTlsFresh(secure, tls)
      return continuing(secure as unknown as Server, handler)
    },
  })

  function continuing(on: Server, handler: (req: IncomingMessage, res: ServerResponse) => void): Server {
    on.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
      expecting.add(req)
      handler(req, res)
    })
    return on
  }
  const server = app.server as Server
  // Node drops header lines beyond its count without a word, and with them a key. All are kept, and counted by us.
  server.maxHeadersCount = 0
  server.maxRequestsPerSocket = limits.requestsPerConnectionMax
  server.maxConnections = limits.connectionsMax
  server.timeout = 0

  // Node remembers an address that was asked for while its connection stood. Of a peer that has reset it there is none, and
  // nobody knows who asks: it would be taken for one on a Unix socket, which is trusted (`request/trusted-peers.ts`).
  server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
    if (socket.remoteAddress === undefined && typeof server.address() !== 'string') socket.destroy()
  })

  const admitted = (req: IncomingMessage, res: ServerResponse): Inbound => {
    const cut = new AbortController()
    const inbound = { req, res, expectsContinue: expecting.has(req), cut: cut.signal }
    faults.admit(inbound, cut)
    // The answer before it on its connection leaves its time limit there, and Node cuts one whose answer does not mind.
    res.on('timeout', () => {})
    return inbound
  }
  const problem = (of: Problem) => problemAnswer(of, { instance: newInstance })

  app.addHook('onRequest', async (request, reply) => {
    reply.hijack()
    if (ending.has(request.raw.socket)) return
    void handlers.take(admitted(request.raw, reply.raw))
  })
  app.all('/', async () => undefined)
  server.on('checkExpectation', (req: IncomingMessage, res: ServerResponse) => {
    if (ending.has(req.socket)) return
    ending.add(req.socket)
    const answer = problem({
      code: 'expectation-failed',
      detail: 'Of expectations only "100-continue" is known.',
    })
    void send(admitted(req, res), answer, { readerIdleMs: limits.readerIdleMs, close: true })
  })
  server.on('connect', (_req: IncomingMessage, socket: Duplex) => {
    const answer = problem({ code: 'method-refused', detail: 'CONNECT is not passed on.' })
    writeRaw(socket, answer, () => socket.destroy())
  })
  server.on('upgrade', (req: IncomingMessage, socket: Duplex, first: Buffer) => {
    if (ending.has(req.socket)) {
      socket.destroy()
      return
    }
    void handlers.takeUpgrade?.(req, socket, first)
  })
  return app
}

function serverOptions(limits: ListenerLimits, faults: ConnectionFaults, upgrades: boolean) {
  return {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    insecureHTTPParser: false,
    // Checked by ourselves, with a problem document for an answer.
    requireHostHeader: false,
    noDelay: true,
    // A request that asks for another protocol is otherwise an ordinary one. So is one behind others that are not
    // answered yet: whoever takes a connection over writes to it at once.
    shouldUpgradeCallback: (req: IncomingMessage) =>
      upgrades && asksForWebSocket(req) && faults.isQuiet(req.socket),
  }
}
