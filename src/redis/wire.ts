/**
 * Answers on their way from a Redis node, and records as it stores them: the border between named values and bytes.
 *
 * Owns what the Lua files' headers describe; commands on their way to a node are `frames.ts`. Bytes that do not decode
 * are an error with a sentence, because then the node runs another script than ours or its data were altered.
 */

import { errorText } from '../core/fault.ts'
import type { SizedSnapshot } from '../core/nodes/rejoin-rules.ts'
import type { NodeAnswer, Unreachable } from '../core/ports.ts'
import type { NodeRecord } from '../core/record/record.ts'
import { formatToken, NO_TOKEN, parseToken, type Token } from '../core/record/token.ts'

/** The reply of one call of the batch script. */
export type BatchReply = {
  readonly nodeMs: number
  readonly joined: boolean
  /** One per command: the name of its answer and the words that belong to it. */
  readonly lines: readonly string[]
  /** Of those lines whose answer has bytes, in their order. */
  readonly bytes: readonly unknown[]
}

/** The answers that have bytes besides their line. */
const WITH_BYTES: ReadonlySet<string> = new Set(['completed', 'stored', 'record', 'shown', 'failed'])

/** @throws Error where the reply has not the shape that `batch.lua` gives it. */
export function decodeBatch(reply: unknown, commandCount: number): BatchReply {
  if (!Array.isArray(reply)) throw new Error(`the script answered with ${typeof reply}, an array expected`)
  const lines = text(reply[0]).split('\n')
  const head = lines[0] ?? ''
  const joined = head.endsWith(' 1')
  if ((!joined && !head.endsWith(' 0')) || lines.length !== commandCount + 1)
    throw new Error(`the script answered with ${lines.length - 1} lines, ${commandCount} expected`)
  lines.shift()
  return {
    nodeMs: integer(head.slice(0, -2)),
    joined,
    lines,
    bytes: reply.length === 1 ? NO_BYTES : reply.slice(1),
  }
}

const NO_BYTES: readonly unknown[] = []

/**
 * One answer per command; `unreachable` where it does not decode.
 * @param fullBecause why the node was sent no new claims
 */
export function decodeAnswers({ nodeMs, lines, bytes }: BatchReply, fullBecause?: string): NodeAnswer[] {
  // Nearly all answers are one of these two, and answers are values: one object serves all of a call.
  const granted: NodeAnswer = { kind: 'granted', attempt: 1, nodeMs }
  const recorded: NodeAnswer = { kind: 'recorded', nodeMs }
  let bytesTaken = 0
  return lines.map((line) => {
    if (line === 'granted 1') return granted
    if (line === 'recorded') return recorded
    const words = line.split(' ')
    const own = WITH_BYTES.has(words[0] ?? '') ? bytes[bytesTaken++] : undefined
    try {
      const answer = decodeAnswer(words, own, nodeMs)
      if (fullBecause === undefined || answer.kind !== 'unreachable' || answer.full === undefined)
        return answer
      return { ...answer, detail: `${answer.detail}: ${fullBecause}` }
    } catch (cause) {
      const detail = errorText(cause)
      return { kind: 'unreachable', reason: 'error', detail, answered: true }
    }
  })
}

/** @throws Error where the answer has not the shape that its Lua file gives it. */
function decodeAnswer(words: readonly string[], own: unknown, nodeMs: number): NodeAnswer {
  const [kind = '', one, two, three, four, five, six] = words
  switch (kind) {
    case 'granted':
      return { kind, attempt: integer(one), nodeMs }
    case 'held':
      return {
        kind,
        fence: token(one),
        remainingMs: integer(two),
        fingerprint: text(three),
        attempt: integer(four),
        nodeMs,
      }
    case 'mismatch':
      return { kind, fence: token(one), remainingMs: integer(two), fingerprint: text(three), nodeMs }
    case 'completed':
      return {
        kind,
        fence: token(one),
        promised: integer(two) === 1,
        acceptedToken: token(three),
        attempt: integer(four),
        fingerprint: text(five),
        outcome: buffer(own),
        ...(integer(six) === 1 ? { copied: true as const } : {}),
        nodeMs,
      }
    case 'stored': {
      const record = unpackRecord(buffer(own))
      if (record.state !== 'completed') throw new Error(`the script calls a ${record.state} record stored`)
      const { acceptedToken, attempt, fingerprint, outcome } = record
      const known = { acceptedToken, attempt, fingerprint, outcome, nodeMs }
      return { kind: 'completed', fence: token(one), promised: true, ...known }
    }
    case 'stale':
    case 'lost':
    case 'fenced':
    case 'not_owner':
      return { kind, fence: token(one), nodeMs }
    case 'skewed':
    case 'renewed':
    case 'recorded':
    case 'released':
      return { kind, nodeMs }
    case 'absent':
      return { kind: 'record', record: undefined, nodeMs }
    case 'record':
      return { kind: 'record', record: unpackRecord(buffer(own)), ...lifetime(integer(one)), nodeMs }
    case 'full':
      return noRoom('it takes no new claims')
    case 'failed': {
      const detail = text(own)
      if (detail.startsWith(OUT_OF_MEMORY)) return noRoom(detail)
      return { kind: 'unreachable', reason: 'error', detail, answered: true }
    }
    default:
      throw new Error(`the script answered ${JSON.stringify(kind)}, which is none of its answers`)
  }
}

/** Redis' own word where `maxmemory` is reached: it executed no part of the command. */
const OUT_OF_MEMORY = 'OOM '

function noRoom(detail: string): Unreachable {
  return { kind: 'unreachable', reason: 'refused', answered: true, full: true, detail }
}

/**
 * What `inspect.lua` says of each record; `damaged`: another program's value under our name, or an altered one, as
 * distinct from a missing record.
 *
 * @throws Error where a later version wrote one: whoever left it out as a damaged one would bring a node back without it
 */
export function decodeSnapshots({
  nodeMs,
  lines,
  bytes,
}: BatchReply): (SizedSnapshot | undefined | 'damaged')[] {
  let bytesTaken = 0
  return lines.map((line) => {
    const [kind = '', ttl, size] = line.split(' ')
    const own = WITH_BYTES.has(kind) ? bytes[bytesTaken++] : undefined
    if (kind === 'failed' && text(own).includes(LATER_RECORD)) throw new Error(text(own))
    if (kind === 'absent') return undefined
    if (kind !== 'shown') return 'damaged'
    try {
      return { record: unpackRecord(buffer(own)), nodeMs, ttlMs: integer(ttl), sizeBytes: integer(size) }
    } catch {
      return 'damaged'
    }
  })
}

/** What `record.lua` says of a version that it does not know. */
const LATER_RECORD = 'a later fencepost wrote this record'

const HEADER_BYTES = 166
/** In place of an accepted token, which a claim has none of. */
const KEPT = 1

/** As `lua/record.lua` lays it out. */
export function packRecord(record: NodeRecord): Buffer {
  const digits = (value: number, width: number) => String(value).padStart(width, '0')
  const noOwner = '0'.repeat(32)
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
      return Buffer.from(header('R', 0, noOwner, 0, 0, nothing, 0), 'latin1')
    case 'claimed': {
      const { owner, leaseUntilNodeMs, attempt, fingerprint, claimedAtNodeMs, kept } = record
      return Buffer.from(
        header('C', kept ? KEPT : 0, owner, leaseUntilNodeMs, attempt, fingerprint, claimedAtNodeMs),
        'latin1',
      )
    }
    case 'completed': {
      const { acceptedToken, owner, attempt, fingerprint, claimedAtNodeMs, outcome, copied } = record
      const state = copied === undefined ? 'D' : 'H'
      const overAtMs = record.overAtNodeMs ?? 0
      const packed = header(state, acceptedToken, owner, overAtMs, attempt, fingerprint, claimedAtNodeMs)
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
  const endsAtNodeMs = Number(header.slice(66, 82))
  const claim = {
    attempt: Number(header.slice(82, 86)),
    fingerprint: header.slice(86, 150),
    claimedAtNodeMs: Number(header.slice(150, 166)),
  }
  switch (header[1]) {
    case 'C':
      return {
        state: 'claimed',
        fence,
        owner,
        leaseUntilNodeMs: endsAtNodeMs,
        ...claim,
        ...(parseToken(header.slice(18, 34)) === NO_TOKEN ? {} : { kept: true as const }),
      }
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
        ...(endsAtNodeMs === 0 ? {} : { overAtNodeMs: endsAtNodeMs }),
      }
    }
    default:
      throw new Error(`damaged record: state ${JSON.stringify(header[1])}`)
  }
}

/** A record without expiry, which no script writes, has no lifetime. */
function lifetime(ttlMs: number): { readonly ttlMs?: number } {
  return ttlMs < 0 ? {} : { ttlMs }
}

function text(value: unknown): string {
  if (Buffer.isBuffer(value)) return value.toString('latin1')
  if (typeof value === 'string') return value
  throw new Error(`${typeof value} where the script answers text`)
}

function integer(value: string | undefined): number {
  const number = Number(value)
  if (value === undefined || value === '' || !Number.isSafeInteger(number))
    throw new Error(`${value} where the script answers a whole number`)
  return number
}

function token(value: string | undefined): Token {
  return parseToken(text(value))
}

function buffer(value: unknown): Buffer {
  if (Buffer.isBuffer(value)) return value
  throw new Error(`${typeof value} where the script answers bytes`)
}
