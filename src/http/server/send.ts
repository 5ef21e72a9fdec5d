/**
 * Writes an answer to a client.
 *
 * Owns framing (`Content-Length` of a body in memory is its own length, whatever is stated; without a body it is what is stated),
 * backpressure, and how long a slow reader may take. An answer that is sent before its request was read to the end reaches its
 * client: closing a connection with unread bytes resets it, and the reset may overtake the answer. One that is cut never looks
 * whole, also to a client of HTTP/1.0, to whom the end of the connection is the end of the answer.
 */

import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HeaderList } from '../../core/header-list.ts'
import type { Answer } from '../message/answer.ts'
import type { Inbound } from './inbound.ts'

type SendOptions = {
  /** Longest silence of a client that does not read its answer. */
  readonly readerIdleMs: number
  /** Close the connection after this answer. */
  readonly close: boolean
  /** Gets what cuts the answer, while it is sent as a stream. */
  readonly streams?: Set<() => void>
}

/**
 * How long a refused request is still read, so that its client can read the answer: blocking clients send all of it first. The
 * bytes are dropped, so their number has no limit of its own.
 */
const LINGER_SILENCE_MS = 1_000
const LINGER_MS = 10_000

/** Resolves when the answer is handed over, or the client has disconnected. Never rejects. */
export async function send(inbound: Inbound, answer: Answer, options: SendOptions): Promise<void> {
  const { req, res } = inbound
  if (res.destroyed || res.headersSent) {
    await discard(answer)
    return
  }
  const unread = !req.complete
  const closed = new Promise<void>((resolve) => {
    res.on('close', resolve).on('finish', resolve)
  })
  res.on('error', ignored).setTimeout(options.readerIdleMs)
  res.sendDate = !answer.headers.some(([name]) => isNamed(name, 'date'))
  const bodyless = isBodyless(req.method, answer.status)
  const lines = framed(answer, bodyless)
  if (unread || options.close) lines.push('Connection', 'close')
  res.writeHead(answer.status, STATUS_CODES[answer.status] ?? 'Unknown', lines)
  const cut = (): void => cutOff(res, lines)
  res.on('timeout', cut)
  if (bodyless) {
    await discard(answer)
    sendHead(inbound)
    await linger(inbound)
    res.end()
  } else if (Buffer.isBuffer(answer.body)) {
    if (unread) {
      res.write(answer.body)
      await linger(inbound)
      res.end()
    } else end(res, answer.body)
  } else {
    options.streams?.add(cut)
    await pour(answer.body, inbound, options.readerIdleMs, cut)
  }
  await closed
  options.streams?.delete(cut)
}

/**
 * The head without a body behind it, byte for byte: Node writes it in the encoding of the connection, which is UTF-8 by default, and
 * in Latin-1 wherever a body follows at once.
 */
function sendHead({ req, res }: Inbound): void {
  req.socket.setDefaultEncoding('latin1')
  res.flushHeaders()
}

function isBodyless(method: string | undefined, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

/**
 * Node joins its head with a text that follows at once, and hands a buffer over as a chunk of its own. Copying a short body into
 * one text costs less than a second chunk does; from 2 KiB on it costs more.
 */
const JOINED_BYTES_MAX = 1024

function end(res: ServerResponse, body: Buffer): void {
  // Latin-1, in which Node writes heads: each byte is one character, and back.
  if (body.length <= JOINED_BYTES_MAX) res.end(body.toString('latin1'), 'latin1')
  else res.end(body)
}

function ignored(): void {}

/**
 * Ends the connection so that what was sent never looks like the whole answer. Without chunks and without a length the end of the
 * connection is the end of the answer (RFC 9112, section 6.3), and only a reset is another one.
 *
 * @param lines of its head, names and values by turns
 */
function cutOff(res: ServerResponse, lines: readonly string[]): void {
  const { socket } = res
  const isLength = (line: string, at: number): boolean => at % 2 === 0 && isNamed(line, 'content-length')
  const statesItsEnd = res.chunkedEncoding || lines.some(isLength)
  if (!statesItsEnd && socket !== null && canBeReset(socket)) socket.resetAndDestroy()
  else res.destroy()
}

/** With TLS Node has none, and the missing `close_notify` tells of the cut; a Unix socket has none at all. */
function canBeReset(socket: Socket): boolean {
  return !('encrypted' in socket) && socket.remoteAddress !== undefined
}

function isNamed(name: string, lowerName: string): boolean {
  return name.length === lowerName.length && name.toLowerCase() === lowerName
}

/** Names and values by turns, as Node takes them. */
function framed({ status, headers, body }: Answer, bodyless: boolean): string[] {
  const length = ownLength(status, body, bodyless, headers)
  const lines: string[] = []
  for (const [name, value] of headers)
    if (length === 'as stated' || !isNamed(name, 'content-length')) lines.push(name, value)
  if (typeof length === 'number') lines.push('Content-Length', String(length))
  return lines
}

function ownLength(
  status: number,
  body: Answer['body'],
  bodyless: boolean,
  headers: HeaderList,
): number | 'none' | 'as stated' {
  // RFC 9110, section 8.6: 204 has no Content-Length.
  if (status === 204) return 'none'
  if (!Buffer.isBuffer(body)) return 'as stated'
  // The length of the answer with a body, which only the application knows: `0` would change its answer.
  const isStated = () => headers.some(([name]) => isNamed(name, 'content-length'))
  if (bodyless && (status === 304 || body.length === 0 || isStated())) return 'as stated'
  // Other programs can write records: a length from a record must not decide where the next answer begins.
  return body.length
}

/** A cut source ends the connection and not the answer: the client must not take a part for the whole. */
async function pour(
  body: AsyncIterable<Buffer>,
  inbound: Inbound,
  readerIdleMs: number,
  cut: () => void,
): Promise<void> {
  const { res } = inbound
  // Between two parts the application is silent, and upstream/ limits for how long.
  res.setTimeout(0)
  // Node holds the head back until the first part, to write both at once. In an event stream that may take hours.
  const alone = setImmediate(() => sendHead(inbound))
  try {
    for await (const part of unbroken(body)) {
      clearImmediate(alone)
      // The application's work goes on after the client disconnects: the rest is read and discarded.
      if (res.destroyed || res.write(part)) continue
      res.setTimeout(readerIdleMs)
      await room(res)
      res.setTimeout(0)
    }
    clearImmediate(alone)
    await linger(inbound)
    res.setTimeout(readerIdleMs)
    res.end()
  } catch {
    clearImmediate(alone)
    // Cut before the first part: the head still shows that the request was executed.
    sendHead(inbound)
    cut()
  }
}

/** Resolves when the client has read enough, or has disconnected. */
function room(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done)
      resolve()
    }
    res.on('drain', done).on('close', done)
  })
}

async function discard(answer: Answer): Promise<void> {
  if (Buffer.isBuffer(answer.body)) return
  try {
    for await (const _ of unbroken(answer.body));
  } catch {
    // The application cut it; no client was reading.
  }
}

/** Never calls `return()`, which would end the application's connection where reading stops early. */
async function* unbroken(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const parts = body[Symbol.asyncIterator]()
  for (let part = await parts.next(); part.done !== true; part = await parts.next()) yield part.value
}

async function linger({ req, res, cut }: Inbound): Promise<void> {
  // If the rest is malformed or does not arrive, there is nothing to wait for.
  if (req.complete || req.destroyed || res.destroyed || cut.aborted) return
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(silence)
      clearTimeout(longest)
      req.off('data', heard).off('end', done).off('close', done)
      res.off('close', done)
      resolve()
    }
    const heard = (): void => void silence.refresh()
    const silence = setTimeout(done, LINGER_SILENCE_MS)
    const longest = setTimeout(done, LINGER_MS)
    req
      .on('error', () => {})
      .on('data', heard)
      .on('end', done)
      .on('close', done)
    res.on('close', done)
    req.resume()
  })
}

/** For connections that Node hands over without a response: upgrades, CONNECT, what could not be parsed. */
export function writeRaw(socket: Duplex, answer: Answer, after: () => void): void {
  const body = Buffer.isBuffer(answer.body) ? answer.body : Buffer.alloc(0)
  socket.on('error', () => {})
  socket.end(Buffer.concat([rawHead(answer, [['Content-Length', String(body.length)]]), body]), after)
}

export function rawHead({ status, headers }: Answer, framing: HeaderList): Buffer {
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `Date: ${new Date().toUTCString()}`,
    ...framing.map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}
