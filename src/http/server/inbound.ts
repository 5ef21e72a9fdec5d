/**
 * One request on its connection: what was received, what can still be received, and whether the client is still connected.
 *
 * Owns reading the body within a limit. Where a connection delivers malformed bytes or stalls in the middle of a body, Node does
 * not fail the request; `connection-faults.ts` cuts it, with the problem to answer. A request waits for its turn
 * (`in-flight.ts`), and its client may leave before it: then nothing tells of that any more, and it is looked for.
 */

import { IncomingMessage, type ServerResponse } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import { BodyParts } from '../../core/body-parts.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import type { HeldBody } from './body-memory.ts'

export type Inbound = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean
  /** Aborts, with a {@link Problem} as its reason, where the rest of the request will not arrive. */
  readonly cut: AbortSignal
  /** Its body is passed on as it arrives: it may take as long as it likes, but not fall silent. */
  streamed?: boolean
}

export type Body =
  | { readonly kind: 'whole'; readonly bytes: Buffer }
  /** `begun`: what was read of one that is too large. */
  | { readonly kind: 'refused'; readonly problem: Problem; readonly begun?: Buffer }
  /** The client disconnected before the request was complete: no client to answer, no request to execute. */
  | { readonly kind: 'gone' }

export function hasBody({ req }: Inbound): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0
}

/**
 * Keeps at most `limitBytes` in memory, and reads no further.
 *
 * @param held counts each part as it arrives: a client that states a length and sends nothing takes nothing from others
 */
export function readBody(inbound: Inbound, limitBytes: number, held: HeldBody): Promise<Body> {
  const { req, res, cut } = inbound
  const statedBytes = Number(req.headers['content-length'] ?? 0)
  if (statedBytes > limitBytes) return Promise.resolve(tooLarge(limitBytes))
  if (!hasBody(inbound)) return Promise.resolve({ kind: 'whole', bytes: Buffer.alloc(0) })
  // Before it is sent, where the client waits for that, and before it has cost anything.
  if (!held.fits(statedBytes)) return Promise.resolve(memoryFull(held))
  if (inbound.expectsContinue) res.writeContinue()
  return new Promise((resolve) => {
    const parts = new BodyParts()
    let bytes = 0
    const settle = (body: Body): void => {
      req.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
      cut.removeEventListener('abort', onCut)
      // The rest of a refused request is discarded.
      if (body.kind === 'refused') req.on('error', () => {}).pause()
      resolve(body)
    }
    const onData = (part: Buffer): void => {
      bytes += part.length
      if (bytes > limitBytes) settle(tooLarge(limitBytes, Buffer.concat([parts.whole(), part])))
      else if (held.take(part.length)) parts.add(part)
      else settle(memoryFull(held))
    }
    const onEnd = (): void => settle({ kind: 'whole', bytes: parts.whole() })
    const onGone = (): void => settle({ kind: 'gone' })
    const onCut = (): void => settle({ kind: 'refused', problem: cut.reason as Problem })
    req.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone)
    cut.addEventListener('abort', onCut)
    if (cut.aborted) onCut()
    else if (req.destroyed) onGone()
  })
}

export function memoryFull({ requestsLimitBytes }: HeldBody): Body {
  return {
    kind: 'refused',
    problem: {
      code: 'too-many-bytes-in-flight',
      detail: `With this body the bodies of all requests under way would be more than ${requestsLimitBytes} bytes, which is the limit. Nothing was carried out; send the request again, unchanged, after the time given.`,
      retryAfterMs: RETRY_SOON_MS,
    },
  }
}

export function tooLarge(limitBytes: number, begun: Buffer = Buffer.alloc(0)): Body {
  return {
    kind: 'refused',
    begun,
    problem: {
      code: 'body-too-large',
      detail: `The body is larger than ${limitBytes} bytes, which is what this route accepts. Nothing was carried out.`,
    },
  }
}

/**
 * The body as it arrives, with backpressure. Destroying the stream leaves the client's connection open for an answer; a client
 * that disconnects, or whose body is cut, destroys the stream.
 *
 * @param begun what was read of it before
 */
export function bodyStream(inbound: Inbound, begun?: Buffer): Readable {
  const { req, res, cut } = inbound
  inbound.streamed = true
  if (inbound.expectsContinue && begun === undefined) res.writeContinue()
  const stream = new PassThrough({ highWaterMark: 64 * 1024 })
  const fail = (): void => {
    stream.destroy(new Error('the rest of the request does not come'))
  }
  stream.on('error', () => {})
  req.on('error', fail).on('close', () => {
    if (!req.complete) fail()
  })
  cut.addEventListener('abort', fail, { once: true })
  if (begun !== undefined) stream.write(begun)
  if (req.destroyed) fail()
  else req.pipe(stream)
  return stream
}

/**
 * A signal that aborts when the client disconnects before its answer is sent in full. One that ends only its side of the
 * connection counts as disconnected: both look the same, and Node's `httpAllowHalfOpen`, which would answer it, would hide the others.
 *
 * A response that was sent in full closes as well, without an abort: no code listens any more, and each abort creates
 * an error with its stack.
 */
export function abandoned(res: ServerResponse): AbortSignal {
  const gone = new AbortController()
  // It may have left before its request's turn.
  if (res.destroyed) gone.abort()
  else
    res.on('close', () => {
      if (!res.writableFinished) gone.abort()
    })
  return gone.signal
}

/** Whether a request offers to change its connection to a WebSocket. Other protocols are never accepted. */
export function asksForWebSocket(req: IncomingMessage): boolean {
  return req.method === 'GET' && offersWebSocket(req)
}

export function offersWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.trim().toLowerCase() === 'websocket'
}

/** A longer one is more than what it costs besides, and is not copied. */
const SHORT_BYTES = 1024

/**
 * A request whose body may come in chunks as short as its client likes. Each is an object of some hundred bytes, and a stream limits bytes and
 * not objects: where the application does not read, 64 KiB that wait in chunks of one byte took 80 MB. So the short chunks of one read of the
 * connection are one part.
 */
export class JoinedParts extends IncomingMessage {
  #short: BodyParts | undefined
  #shortBytes = 0

  /** Node's parser calls it for each chunk, and stops reading where the answer is false. */
  override push(part: Buffer | null): boolean {
    if (part === null || part.length >= SHORT_BYTES || !this.#isChunked()) {
      this.#passOn()
      return super.push(part)
    }
    if (this.#short === undefined) {
      this.#short = new BodyParts()
      // Ticks run between two chunks of one read, immediates after it.
      setImmediate(() => this.#passOn())
    }
    this.#short.add(part)
    this.#shortBytes += part.length
    return this.readableLength + this.#shortBytes < this.readableHighWaterMark
  }

  /** Otherwise a read gives one part. */
  #isChunked(): boolean {
    return this.headers['transfer-encoding'] !== undefined
  }

  #passOn(): void {
    if (this.#short === undefined) return
    const joined = this.#short.whole()
    this.#short = undefined
    this.#shortBytes = 0
    if (!this.destroyed) super.push(joined)
  }
}
