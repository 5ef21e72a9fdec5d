// Faults that only Redis Streams has, on a real server.
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import {
  createRedisStreamsPublisher,
  createRedisStreamsSubscriber,
} from '../../../packages/saga/src/brokers/redis-streams.ts'
import { BrokerUnavailableError } from '../../../packages/saga/src/errors.ts'
import type { Delivery } from '../../../packages/saga/src/messages.ts'
import { openDoor } from '../../support/door.ts'
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

test('a header named body is a header, and does not replace the body, also after a delay', async () => {
  await using servers = await startRedisServers(1)
  const url = servers.urls[0]!
  const got: Delivery[] = []
  const subscriber = createRedisStreamsSubscriber({ url, stream: 'named', group: 'test' })
  const subscription = await subscriber.subscribe(
    async (delivery) => {
      got.push(delivery)
      return got.length === 1 ? { kind: 'again', delayMs: 1 } : { kind: 'ack' }
    },
    { concurrency: 1, onError: () => {} },
  )
  const publisher = createRedisStreamsPublisher({ url })
  const redis = new Redis(url, { protocol: 2 })
  try {
    const message = outbound('named', 1, { headers: { body: '"header"' } })
    await publisher.publish(message, new AbortController().signal)
    await eventually('both deliveries', () => got.length === 2)
    for (const { body, headers } of got)
      expect({ body, header: headers.body }).toEqual({ body: '{"n":1}', header: '"header"' })
    // For readers in other languages, which make a map of the fields: the last one of a name wins there.
    const [[, fields]] = (await redis.xrange('named', '-', '+')) as [[string, string[]]]
    expect(fields.slice(-2)).toEqual(['body', '{"n":1}'])
  } finally {
    await subscription.close()
    await publisher.close()
    redis.disconnect()
  }
})

// Bug: the publisher waited as long as the relay did, which counted it against the message: an outage made dead letters.
test('a server that does not answer has refused nothing: it costs the message no attempt', async () => {
  await using servers = await startRedisServers(1)
  const publisher = createRedisStreamsPublisher({ url: servers.urls[0]! })
  const { signal } = new AbortController()
  try {
    await publisher.publish(outbound('silent', 1), signal)
    servers.pause(0)
    const sent = publisher.publish(outbound('silent', 2), signal)
    await expect(sent).rejects.toBeInstanceOf(BrokerUnavailableError)
    servers.resume(0)
    await eventually('the next message', () =>
      publisher.publish(outbound('silent', 3), signal).then(
        () => true,
        () => false,
      ),
    )
  } finally {
    servers.resume(0)
    await publisher.close()
  }
}, 20_000)

// Bug: a server that became a replica keeps its connections, and the connection was kept: nothing was published or read until a restart.
test('behind an address that leads to another server now, the publisher and the consumer follow it', async () => {
  await using servers = await startRedisServers(2)
  const [before, after] = servers.urls.map((url) => new Redis(url, { protocol: 2 }))
  let port = Number(new URL(servers.urls[0]!).port)
  const door = await openDoor({
    host: '127.0.0.1',
    get port() {
      return port
    },
  })
  const url = `redis://127.0.0.1:${door.port}`
  const got: string[] = []
  const publisher = createRedisStreamsPublisher({ url })
  const subscription = await createRedisStreamsSubscriber({ url, stream: 'moved', group: 'test' }).subscribe(
    async ({ body }) => {
      got.push(body)
      return { kind: 'ack' }
    },
    { concurrency: 1, onError: () => {} },
  )
  const { signal } = new AbortController()
  try {
    await publisher.publish(outbound('moved', 1), signal)
    await eventually('the first message', () => got.length === 1)
    port = Number(new URL(servers.urls[1]!).port)
    await before!.replicaof('127.0.0.1', port)
    await eventually('the second message', () =>
      publisher.publish(outbound('moved', 2), signal).then(
        () => true,
        () => false,
      ),
    )
    await eventually('the second message at the consumer', () => got.length === 2)
  } finally {
    await subscription.close()
    await publisher.close()
    before!.disconnect()
    after!.disconnect()
  }
}, 20_000)
