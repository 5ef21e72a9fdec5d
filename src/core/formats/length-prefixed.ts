/**
 * Frames of gRPC-Web and of streams of Connect: a byte of flags, four of length, and so many of data.
 *
 * Source: github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message); connectrpc.com/docs/protocol, "Streaming RPCs".
 */

import type { HeaderList } from '../header-list.ts'
import { linesOf } from './header-lines.ts'

export type FramedAnswer = { readonly headers: HeaderList; readonly body: Buffer }

const HEAD_BYTES = 5
/** In both protocols. */
const COMPRESSED = 0x01

/** Undefined where they are not to be seen: the body was not kept, or a middleware has compressed all of it. */
export function framesOf({ headers, body }: FramedAnswer): Buffer | undefined {
  return body.length === 0 || linesOf(headers, 'content-encoding').length > 0 ? undefined : body
}

/** `broken_off`: the body ends without one, or within a frame. */
export type Frame = Buffer | 'compressed' | 'broken_off'

/** The data of the first frame with this flag: in both protocols the last of a whole answer has it. */
export function lastFrame(flag: number, body: Buffer): Frame {
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
