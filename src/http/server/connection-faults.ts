/**
 * What Node's parser rejects: malformed bytes, heads that are too large, requests that do not arrive in time.
 *
 * Owns the answer to them and, above all, which request it answers. While an earlier request on the same connection waits for
 * its answer, nothing is written: the client would take it for that answer. Malformed bytes inside a body that is being read
 * are a problem of that request. Node limits how long a whole request takes; of a body that is passed on as it arrives, this limits
 * the silence.
 */

import type { Duplex } from 'node:stream'
import { problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import type { Inbound } from './inbound.ts'
import { writeRaw } from './send.ts'

/**
 * The requests of a connection that wait for their answers, in order. An array: a set that lives as long as a connection would keep requests
 * that were answered long ago in memory until the next full collection (docs/internals/performance.md).
 */
type Unanswered = Inbound[]

export type ConnectionFaults = {
  /**
   * Registers a request; `cut` aborts its {@link Inbound.cut}. False: too many on its connection wait for their answers. The connection is
   * cut, and the request must not be handled.
   */
  admit(inbound: Inbound, cut: AbortController): boolean
  /** No earlier request on this connection waits for its answer. */
  isQuiet(socket: Duplex): boolean
  /** Answers what Node hands over without a response, and ends the connection: after the answers to all requests before it. */
  refuse(socket: Duplex, problem: Problem): void
  /** For Node's `clientError`. */
  onClientError(error: NodeJS.ErrnoException, socket: Duplex): void
}

export function createConnectionFaults(limits: FaultLimits, newInstance: () => string): ConnectionFaults {
  const connections = new WeakMap<Duplex, Unanswered>()
  const cuts = new WeakMap<Inbound, AbortController>()

  function refuse(socket: Duplex, problem: Problem): void {
    const write = (): void => {
      if (!socket.writable) return
      writeRaw(socket, problemAnswer(problem, { instance: newInstance }), () => socket.destroy())
    }
    const waiting = connections.get(socket)?.at(-1)
    if (waiting === undefined) write()
    else waiting.res.once('close', write)
  }

  return {
    admit: (inbound, cut) => {
      const { socket } = inbound.req
      const unanswered = connections.get(socket) ?? []
      if (unanswered.length >= UNANSWERED_MAX) {
        socket.destroy()
        return false
      }
      unanswered.push(inbound)
      connections.set(socket, unanswered)
      cuts.set(inbound, cut)
      inbound.res.on('close', () => {
        const at = unanswered.indexOf(inbound)
        if (at !== -1) unanswered.splice(at, 1)
      })
      return true
    },
    isQuiet: (socket) => (connections.get(socket)?.length ?? 0) === 0,
    onClientError: (error, socket) => {
      const problem = problemOf(error, limits)
      if (problem === undefined) {
        socket.destroy()
        return
      }
      // Of those before it Node has read the whole body.
      const latest = connections.get(socket)?.at(-1)
      if (latest !== undefined && !latest.req.complete) {
        const cut = cuts.get(latest)
        if (latest.streamed === true && problem.code === 'request-timeout') cutWhenSilent(latest, limits, cut)
        else cut?.abort(problem)
        return
      }
      refuse(socket, problem)
    },
    refuse,
  }
}

/**
 * Requests on one connection that wait for their answers. Node reads as many as a client sends, some 8 KiB each, whatever it can handle.
 * Clients that send several ahead (pipelining: few do) send a handful.
 */
export const UNANSWERED_MAX = 100

export type FaultLimits = {
  readonly headerBytesMax: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
}

/** Node tells of each request once that it takes too long. */
function cutWhenSilent({ req, res }: Inbound, limits: FaultLimits, cut: AbortController | undefined): void {
  const { requestTimeoutMs } = limits
  let heardBytes = req.socket.bytesRead
  const timer = setInterval(() => {
    const { bytesRead } = req.socket
    if (req.complete) clearInterval(timer)
    // While the application does not read, the client can't send: that is the application's silence.
    else if (bytesRead !== heardBytes || req.isPaused()) heardBytes = bytesRead
    else cut?.abort({ code: 'request-timeout', detail: silent(requestTimeoutMs) })
  }, requestTimeoutMs)
  res.once('close', () => clearInterval(timer))
}

function silent(forMs: number): string {
  return `No part of the body came for ${forMs} ms, which is the limit. What came before was passed on: the request may have been carried out.`
}

const CHECK_MS_MIN = 50
const CHECK_MS_MAX = 5_000

/**
 * How often a server looks for connections that are over their time, in milliseconds: a fifth of the shorter limit, so that it is exceeded by no
 * more than that, but at least 50 ms and at most 5 s. More often would only wake an idle sidecar.
 */
export function timeoutCheckMs(limits: Pick<FaultLimits, 'headersTimeoutMs' | 'requestTimeoutMs'>): number {
  const shortest = Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs)
  return Math.min(CHECK_MS_MAX, Math.max(CHECK_MS_MIN, Math.floor(shortest / 5)))
}

/** Undefined if the connection itself is closed. */
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
      // The handshake failed: there is no channel for an answer.
      if (/^(ERR_SSL_|ERR_TLS_|EPROTO)/.test(error.code ?? '')) return undefined
      return (
        unknownMethod(error) ?? {
          code: 'malformed-request',
          detail: 'This is not a well-formed HTTP/1.1 request (RFC 9112).',
        }
      )
  }
}

const REQUEST_LINE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64} [^ ]+ HTTP\/1\.[01]\r?\n/

/** Node's parser reads a closed list of methods, and of a request with another one nothing more. */
function unknownMethod(error: NodeJS.ErrnoException & Partial<ParserFault>): Problem | undefined {
  const { code, rawPacket, bytesParsed = 0 } = error
  if (code !== 'HPE_INVALID_METHOD' || rawPacket === undefined) return undefined
  const text = rawPacket.toString('latin1')
  if (!REQUEST_LINE.test(text.slice(text.lastIndexOf('\n', bytesParsed - 1) + 1))) return undefined
  // Not by its name: a client may have sent a secret in its place.
  return {
    code: 'method-refused',
    detail:
      "The parser of Node.js does not read this method, so it can't be passed on. Nothing was carried out.",
  }
}

/** What Node adds to an error of its parser. */
type ParserFault = { readonly rawPacket: Buffer; readonly bytesParsed: number }
