/**
 * Nodes a network away: each answer of theirs takes a millisecond longer, as between zones of a region.
 *
 * On one machine a node's work runs on the cores of whoever waits for it, and the way to it takes no time: there the number of calls
 * decides. With nodes of their own machines the number of round trips in a row does, and only that can be measured through these links: their own
 * work is done in this process, on the same cores, and counts for whoever makes more calls. A kernel that delays packets (netem) would be better;
 * many virtual machines have none.
 */
import { Redis } from 'ioredis'
import { startFaultLink } from '../../test/faults/fault-proxy.ts'
import type { RedisServers } from '../../test/support/redis-servers.ts'
import { median } from './rounds.ts'

/** What Node's timers can do at least; they take up to one more. */
const ANSWERS_LATER_MS = 1
const PINGS = 200

export type DistantNodes = AsyncDisposable & {
  readonly urls: readonly string[]
  /** Median of a PING to one of them, nothing else under way. */
  readonly roundTripMs: number
}

export async function startDistantNodes(servers: RedisServers): Promise<DistantNodes> {
  const stack = new AsyncDisposableStack()
  const urls: string[] = []
  for (const url of servers.urls) {
    const link = stack.use(await startFaultLink(Number(new URL(url).port)))
    link.set({ latencyMs: ANSWERS_LATER_MS, slow: 'back' })
    urls.push(`redis://127.0.0.1:${link.port}`)
  }
  return {
    urls,
    roundTripMs: await roundTripMs(urls[0]!),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

async function roundTripMs(url: string): Promise<number> {
  const client = new Redis(url)
  const times: number[] = []
  for (let ping = 0; ping < PINGS; ping += 1) {
    const begunMs = performance.now()
    await client.ping()
    times.push(performance.now() - begunMs)
  }
  client.disconnect()
  return median(times)
}
