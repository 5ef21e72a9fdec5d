/**
 * The body of a message of any system: text where it is UTF-8, and beside that its bytes where it is not (compressed, Avro,
 * another character set), so that nothing of a message is lost on its way to a mapping or a dead letter.
 */
import { isUtf8 } from 'node:buffer'
import { hashOfText } from './request-hash.ts'

export type Body = {
  /** As UTF-8 text, with U+FFFD for what is none. */
  readonly body: string
  /** As they came. Present only if they are no UTF-8. */
  readonly bytes?: Uint8Array
}

export function bodyOf(bytes: Uint8Array): Body {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return isUtf8(bytes) ? { body } : { body, bytes }
}

/** Two bodies that are different bytes may be the same text. */
export function hashOfBody({ body, bytes }: Body): Buffer {
  return hashOfText(bytes ?? body)
}

/** Some producers begin with a byte order mark, which is no JSON; a reader may pass over it (RFC 8259, section 8.1). */
export function parsedJson(body: string): unknown {
  return JSON.parse(body.startsWith('\u{FEFF}') ? body.slice(1) : body)
}
