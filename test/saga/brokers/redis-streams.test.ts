// The Redis Streams adapter, on a real server that writes to disk before it confirms.
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
    kill: () => servers.kill(0),
    start: () => servers.start(0),
    async [Symbol.asyncDispose]() {
      await publisher.close()
      await servers[Symbol.asyncDispose]()
    },
  }
})
