/**
 * Nodes as after more than one retention: with memory that was touched before.
 *
 * A node that was just started asks the system for a page every few records, and on a virtual machine a page may cost
 * as much as ten commands. So the memory for what a run leaves behind is touched first, and kept by the allocator.
 */
import { Redis } from 'ioredis'
import { type RedisServers, startRedisServers } from '../../test/support/redis-servers.ts'

/** Most that a benchmark leaves behind. */
const RECORDS = 200_000

/** @param recordBytes of what a run stores under a key */
export async function startWarmNodes(count: number, recordBytes: number): Promise<RedisServers> {
  const servers = await startRedisServers(count, {
    env: () => ({ MALLOC_CONF: 'dirty_decay_ms:-1,muzzy_decay_ms:-1' }),
  })
  const script = `for i = 1, tonumber(ARGV[1]) do
    redis.call('SET', 'touched:' .. string.rep('0', 72) .. i, string.rep('x', ARGV[2]), 'PX', 600000) end`
  await Promise.all(
    servers.urls.map(async (url) => {
      const client = new Redis(url)
      await client.eval(script, 0, RECORDS, recordBytes)
      await client.flushall('ASYNC')
      client.disconnect()
    }),
  )
  return servers
}
