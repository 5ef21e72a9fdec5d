/**
 * One call of the batch script on one node, and its commands: each as one frame, as `lua/batch.lua` lays it out. Owns their bytes on the
 * wire; the caller owns deadlines and meaning. A command that does not fit the record's fixed fields is refused here, before it shifts
 * the fields after it.
 */

import { Command, type Redis } from 'ioredis'
import { fitsRecord, NO_OWNER, NOT_FITTING, type RecordCommand } from '../core/record/record.ts'
import { formatToken, NO_TOKEN, TOKEN_DIGITS } from '../core/record/token.ts'
import type { AsksForRecords } from './connect.ts'
import { INCARNATION_KEY, QUARANTINE_KEY } from './keys.ts'
import type { Script } from './scripts.ts'
import { type BatchReply, decodeBatch } from './wire.ts'

export type Batch = {
  readonly incarnation: string
  readonly maxTokenAheadMs: number
  readonly frames: readonly Frame[]
  /** No claim of a record that the node does not have: it has little room left. */
  readonly full?: boolean
}

/**
 * A command with prepared bytes. ioredis would look at each argument four times, and there are as many as keys: most of
 * the cost of a call of fifty commands. It still owns the connection, the order of replies and their decoding.
 */
class PreparedCommand extends Command implements AsksForRecords {
  readonly records: number
  readonly #bytes: Buffer

  constructor(name: string, bytes: Buffer, records: number) {
    super(name, [], { replyEncoding: null })
    this.records = records
    this.#bytes = bytes
  }

  override toWritable(): Buffer {
    return this.#bytes
  }
}

/** What ioredis' own command sets up in its constructor, by a private method; its version is exact in package.json. */
type Settling = Pick<Command, 'promise' | 'resolve' | 'reject' | 'isResolved' | 'isSettled'>

/**
 * The same without a function that is assigned where it is written: V8 creates such a function in the old generation, and with it stay the command,
 * its bytes and its reply until the next full collection (docs/internals/performance.md).
 */
Object.assign(PreparedCommand.prototype, {
  initPromise(this: Settling): void {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.promise = promise
    this.resolve = settling(this, resolve, true)
    this.reject = settling(this, reject, false)
  },
})

function settling<Value>(command: Settling, settle: (value: Value) => void, isResolved: boolean) {
  command.isResolved = false
  command.isSettled = false
  return (value: Value): void => {
    command.isResolved = isResolved
    command.isSettled = true
    settle(value)
  }
}

export async function callBatch(client: Redis, script: Script, batch: Batch): Promise<BatchReply> {
  let reply: unknown
  try {
    reply = await send(client, 'evalsha', script.sha1, batch)
  } catch (cause) {
    // A node that restarted or flushed its scripts: it executed no command of the call.
    if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
    reply = await send(client, 'eval', latin1(script.source), batch)
  }
  return decodeBatch(reply, batch.frames.length)
}

/** @param script its digest or its source, by the command */
function send(client: Redis, name: string, script: string, batch: Batch): unknown {
  const bytes = bytesOf({ ...batch, incarnation: latin1(batch.incarnation), name, script })
  return client.sendCommand(new PreparedCommand(name, bytes, batch.frames.length))
}

/** `incarnation`: one character per byte. */
type Call = Batch & { readonly name: string; readonly script: string }
type Encoded = { readonly call: Call; readonly bytes: Buffer; readonly incarnationAt: number }

let last: Encoded | undefined

/** The same commands go to every node in turn, so the last call is kept: the next one mostly differs in the node's incarnation only. */
function bytesOf(call: Call): Buffer {
  if (last === undefined || !differInIncarnationOnly(last.call, call)) {
    last = encodeCall(call)
    return last.bytes
  }
  // The bytes of the other call may not be sent yet.
  const bytes = Buffer.from(last.bytes)
  bytes.write(call.incarnation, last.incarnationAt, 'latin1')
  return bytes
}

function differInIncarnationOnly(one: Call, other: Call): boolean {
  return (
    one.script === other.script &&
    one.incarnation.length === other.incarnation.length &&
    one.maxTokenAheadMs === other.maxTokenAheadMs &&
    one.full === other.full &&
    one.frames.length === other.frames.length &&
    one.frames.every((frame, at) => frame === other.frames[at])
  )
}

const INCARNATION = bulk(INCARNATION_KEY)
const FULL = bulk('full')

/** The command, the number of keys, the keys, and ARGV, as `batch.lua` lists them. */
function encodeCall(call: Call): Encoded {
  const { name, script, incarnation, maxTokenAheadMs, frames, full } = call
  let keys = ''
  let joined = ''
  for (const { key, bytes } of frames) {
    keys += key
    joined += bytes
  }
  const keyCount = frames.length + 1
  const head = `*${keyCount + (full ? 7 : 6)}\r\n${bulk(name)}${bulk(script)}${bulk(String(keyCount))}${INCARNATION}${keys}$${incarnation.length}\r\n`
  const rest = `${incarnation}\r\n${bulk(String(maxTokenAheadMs))}${bulk(joined)}${full ? FULL : ''}`
  return { call, bytes: Buffer.from(head + rest, 'latin1'), incarnationAt: head.length }
}

/**
 * A request to a node: a record's key, as an argument of a call, and the frame. One character per byte, because joining
 * texts and encoding them once costs least.
 */
export type Frame = { readonly key: string; readonly bytes: string }

/** One argument of a call in RESP. @param bytes one character per byte */
function bulk(bytes: string): string {
  return `$${bytes.length}\r\n${bytes}\r\n`
}

/** UTF-8, one character per byte. */
function latin1(text: string): string {
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
