// The Redis Streams adapter, on a real server that writes to disk before it confirms.
import { Redis } from 'ioredis'
import {
  createRedisStreamsPublisher,
  createRedisStreamsSubscriber,
} from '../../../packages/saga/src/brokers/redis-streams.ts'
import { startRedisServers } from '../../support/redis-servers.ts'
import { brokerConformance, VISIBILITY_MS } from './conformance.ts'

brokerConformance(async () => {
  const servers = await startRedisServers(1, { appendOnly: true })
  const url = servers.urls[0]!
  const publisher = createRedisStreamsPublisher({ url })
  return {
    publisher,
    freshPublisher: () => createRedisStreamsPublisher({ url }),
    channel: async (name) => {
      const options = { url, stream: name, group: 'test', visibilityMs: VISIBILITY_MS }
      return {
        destination: name,
        subscriber: createRedisStreamsSubscriber(options),
        elsewhere: {
          module: `${import.meta.dirname}/../../../packages/saga/src/brokers/redis-streams.ts`,
          factory: 'createRedisStreamsSubscriber',
          options,
        },
      }
    },
    sendForeign: async (stream, { headers, contentType, body }) => {
      const fields = contentType === undefined ? headers : { ...headers, 'content-type': contentType }
      const redis = new Redis(url)
      await redis.xadd(stream, '*', 'body', body, ...Object.entries(fields).flat())
      await redis.quit()
    },
    kill: () => servers.kill(0),
    start: () => servers.start(0),
    async [Symbol.asyncDispose]() {
      await publisher.close()
      await servers[Symbol.asyncDispose]()
    },
  }
})
