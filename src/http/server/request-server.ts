/**
 * A server that hands every request to one handler, whatever its path: from the connection to the handler, and from the
 * handler's answer back to the connection.
 *
 * Owns when a request begins, how many are in flight, which answer ends a connection, and the drain. The handler decides what
 * to do with a request; `listener.ts` has the limits of heads and times.
 */

import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../core/clock.ts'
import type { Answer } from '../message/answer.ts'
import { closesConnection } from '../message/problems.ts'
import { createRequestScheduler, type InFlight, trackInFlight } from './in-flight.ts'
import type { Inbound } from './inbound.ts'
import { createListener, type ListenerLimits } from './listener.ts'
import { type FailurePorts, type ListenAt, type ListenerTls, whereListening } from './listening.ts'
import { send } from './send.ts'

type RequestServerOptions = {
  readonly limits: ListenerLimits
  readonly tls?: ListenerTls
}

type RequestServerPorts = FailurePorts & { readonly clock: Clock }

type RequestHandlers = {
  /** @param startedMonoMs when the request arrived, which may be earlier than when it begins */
  readonly handle: (inbound: Inbound, startedMonoMs: number) => Promise<void>
  /** A client requests a WebSocket. Never rejects. Without it such a request is handled like any other. */
  readonly upgrade?: (req: IncomingMessage, socket: Duplex, first: Buffer) => Promise<void>
}

interface RequestServer {
  readonly inFlight: InFlight
  /** Where it listens: `http://host:port`, or `unix:/path`. */
  listen(at: ListenAt): Promise<string>
  /** Handles no request that follows this one on its connection. */
  endAfter(inbound: Inbound): void
  /** Never rejects. */
  send(inbound: Inbound, answer: Answer): Promise<void>
  /**
   * Drains: requests in flight have `graceMs`, then all connections are cut.
   *
   * @param cut ends connections that were handed over, which the server does not know any more
   */
  close(graceMs: number, cut?: () => void): Promise<void>
}

export function createRequestServer(
  { limits, tls }: RequestServerOptions,
  { handle, upgrade }: RequestHandlers,
  { clock, newInstance, onFailure }: RequestServerPorts,
): RequestServer {
  const inFlight = trackInFlight(clock)
  const scheduler = createRequestScheduler(clock)
  /** Connections that close after the answer in progress. */
  const ending = new WeakSet<Duplex>()
  /** What cuts each answer that is being sent as a stream. */
  const streams = new Set<() => void>()
  const takeUpgrade: typeof upgrade =
    upgrade &&
    (async (req, socket, first) => {
      if (ending.has(req.socket)) socket.destroy()
      else await upgrade(req, socket, first)
    })
  const handlers = takeUpgrade === undefined ? { take } : { take, takeUpgrade }
  const listener = createListener(limits, handlers, newInstance, tls)
  const server = listener.server as Server

  async function take(inbound: Inbound): Promise<void> {
    const startedMonoMs = clock.monoMs()
    inFlight.begin()
    try {
      const turn = scheduler.begin()
      if (turn !== undefined) await turn
      // The client of an ending connection knows that no answer follows: a request from it must not be executed unseen.
      if (!ending.has(inbound.req.socket)) await handle(inbound, startedMonoMs)
    } catch (error) {
      onFailure(error, newInstance())
      inbound.req.destroy()
    }
    inFlight.end()
  }

  return {
    inFlight,
    listen: async ({ kind: _, ...where }) => {
      await listener.listen(where)
      return whereListening(server, tls !== undefined)
    },
    endAfter: ({ req }) => {
      ending.add(req.socket)
    },
    send: (inbound, answer) => {
      const { req } = inbound
      const close = inFlight.leaving || !req.complete || closesConnection(answer.detail)
      if (close) ending.add(req.socket)
      return send(inbound, answer, { readerIdleMs: limits.readerIdleMs, close, streams })
    },
    close: async (graceMs, cut) => {
      inFlight.drain()
      const closed = listener.close()
      await inFlight.idleOrAfter(graceMs)
      cut?.()
      // Node would end all connections alike, and not every client could tell such an end from that of a whole answer.
      for (const cutStream of streams) cutStream()
      server.closeAllConnections()
      await closed
    },
  }
}
