/**
 * Bytes in memory of their own.
 *
 * A part of what came from a socket keeps the whole of it in memory, and a small buffer the slab that it was cut from. What is
 * kept for long, in a memory that has a bound, must be as large as it is counted.
 */

export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}
