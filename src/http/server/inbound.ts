/**
 * One request of a client as it stands on its connection: what was received, what can still be received, and whether
 * the client is still there.
 *
 * Owns reading the body within a limit. A connection that delivers garbage or nothing in the middle of a body does not
 * make Node fail the request; `connection-faults.ts` cuts it with the problem to answer with.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import type { Problem } from '../message/problems.ts'

export type Inbound = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean
  /** Aborts, with a {@link Problem} as its reason, where the rest of the request will not come. */
  readonly cut: AbortSignal
}

export type Body =
  | { readonly kind: 'whole'; readonly bytes: Buffer }
  | { readonly kind: 'refused'; readonly problem: Problem }
  /** The client went away before the request was whole: there is nobody to answer and nothing to carry out. */
  | { readonly kind: 'gone' }

export function hasBody({ req }: Inbound): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0
}

/** Keeps at most `limitBytes` in memory, and reads no further. */
export function readBody(inbound: Inbound, limitBytes: number): Promise<Body> {
  const { req, res, cut } = inbound
  if (Number(req.headers['content-length'] ?? 0) > limitBytes) return Promise.resolve(tooLarge(limitBytes))
  if (!hasBody(inbound)) return Promise.resolve({ kind: 'whole', bytes: Buffer.alloc(0) })
  if (inbound.expectsContinue) res.writeContinue()
  return new Promise((resolve) => {
    const parts: Buffer[] = []
    let bytes = 0
    const settle = (body: Body): void => {
      req.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
      cut.removeEventListener('abort', onCut)
      // What still comes of a request that was refused is not for anybody.
      if (body.kind === 'refused') req.on('error', () => {}).pause()
      resolve(body)
    }
    const onData = (part: Buffer): void => {
      bytes += part.length
      if (bytes > limitBytes) settle(tooLarge(limitBytes))
      else parts.push(part)
    }
    const onEnd = (): void => settle({ kind: 'whole', bytes: Buffer.concat(parts) })
    const onGone = (): void => settle({ kind: 'gone' })
    const onCut = (): void => settle({ kind: 'refused', problem: cut.reason as Problem })
    req.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone)
    cut.addEventListener('abort', onCut)
    if (cut.aborted) onCut()
    else if (req.destroyed && !req.complete) onGone()
  })
}

export function tooLarge(limitBytes: number): Body {
  return {
    kind: 'refused',
    problem: {
      code: 'body-too-large',
      detail: `The body is larger than ${limitBytes} bytes, which is what this route accepts. Nothing was carried out.`,
    },
  }
}

/**
 * The body as it comes, with backpressure. Destroying it leaves the client's connection alone, so that there is a way to
 * answer on; a client that goes away, or whose body is cut, destroys it.
 */
export function bodyStream(inbound: Inbound): Readable {
  const { req, res, cut } = inbound
  if (inbound.expectsContinue) res.writeContinue()
  const stream = new PassThrough({ highWaterMark: 64 * 1024 })
  const fail = (): void => {
    stream.destroy(new Error('the rest of the request does not come'))
  }
  stream.on('error', () => {})
  req.on('error', fail).on('close', () => {
    if (!req.complete) fail()
  })
  cut.addEventListener('abort', fail, { once: true })
  req.pipe(stream)
  return stream
}
