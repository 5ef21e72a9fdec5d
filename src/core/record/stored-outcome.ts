/**
 * The stored outcome of a request, and its encoding.
 *
 * Owns the bytes: a version, a SHA-256 over all that follows, when the outcome ends, the head as JSON and the body as it
 * was. A record that was cut, altered or written by an unknown version is refused when it is read, with a reason; it is
 * never replayed in part. What may be stored (which statuses, which headers) is the proxy's decision.
 *
 * An outcome says itself when it ends, because the lifetime of its key is only what a node says: whoever writes kept
 * bytes back gives them a new one. Who refuses it after its end is `core/nodes/believed-nodes.ts`.
 */

import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { HeaderList } from '../header-list.ts'
import type { Token } from './token.ts'

/** How a key of the key ring may be called (`core/nodes/key-ring.ts`). */
export const KEY_NAME = /^[A-Za-z0-9._-]{1,32}$/

export type StoredOutcome =
  /** The whole answer of the application, with the headers that may be stored. */
  | {
      readonly kind: 'response'
      readonly status: number
      readonly headers: HeaderList
      readonly body: Buffer
      readonly completedAtWallMs: number
    }
  /** The application answered, but its answer can't be kept (too large, a stream, by policy): never executed again. */
  | {
      readonly kind: 'tombstone'
      readonly status: number
      readonly location?: string
      readonly completedAtWallMs: number
    }
  /** What a reservation's caller reported: any JSON value, or none. */
  | { readonly kind: 'result'; readonly result: unknown; readonly completedAtWallMs: number }

/** Whoever completes decides it once and for all: neither a replay nor an adoption nor a copy moves it. */
export type OutcomeEnd = {
  /** On the nodes' clocks (`core/nodes/believed-nodes.ts`). */
  readonly atMs: number
  /** By how much later than that a node whose clock is in order may still show it. */
  readonly toleratedMs: number
}

/** Of bytes that no node gets. */
export const NO_END: OutcomeEnd = { atMs: 2 ** 48 - 1, toleratedMs: 0 }

export type DecodedOutcome =
  /** `token`: of the holder that completed it, not of one that adopted it. */
  | { readonly kind: 'intact'; readonly outcome: StoredOutcome; readonly token?: Token }
  | { readonly kind: 'damaged'; readonly reason: string }

const VERSION = 1
/** Of an outcome that is not decrypted (`core/nodes/key-ring.ts`). */
const ENCRYPTED_VERSION = 2
/** Of one that should have been encrypted, and was not. No node has it but by {@link asUnencrypted}. */
const UNENCRYPTED_VERSION = 255
/** Of one whose key is there and does not fit. No node has it but by {@link asAltered}. */
const ALTERED_VERSION = 254
const DIGEST_OFFSET = 1
const END_OFFSET = DIGEST_OFFSET + 32
/** Milliseconds since 1970 (6 bytes), and those tolerated (4). */
export const END_BYTES = 6 + 4
const HEAD_LENGTH_OFFSET = END_OFFSET + END_BYTES
const HEAD_OFFSET = HEAD_LENGTH_OFFSET + 4

const NO_BODY = Buffer.alloc(0)

/**
 * Version (1 byte), SHA-256 of the rest (32), end (10), length of the head (4, big-endian), head as JSON, body.
 *
 * @param token of the holder that completes it: it distinguishes two executions with equal answers
 */
export function encodeOutcome(outcome: StoredOutcome, token: Token | undefined, end: OutcomeEnd): Buffer {
  const { body, ...head } = outcome.kind === 'response' ? outcome : { ...outcome, body: NO_BODY }
  const headBytes = Buffer.from(JSON.stringify(token === undefined ? head : { ...head, token }))
  const bytes = Buffer.allocUnsafe(HEAD_OFFSET + headBytes.length + body.length)
  bytes.writeUInt8(VERSION, 0)
  bytes.writeUIntBE(Math.min(end.atMs, NO_END.atMs), END_OFFSET, 6)
  bytes.writeUInt32BE(Math.min(end.toleratedMs, 2 ** 32 - 1), END_OFFSET + 6)
  bytes.writeUInt32BE(headBytes.length, HEAD_LENGTH_OFFSET)
  headBytes.copy(bytes, HEAD_OFFSET)
  body.copy(bytes, HEAD_OFFSET + headBytes.length)
  bytes.write(digestOf(bytes), DIGEST_OFFSET, 'latin1')
  return bytes
}

/** Of an outcome its first bytes, in which its end stands, encrypted or not. */
export const SHOWN_BYTES = 64

/** When it ends: its {@link SHOWN_BYTES} are enough. Undefined where it is no outcome, which {@link decodeOutcome} explains. */
export function endOf(bytes: Buffer): OutcomeEnd | undefined {
  const end = endBytesOf(bytes)
  return end && { atMs: end.readUIntBE(0, 6), toleratedMs: end.readUInt32BE(6) }
}

/** As an encrypted outcome has it in the clear after the name of its key, so that whoever lacks the key can read it. */
export function endBytesOf(bytes: Buffer): Buffer | undefined {
  const at =
    bytes[0] === ENCRYPTED_VERSION ? 2 + (bytes[1] ?? 0) : bytes[0] === VERSION ? END_OFFSET : bytes.length
  return bytes.length < at + END_BYTES ? undefined : bytes.subarray(at, at + END_BYTES)
}

/** How long it may still answer: whoever writes it again prolongs nothing. @param maxMs that it is asked to be kept for */
export function leftOf(bytes: Buffer, maxMs: number, nowMs: number): number {
  return Math.min(maxMs, Math.max(1, Math.ceil((endOf(bytes)?.atMs ?? 0) - nowMs)))
}

/** An outcome in the clear where only encrypted ones are believed: whatever it says, it is damaged. */
export function asUnencrypted(bytes: Buffer): Buffer {
  return marked(UNENCRYPTED_VERSION, bytes)
}

/** An encrypted outcome that its own key does not open. */
export function asAltered(bytes: Buffer): Buffer {
  return marked(ALTERED_VERSION, bytes)
}

function marked(version: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([version]), bytes.subarray(1)], Math.max(HEAD_OFFSET, bytes.length))
}

export function decodeOutcome(bytes: Buffer): DecodedOutcome {
  const damaged = (reason: string): DecodedOutcome => ({ kind: 'damaged', reason })
  if (bytes.length < HEAD_OFFSET) return damaged(`${bytes.length} bytes, at least ${HEAD_OFFSET} expected`)
  const version = bytes.readUInt8(0)
  if (version !== VERSION) return damaged(unknownVersion(version, bytes))
  if (digestOf(bytes) !== bytes.toString('latin1', DIGEST_OFFSET, END_OFFSET)) return damaged('wrong digest')
  const bodyOffset = HEAD_OFFSET + bytes.readUInt32BE(HEAD_LENGTH_OFFSET)
  if (bodyOffset > bytes.length) return damaged('head is longer than the record')
  let head: unknown
  try {
    head = JSON.parse(bytes.toString('utf8', HEAD_OFFSET, bodyOffset))
  } catch {
    return damaged('head is not JSON')
  }
  const outcome = outcomeFrom(head, bytes.subarray(bodyOffset))
  const token = tokenFrom(head)
  if (outcome === undefined || token === 'malformed') return damaged('head has not the shape of an outcome')
  return { kind: 'intact', outcome, ...(token === undefined ? {} : { token }) }
}

function unknownVersion(version: number, bytes: Buffer): string {
  if (version === ENCRYPTED_VERSION)
    return `it is encrypted with the key ${keyNameIn(bytes)}, which this sidecar does not have: give it the FENCEPOST_KEY_RING_FILE of the others`
  if (version === ALTERED_VERSION)
    return `it is encrypted with the key ${keyNameIn(bytes)} and does not open with it: somebody altered it or moved it here from another record, or two sidecars have two keys of this name`
  if (version === UNENCRYPTED_VERSION)
    return 'it is not encrypted, and this sidecar has a key ring: somebody without a key wrote it, or it is from before the ring, which then has to have the line plain'
  const who = version > VERSION ? ', and a later fencepost may have written it' : ''
  return `version ${version}, only ${VERSION} is known${who}`
}

/** Whoever writes to a node chooses it: only a name that a key can have is repeated. */
function keyNameIn(bytes: Buffer): string {
  const name = bytes.toString('latin1', 2, 2 + (bytes[1] ?? 0))
  return KEY_NAME.test(name) ? `"${name}"` : '(no name that a key can have)'
}

function tokenFrom(head: unknown): Token | undefined | 'malformed' {
  const token = typeof head === 'object' && head !== null && 'token' in head ? head.token : undefined
  if (token === undefined) return undefined
  return typeof token === 'number' && Number.isSafeInteger(token) && token >= 0 ? token : 'malformed'
}

/** As text of one character a byte: a buffer of its own takes `hash` twice as long. */
function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes.subarray(END_OFFSET), 'latin1')
}

/** A digest proves that nothing was cut, not who wrote it: check the shape, and allow no header that splits. */
function outcomeFrom(head: unknown, body: Buffer): StoredOutcome | undefined {
  if (typeof head !== 'object' || head === null) return undefined
  const { kind, status, headers, location, result, completedAtWallMs } = head as Record<string, unknown>
  if (typeof completedAtWallMs !== 'number' || !Number.isFinite(completedAtWallMs)) return undefined
  if (kind === 'result') return { kind, result, completedAtWallMs }
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 999)
    return undefined
  if (kind === 'tombstone') {
    if (location === undefined) return { kind, status, completedAtWallMs }
    return typeof location === 'string' && isFieldValue(location)
      ? { kind, status, location, completedAtWallMs }
      : undefined
  }
  if (kind !== 'response' || !isHeaderList(headers)) return undefined
  return { kind, status, headers, body, completedAtWallMs }
}

function isHeaderList(value: unknown): value is HeaderList {
  return (
    Array.isArray(value) &&
    value.every(
      (pair) =>
        Array.isArray(pair) &&
        pair.length === 2 &&
        typeof pair[0] === 'string' &&
        typeof pair[1] === 'string' &&
        isStorableHeader(pair[0], pair[1]),
    )
  )
}

/** Whether a record may keep a header: any other is left out before storing, and so is never replayed. */
export function isStorableHeader(name: string, value: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name) && isFieldValue(value)
}

/** RFC 9110, section 5.5: visible characters, spaces, tabs and obs-text; never CR, LF or NUL. */
function isFieldValue(value: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
}

/**
 * Whether two encoded outcomes are one: the same content, completed by the same holder as far as they name it. When it
 * was completed and when it ends does not count: a retrying holder completes at another moment.
 */
export function sameContent(one: Buffer, other: Buffer): boolean {
  return compared(one, other) === 'same'
}

/** Whether two encoded outcomes are both intact, and not one. */
export function saysOtherwise(one: Buffer, other: Buffer): boolean {
  return compared(one, other) === 'different'
}

function compared(one: Buffer, other: Buffer): 'same' | 'different' | 'damaged' {
  if (one.equals(other)) return 'same'
  const [first, second] = [decodeOutcome(one), decodeOutcome(other)]
  if (first.kind === 'damaged' || second.kind === 'damaged') return 'damaged'
  if (first.token !== undefined && second.token !== undefined && first.token !== second.token)
    return 'different'
  const { completedAtWallMs } = first.outcome
  // The members of an object have no order: a caller that writes its result anew may write them in another one.
  if (first.outcome.kind === 'result' && second.outcome.kind === 'result')
    return isDeepStrictEqual(first.outcome.result, second.outcome.result) ? 'same' : 'different'
  const content = (outcome: StoredOutcome) =>
    encodeOutcome({ ...outcome, completedAtWallMs }, undefined, NO_END)
  return content(first.outcome).equals(content(second.outcome)) ? 'same' : 'different'
}

/**
 * The same bytes in memory of their own. A slice of a socket's chunk keeps the whole chunk, and a small buffer the slab that it was cut
 * from. A bounded cache must keep exactly the bytes that it counts.
 */
export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}
