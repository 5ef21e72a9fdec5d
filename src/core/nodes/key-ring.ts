/**
 * Keys that encrypt stored outcomes: the first encrypts, every one of them decrypts. What is not encrypted is refused, or whoever can
 * write to a node would be believed without a key; only a ring with a line `plain` reads it, and writes it where that line is the first.
 *
 * AES-256-GCM with the record key, the ballot and the end as associated data: an outcome can be moved neither to another record nor above
 * a later outcome, and whoever copies it can read when it ends. The nonce follows from key, record, ballot and content: the same outcome
 * is the same bytes (by which a node recognises a repeated completion), and two different ones never share a nonce.
 *
 * Encrypted: version 2 (1 byte; `stored-outcome.ts` begins with 1), length of the key's name (1), the name, the end (10), nonce (12),
 * tag (16), ciphertext. Source: NIST SP 800-38D, section 8.2; RFC 5297 for the idea of a synthetic nonce.
 */

import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { frame } from '../formats/framing.ts'
import type { NodeAnswer, RecordNode } from '../ports.ts'
import { isOurs, type RecordCommand } from '../record/record.ts'
import { asAltered, asUnencrypted, END_BYTES, endBytesOf, KEY_NAME } from '../record/stored-outcome.ts'
import { formatToken, type Token } from '../record/token.ts'

export type RingKey = {
  readonly name: string
  /** 32 bytes. */
  readonly key: Buffer
  /** 32 bytes of its own for nonces. */
  readonly nonceKey: Buffer
}

export type KeyRing = {
  /** At least one. */
  readonly keys: readonly RingKey[]
  /** Outcomes that are not encrypted are read, too. */
  readonly readsPlain: boolean
  /** Outcomes are not encrypted yet. */
  readonly writesPlain: boolean
}

export type ParsedKeyRing =
  | { readonly kind: 'ring'; readonly ring: KeyRing }
  | { readonly kind: 'refused'; readonly reason: string }

const VERSION = 2
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** A line of the file by itself. */
const PLAIN = 'plain'

/**
 * One key per line, `name base64`, 32 bytes each, and perhaps a line `plain`; empty lines and lines that begin with `#` are ignored.
 */
export function parseKeyRing(content: string): ParsedKeyRing {
  const refused = (reason: string): ParsedKeyRing => ({ kind: 'refused', reason })
  const keys: RingKey[] = []
  let [readsPlain, writesPlain] = [false, false]
  for (const [index, line] of content.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    if (line.trim() === PLAIN) {
      readsPlain = true
      writesPlain ||= keys.length === 0
      continue
    }
    const [name = '', encoded = '', ...more] = line.trim().split(/\s+/)
    if (!KEY_NAME.test(name) || more.length > 0) return refused(`line ${index + 1} is not "name base64"`)
    const key = Buffer.from(encoded, 'base64')
    if (key.length !== KEY_BYTES || key.toString('base64') !== encoded)
      return refused(`the key on line ${index + 1} is not ${KEY_BYTES} bytes in base64`)
    if (keys.some((other) => other.name === name))
      return refused(`the name on line ${index + 1} is there twice`)
    const nonceKey = createHmac('sha256', key).update('fencepost-nonce/1').digest()
    keys.push({ name, key, nonceKey })
  }
  return keys.length === 0
    ? refused('there is no key in it')
    : { kind: 'ring', ring: { keys, readsPlain, writesPlain } }
}

/** Where an outcome belongs. */
export type OutcomePlace = { readonly key: string; readonly acceptedToken: Token }

export function seal({ keys }: KeyRing, place: OutcomePlace, plain: Buffer): Buffer {
  const [first] = keys
  if (first === undefined) throw new RangeError('a key ring has at least one key')
  const { name, key, nonceKey } = first
  const end = endBytesOf(plain) ?? Buffer.alloc(END_BYTES, 0xff)
  const bound = boundTo(place, end)
  const nonce = createHmac('sha256', nonceKey)
    .update(frame([bound, plain]))
    .digest()
    .subarray(0, NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(bound)
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()])
  const head = Buffer.from([VERSION, name.length])
  return Buffer.concat([head, Buffer.from(name), end, nonce, cipher.getAuthTag(), ciphertext])
}

function boundTo({ key, acceptedToken }: OutcomePlace, end: Buffer): Buffer {
  return frame([Buffer.from(key), Buffer.from(formatToken(acceptedToken)), end])
}

export type Opened =
  | { readonly kind: 'opened'; readonly plain: Buffer }
  /** Not encrypted: written before there was a key ring, or by somebody who has none. */
  | { readonly kind: 'plain' }
  /** `unknown_key`: sealed with one that is not in the ring. `altered`: or sealed for another record or ballot. */
  | { readonly kind: 'refused'; readonly why: 'unknown_key' | 'altered' }

export function open({ keys }: KeyRing, place: OutcomePlace, bytes: Buffer): Opened {
  if (bytes[0] !== VERSION) return { kind: 'plain' }
  const nameEnd = 2 + (bytes[1] ?? 0)
  const nonceAt = nameEnd + END_BYTES
  const tagAt = nonceAt + NONCE_BYTES
  const ciphertextAt = tagAt + TAG_BYTES
  if (bytes.length < ciphertextAt) return { kind: 'refused', why: 'altered' }
  const name = bytes.toString('latin1', 2, nameEnd)
  const found = keys.find((one) => one.name === name)
  if (found === undefined) return { kind: 'refused', why: 'unknown_key' }
  const decipher = createDecipheriv('aes-256-gcm', found.key, bytes.subarray(nonceAt, tagAt), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(boundTo(place, bytes.subarray(nameEnd, nonceAt)))
  decipher.setAuthTag(bytes.subarray(tagAt, ciphertextAt))
  try {
    return {
      kind: 'opened',
      plain: Buffer.concat([decipher.update(bytes.subarray(ciphertextAt)), decipher.final()]),
    }
  } catch {
    // `final` throws only where the tag does not match.
    return { kind: 'refused', why: 'altered' }
  }
}

/*
 * A node that never sees an outcome, in front of any `RecordNode`. One that can't be decrypted, or was not encrypted, is passed on with a
 * first byte that makes it damaged: neither replayed nor executed again. It stays so when it is written to other nodes.
 */

/** @param ring asked at each command and at each answer: its file may have changed since */
export function encryptedNode(node: RecordNode, ring: () => KeyRing): RecordNode {
  return {
    name: node.name,
    execute: async (command) => opened(await node.execute(encrypted(command, ring())), command.key, ring()),
  }
}

function encrypted(command: RecordCommand, ring: KeyRing): RecordCommand {
  if (command.kind !== 'complete' || ring.writesPlain) return command
  const { key, token, acceptedToken = token, outcome } = command
  return { ...command, outcome: seal(ring, { key, acceptedToken }, outcome) }
}

type Accepted = { readonly acceptedToken: Token; readonly outcome: Buffer }

function opened(answer: NodeAnswer, key: string, ring: KeyRing): NodeAnswer {
  const plainOf = ({ acceptedToken, outcome: bytes }: Accepted): Buffer => {
    const result = open(ring, { key, acceptedToken }, bytes)
    if (result.kind === 'opened') return result.plain
    if (result.kind === 'refused') return result.why === 'altered' ? asAltered(bytes) : bytes
    // Keys for our own use have no outcome of a request. The secret of reservation ids stays for years, and may be older than the ring.
    return ring.readsPlain || isOurs(key) ? bytes : asUnencrypted(bytes)
  }
  if (answer.kind === 'completed') return { ...answer, outcome: plainOf(answer) }
  if (answer.kind === 'record' && answer.record?.state === 'completed')
    return { ...answer, record: { ...answer.record, outcome: plainOf(answer.record) } }
  return answer
}
