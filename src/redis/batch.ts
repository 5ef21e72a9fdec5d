/** One call of the batch script on one node. Owns how the script is called; deadlines and meaning are the caller's. */

import type { Redis } from 'ioredis'
import { EPOCH_KEY } from './keys.ts'
import type { Script } from './scripts.ts'
import { type BatchReply, decodeBatch } from './wire.ts'

export type Batch = {
  readonly epoch: string
  readonly maxTokenAheadMs: number
  /** One a command. */
  readonly keys: readonly string[]
  /** The names of the commands, each with its arguments. */
  readonly args: readonly (string | Buffer)[]
}

export async function callBatch(client: Redis, script: Script, batch: Batch): Promise<BatchReply> {
  const { epoch, maxTokenAheadMs, keys, args } = batch
  const rest = [keys.length + 1, EPOCH_KEY, ...keys, epoch, String(maxTokenAheadMs), ...args]
  let reply: unknown
  try {
    reply = await client.callBuffer('EVALSHA', [script.sha1, ...rest])
  } catch (cause) {
    // A node that restarted or flushed its scripts: nothing of the call was executed.
    if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
    reply = await client.callBuffer('EVAL', [script.source, ...rest])
  }
  return decodeBatch(reply, keys.length)
}
