/**
 * Length-prefixed framing, and SHA-256 over it: how several values become one without ambiguity.
 *
 * A frame is the concatenation of its parts, each preceded by its length in bytes as 8 bytes, big-endian. Frames nest:
 * a list inside a list is a frame used as a part. There are no separators to forge: the inside of a part is not parsed.
 *
 * Owns the two ways in which text becomes bytes. Text from the wire is Latin-1, as Node hands header lines and targets
 * over, so that the bytes hashed are the bytes that came. Everything else (names from the configuration) is UTF-8.
 *
 * Bytes are either a buffer or a *byte text*, in which each character is one byte (none is above U+00FF). The identity of a
 * request is some twenty short values: as texts they cost a third of what as many buffers do.
 */

import { hash } from 'node:crypto'

/** Bytes of the length in front of each part. */
const LENGTH_BYTES = 8

export function frame(parts: readonly Uint8Array[]): Buffer {
  let length = 0
  for (const part of parts) length += LENGTH_BYTES + part.length
  // From Node's pool, because every byte is written below: memory of its own, and filled with zeros, takes seven times as long.
  const bytes = Buffer.allocUnsafe(length)
  let offset = 0
  for (const part of parts) {
    // In two halves, because a BigInt for each part costs as much as its bytes do.
    bytes.writeUInt32BE(Math.floor(part.length / 2 ** 32), offset)
    bytes.writeUInt32BE(part.length % 2 ** 32, offset + LENGTH_BYTES / 2)
    bytes.set(part, offset + LENGTH_BYTES)
    offset += LENGTH_BYTES + part.length
  }
  return bytes
}

/** The frame of byte texts, as one. */
export function frameText(parts: readonly string[]): string {
  let framed = ''
  for (const part of parts) framed += lengthText(part.length) + part
  return framed
}

const SHORT_LENGTHS = Array.from({ length: 256 }, (_, length) => longLengthText(length))

function lengthText(length: number): string {
  return SHORT_LENGTHS[length] ?? longLengthText(length)
}

/** No text is as long as 4 GiB. */
function longLengthText(length: number): string {
  const low = [length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255]
  return String.fromCharCode(0, 0, 0, 0, ...low)
}

/** The parts of a frame; undefined where `bytes` are none. */
export function unframe(bytes: Buffer): readonly Buffer[] | undefined {
  const parts: Buffer[] = []
  let offset = 0
  while (offset < bytes.length) {
    const start = offset + LENGTH_BYTES
    if (start > bytes.length) return undefined
    const length = bytes.readBigUInt64BE(offset)
    if (length > BigInt(bytes.length - start)) return undefined
    offset = start + Number(length)
    parts.push(bytes.subarray(start, offset))
  }
  return parts
}

export function sha256(bytes: Uint8Array): Buffer {
  return bytesOf(sha256Text(bytes))
}

/** As a byte text, which also costs less: asked for a buffer, `hash` takes twice as long for a body of 200 bytes. */
export function sha256Text(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'latin1')
}

export function sha256Hex(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex')
}

/**
 * The bytes that `text` had on the wire; undefined where it cannot have come from there (a character above U+00FF,
 * which Latin-1 would silently cut to another one).
 */
export function wireBytes(text: string): Buffer | undefined {
  return isWireText(text) ? Buffer.from(text, 'latin1') : undefined
}

/** The same as a byte text. */
export function wireText(text: string): string | undefined {
  return isWireText(text) ? text : undefined
}

export function isWireText(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0xff) return false
  return true
}

/** UTF-8; undefined for a lone surrogate, all of which UTF-8 would turn into the same three bytes. */
function utf8Bytes(text: string): Buffer | undefined {
  return text.isWellFormed() ? Buffer.from(text, 'utf8') : undefined
}

/** The same as a byte text. */
export function utf8Text(text: string): string | undefined {
  return isAscii(text) ? text : utf8Bytes(text)?.toString('latin1')
}

function isAscii(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0x7f) return false
  return true
}

/** The bytes of a byte text. */
export function bytesOf(byteText: string): Buffer {
  return Buffer.from(byteText, 'latin1')
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text; undefined where the bytes are not valid UTF-8. A byte order mark stays in the text. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    // The decoder's only error is the answer to our question.
    return undefined
  }
}

const PLAIN = /^[A-Za-z0-9._-]*$/

/**
 * Text as a part of a larger text in which `:` and everything else outside `A-Z a-z 0-9 . _ -` has a meaning. Injective: two texts never have
 * one encoding. UTF-8, upper-case hex digits, nothing normalised: case and Unicode form make different texts.
 *
 * @returns undefined for text with a lone surrogate, which has no UTF-8
 */
export function percentEncode(text: string): string | undefined {
  if (PLAIN.test(text)) return text
  const bytes = utf8Bytes(text)
  if (bytes === undefined) return undefined
  let encoded = ''
  for (const byte of bytes) {
    const char = String.fromCharCode(byte)
    encoded += PLAIN.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}
