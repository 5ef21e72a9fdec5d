/**
 * Commands on their way to a Redis node: each as one frame, as `lua/batch.lua` lays it out.
 *
 * Owns the encoding of commands. A command that does not fit the record's fixed fields is refused here, before it
 * shifts the fields after it.
 */

import { fitsRecord, NO_OWNER, NOT_FITTING, type RecordCommand } from '../core/record/record.ts'
import { formatToken, NO_TOKEN, TOKEN_DIGITS } from '../core/record/token.ts'
import { QUARANTINE_KEY } from './keys.ts'

/**
 * A request to a node: a record's key, as an argument of a call, and the frame. One character per byte, because joining
 * texts and encoding them once costs least.
 */
export type Frame = { readonly key: string; readonly bytes: string }

/** One argument of a call in RESP. @param bytes one character per byte */
export function bulk(bytes: string): string {
  return `$${bytes.length}\r\n${bytes}\r\n`
}

/** UTF-8, one character per byte. */
export function latin1(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')
}

const NO_FINGERPRINT = '0'.repeat(64)
const NO_ACCEPTED = formatToken(NO_TOKEN)
/** Bytes of an outcome: eight digits, far above what a call may have. */
const SIZE_DIGITS = 8

let lastCommand: RecordCommand | undefined
let lastFrame: Frame | undefined

/**
 * The frame of a command. One command goes to every node in turn, so the last frame is cached.
 * @throws RangeError where a field does not fit
 */
export function frameOf(command: RecordCommand): Frame {
  if (lastFrame !== undefined && lastCommand === command) return lastFrame
  const frame = { key: argument(command.key), bytes: encode(command) }
  lastCommand = command
  lastFrame = frame
  return frame
}

function encode(command: RecordCommand): string {
  switch (command.kind) {
    case 'claim': {
      const { token, owner, fingerprint, leaseMs, keyTtlMs } = command
      return fixed('C', token, owner, 1, fingerprint, leaseMs, keyTtlMs, '')
    }
    case 'renew': {
      const { token, owner, attempt, fingerprint, leaseMs, keyTtlMs, raises } = command
      return fixed(raises ? 'U' : 'N', token, owner, attempt, fingerprint, leaseMs, keyTtlMs, '')
    }
    case 'complete': {
      const { token, owner, attempt, fingerprint, keyTtlMs, outcome, acceptedToken } = command
      const rest = outcome.toString('latin1')
      return fixed('D', token, owner, attempt, fingerprint, 0, keyTtlMs, rest, acceptedToken)
    }
    case 'release': {
      const { token, owner, keyTtlMs, withdraws, forgets } = command
      return fixed(forgets ? 'F' : withdraws ? 'W' : 'R', token, owner, 0, NO_FINGERPRINT, 0, keyTtlMs, '')
    }
    case 'read':
      return fixed('G', NO_TOKEN, NO_OWNER, 0, NO_FINGERPRINT, 0, 0, '')
  }
}

/** `whole`: with the outcome; else the header only. */
export function inspectFrame(key: string, whole: boolean): Frame {
  return {
    key: argument(key),
    bytes: fixed('S', NO_TOKEN, NO_OWNER, whole ? 1 : 0, NO_FINGERPRINT, 0, 0, ''),
  }
}

/** Precedes adopted records: the node takes them only while it waits under this nonce. */
export function standingFrame(nonce: string): Frame {
  return { key: argument(QUARANTINE_KEY), bytes: fixed('Q', NO_TOKEN, nonce, 0, NO_FINGERPRINT, 0, 0, '') }
}

export function adoptFrame(key: string, packed: Buffer, chosen: boolean, keyTtlMs: number): Frame {
  const bytes = packed.toString('latin1')
  return {
    key: argument(key),
    bytes: fixed('A', NO_TOKEN, NO_OWNER, chosen ? 1 : 0, NO_FINGERPRINT, 0, keyTtlMs, bytes),
  }
}

/** Joined, as a frame is: each node's call has it. */
function argument(key: string): string {
  const bytes = latin1(key)
  return ['$', bytes.length, '\r\n', bytes, '\r\n'].join('')
}

function fixed(
  kind: string,
  token: number,
  owner: string,
  attempt: number,
  fingerprint: string,
  leaseMs: number,
  keyTtlMs: number,
  rest: string,
  acceptedToken?: number,
): string {
  const tokenDigits = formatToken(token)
  const accepted = acceptedToken === undefined ? NO_ACCEPTED : formatToken(acceptedToken)
  if (
    tokenDigits.length !== TOKEN_DIGITS ||
    accepted.length !== TOKEN_DIGITS ||
    !fitsRecord(owner, fingerprint, attempt)
  )
    throw new RangeError(NOT_FITTING)
  const terms = digits(leaseMs, 16) + digits(keyTtlMs, 16)
  const attempts = attempt === 1 ? '0001' : digits(attempt, 4)
  const size = rest.length === 0 ? '00000000' : digits(rest.length, SIZE_DIGITS)
  // Joined, not added: one flat text, where a sum is a tree of texts that each node's call would walk again.
  return [kind, tokenDigits, accepted, owner, attempts, fingerprint, terms, size, rest].join('')
}

function digits(value: number, width: number): string {
  return String(Math.trunc(value)).padStart(width, '0')
}
