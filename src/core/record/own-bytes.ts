/**
 * Bytes in memory of their own.
 *
 * A slice of a socket's chunk keeps the whole chunk in memory, and a small buffer the slab that it was cut from. A
 * bounded cache must keep exactly the bytes that it counts.
 */

export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}
