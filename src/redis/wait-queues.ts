/**
 * The wait queues on the Redis nodes: one call of `lua/queue.lua` on each.
 *
 * Owns how long to wait for the nodes. A queue orders claims and grants nothing, so a node that does not answer is left
 * out, and no request waits for the slowest one.
 */

import type { Redis } from 'ioredis'
import type { QueueEntry, QueueReply, WaitQueues } from '../core/claims/wait-queue.ts'
import type { Clock } from '../core/clock.ts'
import { pauseUnless, within } from '../core/retry.ts'
import { majorityOf } from '../core/units.ts'
import { waitQueueKey } from './keys.ts'
import { luaOf, ownScript } from './scripts.ts'

const call = ownScript(luaOf('queue'), 1)

/** After a majority has replied: another reply saves a look, and is not worth a slow node's delay. */
const REST_MS = 5

/** Calls in flight to one node; beyond, it is skipped until it has answered some. */
const MAX_IN_FLIGHT_CALLS = 16

export type RedisWaitQueuesOptions = {
  /** One per node; undefined where no command may be sent to it now. */
  readonly clients: () => readonly (Redis | undefined)[]
  readonly nodeCount: number
  readonly deadlineMs: number
  readonly clock: Clock
  /** Fewer than a majority took an entry. */
  readonly untaken: () => void
}

export function createRedisWaitQueues({
  clients,
  nodeCount,
  deadlineMs,
  clock,
  untaken,
}: RedisWaitQueuesOptions): WaitQueues {
  const inFlight = new WeakMap<Redis, number>()
  const needed = majorityOf(nodeCount)

  async function updateOn(client: Redis, key: string, entry: QueueEntry): Promise<QueueReply | undefined> {
    const calls = inFlight.get(client) ?? 0
    if (calls >= MAX_IN_FLIGHT_CALLS) return undefined
    inFlight.set(client, calls + 1)
    const sent = sendEntry(client, key, entry).finally(() =>
      inFlight.set(client, (inFlight.get(client) ?? 1) - 1),
    )
    // A node that does not answer is not counted; why does not matter here.
    return within(clock, deadlineMs, sent, 'no answer').catch(() => undefined)
  }

  return {
    nodeCount,
    update: async (key, entry) => {
      const replies: QueueReply[] = []
      const majority = Promise.withResolvers<void>()
      const all = Promise.all(
        clients().map(async (client) => {
          const reply = client && (await updateOn(client, key, entry))
          if (reply !== undefined) replies.push(reply)
          if (replies.length >= needed) majority.resolve()
        }),
      ).then(() => {})
      await Promise.race([all, majority.promise])
      await pauseUnless([all], REST_MS, clock)
      if (replies.length < needed) untaken()
      return [...replies]
    },
  }
}

/** @throws Error where the node does not answer, or has another type under this name */
export async function sendEntry(client: Redis, key: string, entry: QueueEntry): Promise<QueueReply> {
  const { process, first, last, draws, openTo, aliveMs } = entry
  const args = [process, first, last, draws, openTo, aliveMs].map(String)
  const reply = await call(client, waitQueueKey(key), ...args)
  if (!Array.isArray(reply) || reply.length !== 5) throw new Error('the node answered something else')
  const [highest, ahead, who, open, nodeMs] = reply.map(String)
  return {
    highest: Number(highest),
    ahead: ahead === '0' ? undefined : { number: Number(ahead), process: String(who) },
    openTo: Number(open),
    nodeMs: Number(nodeMs),
  }
}
