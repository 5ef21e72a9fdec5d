/** Wait queues inside this process: with embedded nodes no other process waits in them. */

import { updateEntry, type WaitQueue, type WaitQueues } from '../core/claims/wait-queue.ts'
import type { Clock } from '../core/clock.ts'

export function createEmbeddedWaitQueues(clock: Clock): WaitQueues {
  const queues = new Map<string, WaitQueue>()
  return {
    nodeCount: 1,
    update: (key, entry) => {
      const { queue, reply } = updateEntry(queues.get(key), entry, Math.floor(clock.monoMs()))
      if (queue === undefined) queues.delete(key)
      else queues.set(key, queue)
      return Promise.resolve([reply])
    },
  }
}
