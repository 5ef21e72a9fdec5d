/**
 * One call of the batch script on one node. Owns how the script is called and its bytes on the wire; the caller owns
 * deadlines and meaning.
 */

import { Command, type Redis } from 'ioredis'
import { bulk, type Frame, latin1 } from './frames.ts'
import { EPOCH_KEY } from './keys.ts'
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
class PreparedCommand extends Command {
  readonly #bytes: Buffer

  constructor(name: string, bytes: Buffer) {
    super(name, [], { replyEncoding: null })
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
  const args = encodeArguments(batch)
  let reply: unknown
  try {
    reply = await send(client, 'evalsha', script.sha1, args)
  } catch (cause) {
    // A node that restarted or flushed its scripts: it executed no command of the call.
    if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
    reply = await send(client, 'eval', latin1(script.source), args)
  }
  return decodeBatch(reply, batch.frames.length)
}

/** @param script its digest or its source, by the command */
function send(client: Redis, name: string, script: string, { count, bytes }: Arguments): unknown {
  const call = `*${count + 2}\r\n${bulk(name)}${bulk(script)}${bytes}`
  return client.sendCommand(new PreparedCommand(name, Buffer.from(call, 'latin1')))
}

type Arguments = { readonly count: number; readonly bytes: string }

const EPOCH = bulk(EPOCH_KEY)
const FULL = bulk('full')

/** The number of keys, the keys, and ARGV, as `batch.lua` lists them. */
function encodeArguments({ epoch, maxTokenAheadMs, frames, full }: Batch): Arguments {
  let keys = ''
  let joined = ''
  for (const { key, bytes } of frames) {
    keys += key
    joined += bytes
  }
  const keyCount = frames.length + 1
  return {
    count: keyCount + (full ? 5 : 4),
    bytes:
      bulk(String(keyCount)) +
      EPOCH +
      keys +
      bulk(latin1(epoch)) +
      bulk(String(maxTokenAheadMs)) +
      bulk(joined) +
      (full ? FULL : ''),
  }
}
