/**
 * Fastify in front of Node's HTTP server, for requests that are forwarded or judged as they are; with every limit written out.
 *
 * Owns the part of HTTP that never reaches a handler: limits of heads and times, CONNECT, unknown expectations, what the parser
 * rejects. Fastify's routing and body parsing are not used, because both change what is forwarded (a normalised target, a parsed
 * body): every request is taken at `onRequest`.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import Fastify, { type FastifyInstance } from 'fastify'
import { problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import { type ConnectionFaults, createConnectionFaults, timeoutCheckMs } from './connection-faults.ts'
import { asksForWebSocket, type Inbound, JoinedParts } from './inbound.ts'
import {
  type ConnectionLimit,
  keepTlsFresh,
  type ListenerTls,
  limitConnections,
  tlsOptions,
} from './listening.ts'
import { send } from './send.ts'

export type ListenerLimits = ConnectionLimit & {
  readonly headerBytesMax: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly keepAliveTimeoutMs: number
  readonly requestsPerConnectionMax: number
  readonly readerIdleMs: number
}

export type Handlers = {
  /** Never rejects. */
  readonly take: (inbound: Inbound) => Promise<void>
  /** A client requests a WebSocket. Never rejects. Without it such a request is taken like any other. */
  readonly takeUpgrade?: (req: IncomingMessage, socket: Duplex, first: Buffer) => Promise<void>
}

export function createListener(
  limits: ListenerLimits,
  handlers: Handlers,
  newInstance: () => string,
  tls: ListenerTls | undefined,
): FastifyInstance {
  const expecting = new WeakSet<IncomingMessage>()
  /** Their client knows that no answer follows: a request that it sent behind must not be executed unseen. */
  const ending = new WeakSet<Duplex>()
  const faults = createConnectionFaults(limits, newInstance)
  const app = Fastify({
    logger: false,
    forceCloseConnections: false,
    return503OnClosing: false,
    // Fastify routes nothing: the hook below takes every request, whatever its target.
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
  // Node drops header lines beyond its limit silently, and a key with them. Keep all of them; admission counts them.
  server.maxHeadersCount = 0
  server.maxRequestsPerSocket = limits.requestsPerConnectionMax
  limitConnections(server, limits)
  server.timeout = 0

  // Node caches an address that was read while the connection was open. A peer that has reset it has none, and would look like a
  // peer on a Unix socket, which is trusted (`request/arrival.ts`).
  server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
    if (socket.remoteAddress === undefined && typeof server.address() !== 'string') socket.destroy()
  })

  /** Undefined where its connection has been cut. */
  const admitted = (req: IncomingMessage, res: ServerResponse): Inbound | undefined => {
    const cut = new AbortController()
    const inbound = new Received(req, res, expecting.has(req), cut)
    if (!faults.admit(inbound, cut)) return undefined
    // The previous answer leaves its timeout on the connection; without a listener here Node cuts this one for it.
    res.on('timeout', keepsOpen)
    return inbound
  }
  const problem = (of: Problem) => problemAnswer(of, { instance: newInstance })

  // Without a promise, and without going on: from here on the request is ours.
  app.addHook('onRequest', (request, reply, _goOn) => {
    reply.hijack()
    if (ending.has(request.raw.socket)) return
    const inbound = admitted(request.raw, reply.raw)
    if (inbound !== undefined) void handlers.take(inbound)
  })
  app.all('/', async () => undefined)
  server.on('checkExpectation', (req: IncomingMessage, res: ServerResponse) => {
    if (ending.has(req.socket)) return
    ending.add(req.socket)
    const answer = problem({
      code: 'expectation-failed',
      detail: 'Of expectations only "100-continue" is known.',
    })
    const inbound = admitted(req, res)
    if (inbound !== undefined) void send(inbound, answer, { readerIdleMs: limits.readerIdleMs, close: true })
  })
  server.on('connect', (_req: IncomingMessage, socket: Duplex) => {
    faults.refuse(socket, { code: 'method-refused', detail: 'CONNECT is not passed on.' })
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

function keepsOpen(): void {}

class Received implements Inbound {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly expectsContinue: boolean
  readonly #cut: AbortController

  constructor(req: IncomingMessage, res: ServerResponse, expectsContinue: boolean, cut: AbortController) {
    this.req = req
    this.res = res
    this.expectsContinue = expectsContinue
    this.#cut = cut
  }

  /** A signal is made where somebody looks: a request without a body needs none. */
  get cut(): AbortSignal {
    return this.#cut.signal
  }
}

/**
 * A peer that is gone without a word (a phone out of reach, a machine without power) ends no connection. After this silence the system asks
 * for it, ten times a second apart. A WebSocket would keep its place for ever, as no other limit is for its silence.
 */
const SILENT_PEER_MS = 60_000

function serverOptions(limits: ListenerLimits, faults: ConnectionFaults, upgrades: boolean) {
  return {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs(limits),
    insecureHTTPParser: false,
    IncomingMessage: JoinedParts,
    // Admission checks it, and answers with a problem document.
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: SILENT_PEER_MS,
    // Any other request for a protocol change is an ordinary request. So is one behind requests that are not answered yet: a
    // tunnel writes to the connection at once.
    shouldUpgradeCallback: (req: IncomingMessage) =>
      upgrades && asksForWebSocket(req) && faults.isQuiet(req.socket),
  }
}
