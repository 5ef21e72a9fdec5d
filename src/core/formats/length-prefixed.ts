/**
 * Frames of gRPC-Web and of streams of Connect: a byte of flags, four of length, and so many of data.
 *
 * Source: github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message); connectrpc.com/docs/protocol, "Streaming RPCs".
 */

const HEAD_BYTES = 5
/** In both protocols. */
const COMPRESSED = 0x01

/** The data of the first frame with this flag, where it is whole and not compressed. */
export function frameWith(flag: number, body: Buffer): Buffer | undefined {
  let at = 0
  while (at + HEAD_BYTES <= body.length) {
    const flags = body[at]!
    const end = at + HEAD_BYTES + body.readUInt32BE(at + 1)
    if (end > body.length) return undefined
    if ((flags & flag) !== 0)
      return (flags & COMPRESSED) === 0 ? body.subarray(at + HEAD_BYTES, end) : undefined
    at = end
  }
  return undefined
}
