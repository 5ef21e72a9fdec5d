/**
 * Commands and answers as they travel to a Redis node: the border between named values and Lua's arrays.
 *
 * Owns the encoding that the Lua files' headers describe, and nothing else. What does not decode is an error with a
 * sentence, because then the node runs another script than ours or its data were altered.
 */

import type { ShownRecord } from '../core/nodes/enrolment-node.ts'
import type { NodeAnswer } from '../core/ports.ts'
import type { NodeRecord, RecordCommand } from '../core/record/record.ts'
import { formatToken, parseToken } from '../core/record/token.ts'

/** The name of the command and its ARGV, as `lua/<name>.lua` lists them. */
export function encodeCommand(command: RecordCommand): (string | Buffer)[] {
  switch (command.kind) {
    case 'claim': {
      const { token, owner, leaseMs, fingerprint, keyTtlMs } = command
      return ['claim', formatToken(token), owner, String(leaseMs), fingerprint, String(keyTtlMs)]
    }
    case 'renew': {
      const { token, owner, leaseMs, fingerprint, attempt, keyTtlMs } = command
      return [
        'renew',
        formatToken(token),
        owner,
        String(leaseMs),
        fingerprint,
        String(attempt),
        String(keyTtlMs),
      ]
    }
    case 'complete': {
      const { token, owner, fingerprint, attempt, outcome, keyTtlMs } = command
      return ['complete', formatToken(token), owner, fingerprint, String(attempt), outcome, String(keyTtlMs)]
    }
    case 'release':
      return ['release', formatToken(command.token), command.owner, String(command.keyTtlMs)]
    case 'read':
      return ['read']
  }
}

/** What one call of the batch script says: the node's time, whether its epoch stands, and an answer a command. */
export type BatchReply = {
  readonly nodeMs: number
  readonly enrolled: boolean
  readonly answers: readonly unknown[]
}

/** @throws Error where the reply has not the shape that `batch.lua` gives it. */
export function decodeBatch(reply: unknown, commandCount: number): BatchReply {
  if (!Array.isArray(reply) || reply.length !== commandCount + 3) {
    throw new Error(
      `the script answered with ${Array.isArray(reply) ? reply.length : typeof reply} elements, ${commandCount + 3} expected`,
    )
  }
  const [seconds, microseconds, enrolled, ...answers] = reply
  const nodeMs = Number(text(seconds)) * 1000 + Math.floor(Number(text(microseconds)) / 1000)
  return { nodeMs, enrolled: enrolled === 1, answers }
}

/** @throws Error where the answer has not the shape that its Lua file gives it. */
export function decodeAnswer(answer: unknown, nodeMs: number): NodeAnswer {
  if (!Array.isArray(answer)) throw new Error(`an answer is ${typeof answer}, an array expected`)
  const kind = text(answer[0])
  switch (kind) {
    case 'granted':
      return { kind, attempt: integer(answer[1]), nodeMs }
    case 'held':
      return {
        kind,
        fence: parseToken(text(answer[1])),
        remainingMs: integer(answer[2]),
        fingerprint: text(answer[3]),
        attempt: integer(answer[4]),
        nodeMs,
      }
    case 'mismatch':
      return {
        kind,
        fence: parseToken(text(answer[1])),
        remainingMs: integer(answer[2]),
        fingerprint: text(answer[3]),
        nodeMs,
      }
    case 'completed':
      return {
        kind,
        fence: parseToken(text(answer[1])),
        promised: integer(answer[2]) === 1,
        acceptedToken: parseToken(text(answer[3])),
        attempt: integer(answer[4]),
        fingerprint: text(answer[5]),
        outcome: bytes(answer[6]),
        ...(integer(answer[7]) === 1 ? { copied: true as const } : {}),
        nodeMs,
      }
    case 'stale':
    case 'lost':
    case 'fenced':
    case 'not_owner':
      return { kind, fence: parseToken(text(answer[1])), nodeMs }
    case 'skewed':
    case 'renewed':
    case 'recorded':
    case 'released':
      return { kind, nodeMs }
    case 'absent':
      return { kind: 'record', record: undefined, nodeMs }
    case 'record':
      return { kind: 'record', record: unpackRecord(bytes(answer[1])), nodeMs }
    case 'failed':
      return { kind: 'unreachable', reason: 'error', detail: text(answer[1]), answered: true }
    default:
      throw new Error(`the script answered ${JSON.stringify(kind)}, which is none of its answers`)
  }
}

/** What `show.lua` says of one record. @throws Error where it is no such answer, or the record is damaged */
export function decodeShown(answer: unknown, nodeMs: number): ShownRecord | undefined {
  if (!Array.isArray(answer)) throw new Error(`an answer is ${typeof answer}, an array expected`)
  const kind = text(answer[0])
  if (kind === 'absent') return undefined
  if (kind !== 'shown') throw new Error(`the script answered ${kind}: ${text(answer[1])}`)
  const ttlMs = integer(answer[1])
  return { record: unpackRecord(bytes(answer[2])), nodeMs, ttlMs, sizeBytes: integer(answer[3]) }
}

const HEADER_BYTES = 166

/** As `lua/record.lua` lays it out. */
export function packRecord(record: NodeRecord): Buffer {
  const digits = (value: number, width: number) => String(value).padStart(width, '0')
  const nobody = '0'.repeat(32)
  const nothing = '0'.repeat(64)
  const header = (
    state: string,
    accepted: number,
    owner: string,
    leaseMs: number,
    attempt: number,
    fingerprint: string,
    claimedAtMs: number,
  ) =>
    `1${state}${formatToken(record.fence)}${formatToken(accepted)}${owner}${digits(leaseMs, 16)}${digits(attempt, 4)}${fingerprint}${digits(claimedAtMs, 16)}`
  switch (record.state) {
    case 'released':
      return Buffer.from(header('R', 0, nobody, 0, 0, nothing, 0), 'latin1')
    case 'claimed': {
      const { owner, leaseUntilNodeMs, attempt, fingerprint, claimedAtNodeMs } = record
      return Buffer.from(
        header('C', 0, owner, leaseUntilNodeMs, attempt, fingerprint, claimedAtNodeMs),
        'latin1',
      )
    }
    case 'completed': {
      const { acceptedToken, owner, attempt, fingerprint, claimedAtNodeMs, outcome, copied } = record
      const state = copied === undefined ? 'D' : 'H'
      const packed = header(state, acceptedToken, owner, 0, attempt, fingerprint, claimedAtNodeMs)
      return Buffer.concat([Buffer.from(packed, 'latin1'), outcome])
    }
  }
}

/**
 * The packed string of `lua/record.lua`.
 * @throws Error where it is not one
 */
export function unpackRecord(packed: Buffer): NodeRecord {
  if (packed.length < HEADER_BYTES)
    throw new Error(`damaged record: ${packed.length} bytes, at least ${HEADER_BYTES} expected`)
  const header = packed.toString('latin1', 0, HEADER_BYTES)
  if (header[0] !== '1') throw new Error(`damaged record: version ${JSON.stringify(header[0])}`)
  const fence = parseToken(header.slice(2, 18))
  const owner = header.slice(34, 66)
  const claim = {
    attempt: Number(header.slice(82, 86)),
    fingerprint: header.slice(86, 150),
    claimedAtNodeMs: Number(header.slice(150, 166)),
  }
  switch (header[1]) {
    case 'C':
      return { state: 'claimed', fence, owner, leaseUntilNodeMs: Number(header.slice(66, 82)), ...claim }
    case 'R':
      return { state: 'released', fence }
    case 'D':
    case 'H': {
      const acceptedToken = parseToken(header.slice(18, 34))
      return {
        state: 'completed',
        fence,
        owner,
        acceptedToken,
        ...claim,
        outcome: packed.subarray(HEADER_BYTES),
        ...(header[1] === 'H' ? { copied: true as const } : {}),
      }
    }
    default:
      throw new Error(`damaged record: state ${JSON.stringify(header[1])}`)
  }
}

function text(value: unknown): string {
  if (Buffer.isBuffer(value)) return value.toString('latin1')
  if (typeof value === 'string' || typeof value === 'number') return String(value)
  throw new Error(`${typeof value} where the script answers text`)
}

function integer(value: unknown): number {
  const number = Number(text(value))
  if (!Number.isSafeInteger(number)) throw new Error(`${text(value)} where the script answers a whole number`)
  return number
}

function bytes(value: unknown): Buffer {
  if (Buffer.isBuffer(value)) return value
  throw new Error(`${typeof value} where the script answers bytes`)
}
