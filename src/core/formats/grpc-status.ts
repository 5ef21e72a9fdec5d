/**
 * The status of an answer of gRPC or gRPC-Web. That of HTTP is 200 also where the call failed.
 *
 * It is a line of the trailers, or of the head where there is no message. Of gRPC-Web the trailers are the last frame of the body. Those
 * of gRPC come behind the body: who sees them counts them among the lines of the head.
 *
 * Source: github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md, doc/PROTOCOL-WEB.md and doc/statuscodes.md; the statuses of HTTP are those of
 * google/rpc/code.proto.
 */

import type { HeaderList } from '../header-list.ts'
import { linesOf } from './header-lines.ts'
import { type FramedAnswer, framesOf, lastFrame } from './length-prefixed.ts'

const TYPE = /^application\/grpc(-web(-text)?)?(\+[a-z0-9.-]+)?\s*(;|$)/i
const TRAILERS = 0x80
const STATUS_LINE = /^grpc-status:[ \t]*([0-9]{1,9})[ \t]*$/im

/** By code, from OK on. */
const HTTP_STATUSES = [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401]
const UNKNOWN = 500

/** Of gRPC itself; the trailers of gRPC-Web are in the body. */
export function isGrpc(headers: HeaderList): boolean {
  const type = TYPE.exec(linesOf(headers, 'content-type')[0] ?? '')
  return type !== null && type[1] === undefined
}

/** Undefined where the answer is none of gRPC, or does not say. */
export function grpcStatus(answer: FramedAnswer): number | 'broken_off' | undefined {
  const type = TYPE.exec(linesOf(answer.headers, 'content-type')[0] ?? '')
  if (type === null) return undefined
  const [inHead] = linesOf(answer.headers, 'grpc-status')
  if (inHead !== undefined) return codeIn(`grpc-status:${inHead}`)
  const [, web, text] = type
  const frames = web === undefined ? undefined : framesOf(answer)
  if (frames === undefined) return undefined
  const trailers = lastFrame(TRAILERS, text === undefined ? frames : decoded(frames))
  if (trailers === 'broken_off') return trailers
  return trailers === 'compressed' ? undefined : codeIn(trailers.toString('latin1'))
}

/** What HTTP says where gRPC says this. */
export function httpStatusOfGrpc(code: number): number {
  return HTTP_STATUSES[code] ?? UNKNOWN
}

function codeIn(lines: string): number | undefined {
  const code = STATUS_LINE.exec(lines)?.[1]
  return code === undefined ? undefined : Number(code)
}

/** Each frame may have been encoded by itself, with its own padding. */
function decoded(body: Buffer): Buffer {
  const pieces = body.toString('latin1').match(/[A-Za-z0-9+/]+={0,2}/g) ?? []
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64')))
}
