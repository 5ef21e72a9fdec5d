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

export async function callBatch(client: Redis, script: Script, batch: Batch): Promise<BatchReply> {
  const args = encodeArguments(batch)
  const call = (name: string, which: string) =>
    client.sendCommand(
      new PreparedCommand(
        name,
        Buffer.from(
          `*${batch.frames.length + (batch.full ? 8 : 7)}\r\n${bulk(name)}${bulk(which)}${args}`,
          'latin1',
        ),
      ),
    )
  let reply: unknown
  try {
    reply = await call('evalsha', script.sha1)
  } catch (cause) {
    // A node that restarted or flushed its scripts: it executed no command of the call.
    if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
    reply = await call('eval', latin1(script.source))
  }
  return decodeBatch(reply, batch.frames.length)
}

const FULL = bulk('full')

/** The number of keys, the keys, and ARGV, as `batch.lua` lists them. */
function encodeArguments({ epoch, maxTokenAheadMs, frames, full }: Batch): string {
  let keys = ''
  let joined = ''
  for (const { key, bytes } of frames) {
    keys += key
    joined += bytes
  }
  return (
    bulk(String(frames.length + 1)) +
    bulk(EPOCH_KEY) +
    keys +
    bulk(latin1(epoch)) +
    bulk(String(maxTokenAheadMs)) +
    bulk(joined) +
    (full ? FULL : '')
  )
}
