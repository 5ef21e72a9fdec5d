/** Frames of gRPC-Web and of streams of Connect, as a server writes them. */

export function frame(flags: number, data: string): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(Buffer.byteLength(data), 1)
  return Buffer.concat([head, Buffer.from(data)])
}
