/**
 * Writes an answer to a client.
 *
 * Owns framing (`Content-Length` of what is in memory, whatever is stated; without a body what is stated), backpressure, how long a slow
 * reader may take, and that an answer that is given before the request was read to its end reaches its client: closing a
 * connection with unread bytes resets it, and the reset may overtake the answer.
 */

import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { HeaderList } from '../../core/header-list.ts'
import type { Answer } from '../message/answer.ts'
import type { Inbound } from './inbound.ts'

export type SendOptions = {
  /** Longest silence of a client that does not read its answer. */
  readonly readerIdleMs: number
  /** The connection is closed after this answer. */
  readonly close: boolean
}

/** What is still read of a request that was refused, so that its client can read why. */
const LINGER_MS = 1_000
const LINGER_BYTES = 1024 * 1024

/** Resolves when the answer has been handed over or its client is gone. Never rejects. */
export async function send(inbound: Inbound, answer: Answer, options: SendOptions): Promise<void> {
  const { req, res } = inbound
  if (res.destroyed || res.headersSent) {
    await discard(answer)
    return
  }
  const unread = !req.complete
  const closed = new Promise<void>((resolve) => {
    res.once('close', resolve).once('finish', resolve)
  })
  res.on('error', () => {})
  res.on('timeout', () => res.destroy()).setTimeout(options.readerIdleMs)
  res.sendDate = !answer.headers.some(([name]) => name.toLowerCase() === 'date')
  const headers = [
    ...framed(answer, isBodyless(req.method, answer.status)),
    ...(unread || options.close ? [['Connection', 'close'] as const] : []),
  ]
  res.writeHead(answer.status, STATUS_CODES[answer.status] ?? 'Unknown', headers.flat())
  if (isBodyless(req.method, answer.status)) {
    await discard(answer)
    res.flushHeaders()
    await linger(inbound)
    res.end()
  } else if (Buffer.isBuffer(answer.body)) {
    res.write(answer.body)
    await linger(inbound)
    res.end()
  } else {
    await pour(answer.body, inbound, options.readerIdleMs)
  }
  await closed
}

function isBodyless(method: string | undefined, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

function framed({ status, headers, body }: Answer, bodyless: boolean): HeaderList {
  const isLength = ([name]: readonly [string, string]): boolean => name.toLowerCase() === 'content-length'
  // RFC 9110, section 8.6: 204 has no Content-Length.
  if (status === 204) return headers.filter((header) => !isLength(header))
  if (!Buffer.isBuffer(body)) return headers
  // That of an answer with a body, which only the application can state: `0` would be another answer than it gave.
  if (bodyless && (status === 304 || body.length === 0 || headers.some(isLength))) return headers
  // A record may be written by others than us: its word on the length must not decide where the next answer begins.
  return [...headers.filter((header) => !isLength(header)), ['Content-Length', String(body.length)]]
}

/** Ends the connection, and not the answer, where the source is cut: the client must not take the part for the whole. */
async function pour(body: AsyncIterable<Buffer>, inbound: Inbound, readerIdleMs: number): Promise<void> {
  const { res } = inbound
  // Between two parts it is the application that is silent, and how long it may be is not for here.
  res.setTimeout(0)
  // Node holds the head back for the first part, to write both at once. Of an event stream that part may be hours away.
  const alone = setImmediate(() => res.flushHeaders())
  try {
    for await (const part of unbroken(body)) {
      clearImmediate(alone)
      // A client that has gone does not end the application's work: the rest is read, for nobody.
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
    // Cut before its first part: the head still says that it was carried out.
    res.flushHeaders()
    res.destroy()
  }
}

/** Resolves when the client has read enough, or is gone. */
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
    // Cut by the application; nobody was reading.
  }
}

/** Without `return()`, which would end the application's connection where reading stops early. */
async function* unbroken(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const parts = body[Symbol.asyncIterator]()
  for (let part = await parts.next(); part.done !== true; part = await parts.next()) yield part.value
}

async function linger({ req, res, cut }: Inbound): Promise<void> {
  // Where the rest was garbage or did not come, there is nothing to wait for.
  if (req.complete || req.destroyed || res.destroyed || cut.aborted) return
  await new Promise<void>((resolve) => {
    let bytes = 0
    const done = (): void => {
      clearTimeout(timer)
      req.off('data', count).off('end', done).off('close', done)
      res.off('close', done)
      resolve()
    }
    const count = (part: Buffer): void => {
      bytes += part.length
      if (bytes > LINGER_BYTES) done()
    }
    const timer = setTimeout(done, LINGER_MS)
    req
      .on('error', () => {})
      .on('data', count)
      .on('end', done)
      .on('close', done)
    res.on('close', done)
    req.resume()
  })
}

/** For connections that Node gave to us without a response: upgrades, CONNECT, what could not be parsed. */
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
