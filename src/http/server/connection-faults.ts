/**
 * What Node's parser could not take: garbage, heads that are too large, requests that do not arrive in time.
 *
 * Owns the answer to them and, above all, whose answer it is. While an earlier request of the same connection waits for
 * its answer, nothing may be written: the client would take it for that one. And where the garbage is inside the body of
 * a request that is being read, it is that request's own problem.
 */

import type { Duplex } from 'node:stream'
import { problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import type { Inbound } from './inbound.ts'
import { writeRaw } from './send.ts'

type Connection = { latest: Inbound; readonly unanswered: Set<Inbound> }

export type ConnectionFaults = {
  /** Makes a request known; `cut` is what aborts its {@link Inbound.cut}. */
  admit(inbound: Inbound, cut: AbortController): void
  /** No earlier request of this connection waits for its answer. */
  isQuiet(socket: Duplex): boolean
  /** For Node's `clientError`. */
  onClientError(error: NodeJS.ErrnoException, socket: Duplex): void
}

export function createConnectionFaults(limits: FaultLimits, newInstance: () => string): ConnectionFaults {
  const connections = new WeakMap<Duplex, Connection>()
  const cuts = new WeakMap<Inbound, AbortController>()

  return {
    admit: (inbound, cut) => {
      const { socket } = inbound.req
      const connection = connections.get(socket) ?? { latest: inbound, unanswered: new Set() }
      connection.latest = inbound
      connection.unanswered.add(inbound)
      connections.set(socket, connection)
      cuts.set(inbound, cut)
      inbound.res.once('close', () => connection.unanswered.delete(inbound))
    },
    isQuiet: (socket) => (connections.get(socket)?.unanswered.size ?? 0) === 0,
    onClientError: (error, socket) => {
      const problem = problemOf(error, limits)
      if (problem === undefined) {
        socket.destroy()
        return
      }
      const { latest, unanswered = new Set<Inbound>() } = connections.get(socket) ?? {}
      if (latest !== undefined && !latest.req.complete && unanswered.has(latest)) {
        cuts.get(latest)?.abort(problem)
        return
      }
      const refuse = (): void => {
        if (!socket.writable) return
        const answer = problemAnswer(problem, { instance: newInstance })
        writeRaw(socket, answer, () => socket.destroy())
      }
      const waiting = [...unanswered].at(-1)
      if (waiting === undefined) refuse()
      else waiting.res.once('close', refuse)
    },
  }
}

export type FaultLimits = {
  readonly headerBytesMax: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
}

/** Undefined where the connection itself is gone. */
function problemOf(error: NodeJS.ErrnoException, limits: FaultLimits): Problem | undefined {
  switch (error.code) {
    case 'ECONNRESET':
    case 'EPIPE':
    case 'ETIMEDOUT':
      return undefined
    case 'HPE_HEADER_OVERFLOW':
      return {
        code: 'headers-too-large',
        detail: `The head of the request is larger than ${limits.headerBytesMax} bytes, which is the limit.`,
      }
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return {
        code: 'request-timeout',
        detail: `The head of a request has to arrive within ${limits.headersTimeoutMs} ms and all of it within ${limits.requestTimeoutMs} ms. Nothing was carried out.`,
      }
    default:
      // A handshake that failed: there is no TLS to tell anything on.
      if (/^(ERR_SSL_|ERR_TLS_|EPROTO)/.test(error.code ?? '')) return undefined
      return { code: 'malformed-request', detail: 'This is not a well-formed HTTP/1.1 request (RFC 9112).' }
  }
}
