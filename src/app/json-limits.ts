/** How long a message in JSON may be that carries a body: in base64, or with what a text escapes, and with as much around it as a head has. */

const AROUND_BYTES = 64 * 1024

export function jsonBytesMax(bodyBytesMax: number): number {
  return Math.ceil(bodyBytesMax * 1.4) + AROUND_BYTES
}
