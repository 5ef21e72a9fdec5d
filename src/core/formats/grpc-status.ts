/**
 * The status of an answer of gRPC, gRPC-Web or a stream of Connect. That of HTTP is 200 also where the call failed.
 *
 * It is a line of the trailers, or of the head where there is no message. Of gRPC-Web the trailers are the last frame of the body. Those
 * of gRPC come behind the body: who sees them counts them among the lines of the head.
 *
 * Source: github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md, doc/PROTOCOL-WEB.md and doc/statuscodes.md; the statuses of HTTP are those of
 * google/rpc/code.proto.
 */

import { type HeaderList, linesOf } from '../header-list.ts'

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

type FramedAnswer = { readonly headers: HeaderList; readonly body: Buffer }

/** Of a frame: a byte of flags, four of length (PROTOCOL-HTTP2.md, Length-Prefixed-Message). */
const HEAD_BYTES = 5
/** In both protocols. */
const COMPRESSED = 0x01

/** Undefined where they are not to be seen: the body was not kept, or a middleware has compressed all of it. */
function framesOf({ headers, body }: FramedAnswer): Buffer | undefined {
  return body.length === 0 || linesOf(headers, 'content-encoding').length > 0 ? undefined : body
}

/** `broken_off`: the body ends without one, or within a frame. */
type Frame = Buffer | 'compressed' | 'broken_off'

/** The data of the first frame with this flag: in both protocols the last of a whole answer has it. */
function lastFrame(flag: number, body: Buffer): Frame {
  let at = 0
  while (at + HEAD_BYTES <= body.length) {
    const flags = body[at]!
    const end = at + HEAD_BYTES + body.readUInt32BE(at + 1)
    if (end > body.length) return 'broken_off'
    if ((flags & flag) !== 0)
      return (flags & COMPRESSED) === 0 ? body.subarray(at + HEAD_BYTES, end) : 'compressed'
    at = end
  }
  return 'broken_off'
}

const CONNECT_TYPE = /^application\/connect\+[a-z0-9.-]+\s*(;|$)/i
const END_OF_STREAM = 0x02

/** By their number in gRPC, from 1 on. */
const CONNECT_CODES: readonly unknown[] = [
  'canceled',
  'unknown',
  'invalid_argument',
  'deadline_exceeded',
  'not_found',
  'already_exists',
  'permission_denied',
  'resource_exhausted',
  'failed_precondition',
  'aborted',
  'out_of_range',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
  'unauthenticated',
]
const CONNECT_OK = 0
const CONNECT_UNKNOWN = 2

/**
 * The code of gRPC that the error in the last frame names; undefined where the answer is no stream of Connect, or does not say. Of its other
 * calls HTTP says it.
 *
 * Source: connectrpc.com/docs/protocol, "Streaming RPCs" and "Error codes".
 */
export function connectStreamStatus(answer: FramedAnswer): number | 'broken_off' | undefined {
  if (!CONNECT_TYPE.test(linesOf(answer.headers, 'content-type')[0] ?? '')) return undefined
  const frames = framesOf(answer)
  if (frames === undefined) return undefined
  const end = lastFrame(END_OF_STREAM, frames)
  if (end === 'broken_off') return end
  return end === 'compressed' ? undefined : statusIn(end.toString('utf8'))
}

function statusIn(json: string): number | undefined {
  let end: unknown
  try {
    end = JSON.parse(json)
  } catch {
    return undefined
  }
  const { error } = (end ?? {}) as { readonly error?: { readonly code?: unknown } | null }
  if (error === undefined || error === null) return CONNECT_OK
  const index = CONNECT_CODES.indexOf(error.code)
  return index === -1 ? CONNECT_UNKNOWN : index + 1
}
