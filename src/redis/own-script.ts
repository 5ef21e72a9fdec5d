/**
 * A script beside the batch: called by its digest, and sent whole where the node does not know it.
 *
 * Owns how it is called. What it means, and what its answer means, is its caller's.
 */

import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'

export type OwnScript = (client: Redis, ...given: readonly (string | number)[]) => Promise<unknown>

/** @param keys how many of the first arguments are keys */
export function ownScript(source: string, keys: number): OwnScript {
  const sha1 = createHash('sha1').update(source).digest('hex')
  return async (client, ...given) => {
    try {
      return await client.evalsha(sha1, keys, ...given)
    } catch (cause) {
      // A node that restarted or flushed its scripts: it did nothing.
      if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
      return client.eval(source, keys, ...given)
    }
  }
}
