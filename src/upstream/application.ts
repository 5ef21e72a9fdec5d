/**
 * The application behind the sidecar: one address, fixed by configuration, and the connections to it.
 *
 * Owns their pools with every option written out, which host a request is for, and the choice between an answer in memory (which may
 * be stored) and one that is streamed. No redirects, no retries, no decompression, no cookies.
 */

import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Pool } from 'undici'
import { BodyParts } from '../core/body-parts.ts'
import type { Clock } from '../core/clock.ts'
import { type HeaderLine, linesOf } from '../core/header-list.ts'
import type {
  Application,
  ApplicationRequest,
  ForwardLimits,
  ForwardResult,
  PassedBody,
  PassedOn,
} from '../core/ports.ts'
import { readPastFailedWrites, takeSoundAnswers } from './answer-parser.ts'
import { type ApplicationAddress, Connection, connectorTo } from './connection.ts'
import { AnswerLate, exchange, failureOf, type Reply, tunnel } from './exchange.ts'
import { type Dispatching, ownConnections, shareConnections } from './shares.ts'

export type ApplicationOptions = {
  readonly address: ApplicationAddress
  /** What `Host` says: what the client's says, where it says anything, or the address of the application. */
  readonly host: 'client' | 'application'
  readonly connectTimeoutMs: number
  /** Longest silence between two parts of an answer; after it the answer counts as cut. */
  readonly bodyIdleMs: number
  /** Of which what `stream` and `upgrade` use leave a quarter to `forward`. */
  readonly connectionsMax: number
  readonly keepAliveMs: number
  readonly clock: Clock
}

/** A larger head of an answer is malformed. Node's own servers refuse to send more than 16 KiB by default. */
const ANSWER_HEAD_BYTES_MAX = 64 * 1024

export function createApplication(
  options: ApplicationOptions,
): Application<Readable, Socket> & AsyncDisposable {
  const { address, clock } = options
  const origin = address.kind === 'http' ? address.origin : 'http://localhost'
  const { connectionsMax } = options
  const shares = shareConnections(connectionsMax, (connections) => openPool(options, origin, connections))
  const own = ownConnections(connectionsMax, () => openPool(options, origin, 1))
  const connectionFor = ({ headers, peer }: ApplicationRequest<Readable>, shared: Dispatching): Dispatching =>
    ofOneName(own.of(headers, peer) ?? shared, origin)
  const addressed = (request: ApplicationRequest<Readable>): ApplicationRequest<Readable> =>
    options.host === 'client' ? request : { ...request, headers: request.headers.filter(isNotHost) }
  return {
    forward: async (request, limits) => {
      const { answerWithinMs, mayBegin } = limits
      const connections = connectionFor(request, shares.guarded)
      const reply = await exchange(connections, addressed(request), { answerWithinMs, clock, mayBegin })
      return reply.kind === 'answered' ? keepInMemory(reply, request.method, limits, clock) : reply
    },
    stream: async (request, answerWithinMs, signal) => {
      const connections = connectionFor(request, shares.passing)
      const reply = await exchange(connections, addressed(request), { answerWithinMs, clock, signal })
      if (reply.kind !== 'answered') return reply
      const whole = isStream(reply, request.method) ? undefined : reply.body.whole()
      if (whole === undefined) reply.noDeadline()
      return passedOn(reply, whole)
    },
    upgrade: async (request, protocol, answerWithinMs, signal) => {
      const options = { answerWithinMs, clock, signal }
      const connections = connectionFor(request, shares.passing)
      const reply = await tunnel(connections, addressed(request), protocol, options)
      return reply.kind === 'answered' ? passedOn(reply, undefined) : reply
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([shares.destroy(), own[Symbol.asyncDispose]()])
    },
  }
}

/** Every option is written out. */
function openPool(
  { address, connectTimeoutMs, bodyIdleMs, keepAliveMs }: ApplicationOptions,
  origin: string,
  connections: number,
): Pool {
  const connect = connectorTo(address, connectTimeoutMs)
  const pool = new Pool(origin, {
    connections,
    factory: (url, connecting) => new Connection(url, connecting),
    // One request per connection at a time: a request must not depend on the fate of the one before it.
    pipelining: 1,
    // Without the name that undici takes from a request's Host: the certificate is that of the address.
    connect: ({ servername: _, ...at }, connected) =>
      connect(at, (...made) => {
        if (made[0] === null) readPastFailedWrites(made[1])
        connected(...made)
      }),
    // The exchange has its own deadline, which also covers the time before the head.
    headersTimeout: 0,
    bodyTimeout: bodyIdleMs,
    keepAliveTimeout: keepAliveMs,
    // What an application states in `Keep-Alive` makes it shorter, never longer.
    keepAliveMaxTimeout: keepAliveMs,
    keepAliveTimeoutThreshold: 1_000,
    maxHeaderSize: ANSWER_HEAD_BYTES_MAX,
    strictContentLength: true,
    allowH2: false,
    // The other parser is an experiment, which an environment variable of undici would choose.
    useMilo: false,
  })
  takeSoundAnswers(pool)
  return pool
}

/** Over TLS undici ends a connection before a request for another name than the last one's, and takes the name from `Host`. */
function ofOneName(connections: Dispatching, origin: string): Dispatching {
  if (!origin.startsWith('https:')) return connections
  const { hostname: servername } = new URL(origin)
  return {
    dispatch: (request, handler) => {
      const named: typeof request & { servername: string } = { ...request, servername }
      return connections.dispatch(named, handler)
    },
  }
}

function isNotHost([name]: HeaderLine): boolean {
  return name.toLowerCase() !== 'host'
}

function passedOn({ status, headers, body }: Reply, whole: Buffer | undefined): PassedOn {
  return { kind: 'answered', status, headers, body: whole ?? body.stream() }
}

/** At once, where all of it came with its head. */
function keepInMemory(
  reply: Reply,
  method: string,
  limits: ForwardLimits,
  clock: Clock,
): ForwardResult | Promise<ForwardResult> {
  const streamed = isStream(reply, method)
  const whole = streamed ? undefined : reply.body.whole()
  if (whole !== undefined && fits(limits, whole, whole.length)) {
    const { status, headers } = reply
    return { kind: 'answered', response: { status, headers, body: whole } }
  }
  return keepParts(reply, streamed || whole !== undefined, limits, clock)
}

/** @param bytes with it */
function fits({ storedLimitBytes, mayKeep }: ForwardLimits, part: Buffer, bytes: number): boolean {
  return bytes <= storedLimitBytes && mayKeep?.(part.length) !== false
}

async function keepParts(
  reply: Reply,
  passesOn: boolean,
  limits: ForwardLimits,
  clock: Clock,
): Promise<ForwardResult> {
  const { status, headers } = reply
  const body = reply.body.stream()
  const parts = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const kept = new BodyParts()
  let bytes = 0
  const asStream = (next?: Promise<IteratorResult<Buffer>>): ForwardResult => {
    reply.noDeadline()
    endUnread(body, limits, clock)
    const mayKeep = (part: Buffer): boolean => {
      bytes += part.length
      return fits(limits, part, bytes)
    }
    const passed = next && keepPassing(kept, next, parts, mayKeep)
    const oversized = { stream: rest(kept.list(), parts), ...passed, over: reply.body.over() }
    return { kind: 'answered', response: { status, headers, body: Buffer.alloc(0), oversized } }
  }
  if (passesOn) return asStream()
  const { promise: late, resolve } = Promise.withResolvers<'late'>()
  // Where no client waits for it, it is awaited whole.
  const isAwaited = limits.abandoned === undefined || linesOf(headers, 'content-length').length > 0
  const timer = isAwaited ? undefined : clock.timer(STREAM_AFTER_MS, () => resolve('late'))
  try {
    for (;;) {
      const next = parts.next()
      const part = await Promise.race([next, late])
      if (part === 'late') return asStream(next)
      if (part.done === true) return { kind: 'answered', response: { status, headers, body: kept.whole() } }
      kept.add(part.value)
      bytes += part.value.length
      if (!fits(limits, part.value, bytes)) return asStream()
    }
  } catch (error) {
    return failureOf(error instanceof Error ? error : new Error(String(error)), true)
  } finally {
    timer?.cancel()
  }
}

/** How long an answer that does not state its length has for its end, before it is passed on as it comes. */
const STREAM_AFTER_MS = 200

/** What is passed on part by part is kept besides, until it is too long. */
function keepPassing(
  kept: BodyParts,
  first: Promise<IteratorResult<Buffer>>,
  parts: AsyncIterator<Buffer>,
  mayKeep: (part: Buffer) => boolean,
): { readonly stream: AsyncIterable<Buffer>; readonly whole: Promise<PassedBody> } {
  const { promise: whole, resolve } = Promise.withResolvers<PassedBody>()
  async function* passing(): AsyncGenerator<Buffer> {
    try {
      yield* kept.list()
      let keeps = true
      for (let part = await first; part.done !== true; part = await parts.next()) {
        keeps &&= mayKeep(part.value)
        if (keeps) kept.add(part.value)
        else resolve('too_long')
        yield part.value
      }
      resolve(kept.whole())
    } finally {
      resolve('cut')
    }
  }
  return { stream: passing(), whole }
}

/**
 * Without a reader the rest has the time limit of any other answer, so that the work behind it can finish. A stream
 * that only its reader ends would otherwise go on for ever, on a connection that others wait for.
 */
function endUnread(body: Readable, { abandoned, answerWithinMs }: ForwardLimits, clock: Clock): void {
  const end = (): void => {
    if (body.closed) return
    const timer = clock.timer(answerWithinMs, () => {
      body.destroy(new AnswerLate(`nobody has read for ${answerWithinMs} ms`))
    })
    body.once('close', () => timer.cancel())
  }
  if (abandoned?.aborted === true) end()
  else abandoned?.addEventListener('abort', end, { once: true })
}

/**
 * Answers that do not state their own end: event streams, and bodies that end with the connection. The sidecar can't
 * tell a whole body of the latter from a cut one, and it records only whole answers.
 */
function isStream({ status, headers }: Reply, method: string): boolean {
  if (linesOf(headers, 'content-type')[0]?.toLowerCase().startsWith('text/event-stream') === true) return true
  if (method === 'HEAD' || status === 204 || status === 304) return false
  // If the last coding is not chunked, the body ends with the connection (RFC 9112, section 6.3); any other coding
  // besides it is not decoded here, so the bytes are not the answer.
  const codings = linesOf(headers, 'transfer-encoding').join()
  return codings === ''
    ? linesOf(headers, 'content-length').length === 0
    : codings.trim().toLowerCase() !== 'chunked'
}

async function* rest(kept: Buffer[], parts: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    // Each is let go as it is passed on: the beginning of a long answer is not held until its end.
    for (let part = kept.shift(); part !== undefined; part = kept.shift()) yield part
    for (let part = await parts.next(); part.done !== true; part = await parts.next()) yield part.value
  } finally {
    // The consumer stopped reading: only this ends the exchange.
    await parts.return?.()
  }
}
