// Faults that only Redis Streams has, on a real server.
import { Redis } from 'ioredis'
import { test } from 'vitest'
import {
  createRedisStreamsPublisher,
  createRedisStreamsSubscriber,
} from '../../../packages/saga/src/brokers/redis-streams.ts'
import { eventually } from '../../support/eventually.ts'
import { startRedisServers } from '../../support/redis-servers.ts'
import { outbound } from './conformance.ts'

test('a consumer at its limit keeps its messages from the others', async () => {
  await using servers = await startRedisServers(1)
  const url = servers.urls[0]!
  const go = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const subscriber = createRedisStreamsSubscriber({ url, stream: 'full', group: 'test', visibilityMs: 900 })
  const subscription = await subscriber.subscribe(
    async () => {
      begun.resolve()
      await go.promise
      return { kind: 'ack' }
    },
    { concurrency: 1, onError: () => {} },
  )
  const publisher = createRedisStreamsPublisher({ url })
  const redis = new Redis(url, { protocol: 2 })
  try {
    await publisher.publish(outbound('full', 1), new AbortController().signal)
    await begun.promise
    let longestMs = 0
    await eventually('it to be kept', async () => {
      const [entry] = (await redis.xpending('full', 'test', '-', '+', 1)) as [
        string,
        string,
        number,
        number,
      ][]
      const idleMs = entry![2]
      longestMs = Math.max(longestMs, idleMs)
      return idleMs < longestMs
    })
  } finally {
    go.resolve()
    await subscription.close()
    await publisher.close()
    redis.disconnect()
  }
})
