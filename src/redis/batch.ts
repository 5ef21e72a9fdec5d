/**
 * One call of the batch script on one node. Owns how the script is called and its bytes on the wire; the caller owns
 * deadlines and meaning.
 */

import { Command, type Redis } from 'ioredis'
import { bulk, type Frame, latin1 } from './frames.ts'
import { EPOCH_KEY } from './keys.ts'
import type { AsksForRecords } from './reply-limit.ts'
import type { Script } from './scripts.ts'
import { type BatchReply, decodeBatch } from './wire.ts'

export type Batch = {
  readonly epoch: string
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
  const bytes = bytesOf({ ...batch, epoch: latin1(batch.epoch), name, script })
  return client.sendCommand(new PreparedCommand(name, bytes, batch.frames.length))
}

/** `epoch`: one character per byte. */
type Call = Batch & { readonly name: string; readonly script: string }
type Encoded = { readonly call: Call; readonly bytes: Buffer; readonly epochAt: number }

let last: Encoded | undefined

/** The same commands go to every node in turn, so the last call is kept: the next one mostly differs in the node's epoch only. */
function bytesOf(call: Call): Buffer {
  if (last === undefined || !differInEpochOnly(last.call, call)) {
    last = encode(call)
    return last.bytes
  }
  // The bytes of the other call may not be sent yet.
  const bytes = Buffer.from(last.bytes)
  bytes.write(call.epoch, last.epochAt, 'latin1')
  return bytes
}

function differInEpochOnly(one: Call, other: Call): boolean {
  return (
    one.script === other.script &&
    one.epoch.length === other.epoch.length &&
    one.maxTokenAheadMs === other.maxTokenAheadMs &&
    one.full === other.full &&
    one.frames.length === other.frames.length &&
    one.frames.every((frame, at) => frame === other.frames[at])
  )
}

const EPOCH = bulk(EPOCH_KEY)
const FULL = bulk('full')

/** The command, the number of keys, the keys, and ARGV, as `batch.lua` lists them. */
function encode(call: Call): Encoded {
  const { name, script, epoch, maxTokenAheadMs, frames, full } = call
  let keys = ''
  let joined = ''
  for (const { key, bytes } of frames) {
    keys += key
    joined += bytes
  }
  const keyCount = frames.length + 1
  const head = `*${keyCount + (full ? 7 : 6)}\r\n${bulk(name)}${bulk(script)}${bulk(String(keyCount))}${EPOCH}${keys}$${epoch.length}\r\n`
  const rest = `${epoch}\r\n${bulk(String(maxTokenAheadMs))}${bulk(joined)}${full ? FULL : ''}`
  return { call, bytes: Buffer.from(head + rest, 'latin1'), epochAt: head.length }
}
