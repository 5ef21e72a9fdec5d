/**
 * The identity of a request: SHA-256 over its canonical JSON, so that the order of object members does not matter.
 *
 * Owns the canonical form of *JavaScript values* after RFC 8785 (members sorted by UTF-16 code units, numbers and
 * strings as ECMAScript writes them). Refuses what JSON loses (undefined inside arrays, BigInt, NaN, a lone surrogate):
 * different requests would get equal hashes.
 */
import { createHash } from 'node:crypto'
import { NonRetryableError } from './errors.ts'

/** First byte of every stored hash: a changed rule must not look like a changed request. */
const scheme = 1

/** Deeper nesting is refused, before the stack overflows. */
const depthMax = 200

export function requestHash(request: unknown): Buffer {
  return hashOfText(canonicalJson(request))
}

/** The bytes of a text have the same hash as the text. */
export function hashOfText(text: string | Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(scheme), createHash('sha256').update(text).digest()])
}

/** Several strings as one key; two different lists never give the same key. */
export function derivedKey(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:${part}`)
  return `fp-${hash.digest('hex').slice(0, 48)}`
}

export function canonicalJson(value: unknown, depth = 0): string {
  if (depth > depthMax) throw new NonRetryableError(`a request may be nested at most ${depthMax} levels deep`)
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new NonRetryableError('a request may not contain a lone surrogate')
      return JSON.stringify(value)
    case 'number':
      if (!Number.isFinite(value)) throw new NonRetryableError(`a request may not contain ${value}`)
      return JSON.stringify(value)
    case 'boolean':
      return String(value)
    case 'object':
      return value === null ? 'null' : canonicalObject(value, depth)
    case 'undefined':
    case 'bigint':
    case 'function':
    case 'symbol':
      throw new NonRetryableError(`a request may not contain a ${typeof value}: JSON cannot carry it`)
  }
}

function canonicalObject(value: object, depth: number): string {
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') return canonicalJson(toJSON.call(value, ''), depth + 1)
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item, depth + 1)).join(',')}]`
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && prototype !== Object.prototype)
    throw new NonRetryableError(`a request may not contain a ${value.constructor?.name ?? 'class instance'}`)
  const members = Object.entries(value)
    // An optional member that is undefined is absent in JSON, and means the same.
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${canonicalJson(name)}:${canonicalJson(member, depth + 1)}`)
  return `{${members.join(',')}}`
}

/** A driver may hand out bytes as a plain Uint8Array. */
export function sameHash(stored: Uint8Array, hash: Buffer): boolean {
  return Buffer.compare(stored, hash) === 0
}
