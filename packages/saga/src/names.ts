/** Names and keys that applications give: an empty one is refused. */
import { NonRetryableError } from './errors.ts'

/** An empty key is mostly a field that was not there, and would make one operation of all that lack it. */
export function requireName(what: string, name: unknown): void {
  if (typeof name === 'string' && name.trim() !== '') return
  const given = name === undefined ? 'undefined' : JSON.stringify(name)
  throw new NonRetryableError(`${what} is ${given}; a text that is not empty is expected`)
}

/** Of a name that stands in an index with a few others: an index entry of PostgreSQL has at most 2704 bytes. */
export const indexedMaxBytes = 1_000

/** A longer one would be written, and then every statement that indexes it would fail. */
export function requireIndexedName(what: string, name: string): void {
  requireName(what, name)
  const bytes = Buffer.byteLength(name)
  if (bytes <= indexedMaxBytes) return
  throw new NonRetryableError(
    `${what} has ${bytes} bytes, and at most ${indexedMaxBytes} are possible; give a hash of it, and keep it in the payload`,
  )
}
