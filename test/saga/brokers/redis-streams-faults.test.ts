// Faults that only Redis Streams has, on a real server.
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import {
  createRedisStreamsPublisher,
  createRedisStreamsSubscriber,
} from '../../../packages/saga/src/brokers/redis-streams.ts'
import { BrokerUnavailableError } from '../../../packages/saga/src/errors.ts'
import type { Delivery, Verdict } from '../../../packages/saga/src/messages.ts'
import { closing } from '../../support/closing.ts'
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
})

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
})

async function oneServer() {
  const servers = await startRedisServers(1)
  const url = servers.urls[0]!
  const redis = new Redis(url, { protocol: 2 })
  return {
    url,
    redis,
    async [Symbol.asyncDispose]() {
      redis.disconnect()
      await servers[Symbol.asyncDispose]()
    },
  }
}

type Consuming = {
  readonly concurrency?: number
  readonly visibilityMs?: number
  readonly handle?: (delivery: Delivery) => Promise<Verdict>
}

/** What the group `test` of a stream is handed, and what it is told of faults. Messages of dead consumers are those an hour old. */
async function consume(
  url: string,
  stream: string,
  { concurrency = 1, visibilityMs = 600_000, handle = async () => ({ kind: 'ack' }) }: Consuming = {},
) {
  const got: string[] = []
  const errors: string[] = []
  const subscriber = createRedisStreamsSubscriber({ url, stream, group: 'test', visibilityMs })
  const subscription = await subscriber.subscribe(
    (delivery) => {
      got.push(delivery.body)
      return handle(delivery)
    },
    { concurrency, onError: (error) => errors.push((error as Error).message) },
  )
  return { got, errors, [Symbol.asyncDispose]: () => subscription.close() }
}

// Bug: a claim looks at ten times as many pending messages as there is room for, and always began with the oldest ones.
test('a message of a dead consumer is reached behind many that are in progress', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  const read = (consumer: string, count: number) =>
    redis.xreadgroup('GROUP', 'test', consumer, 'COUNT', count, 'STREAMS', 'behind', '>')
  const ids: string[] = []
  for (let n = 1; n <= 25; n += 1) ids.push((await redis.xadd('behind', '*', 'body', String(n)))!)
  await redis.xgroup('CREATE', 'behind', 'test', '0')
  await read('live', 24)
  await read('dead', 1)
  await redis.call('XCLAIM', 'behind', 'test', 'dead', '0', ids.at(-1)!, 'IDLE', '3600000')
  await using consumer = await consume(url, 'behind')
  await eventually('the message of the dead one', () => consumer.got.length > 0)
  expect(consumer.got).toEqual(['25'])
})

// Bug: the limit was that of each stream and each claim, so four times as many began at once.
test('new messages, those to be retried and those of a dead consumer are together no more than the limit', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  for (const stream of ['both', 'both:again:test']) {
    const ids: string[] = []
    for (let n = 1; n <= 8; n += 1) ids.push((await redis.xadd(stream, '*', 'body', String(n)))!)
    await redis.xgroup('CREATE', stream, 'test', '0')
    await redis.xreadgroup('GROUP', 'test', 'dead', 'COUNT', 4, 'STREAMS', stream, '>')
    await redis.call('XCLAIM', stream, 'test', 'dead', '0', ...ids.slice(0, 4), 'IDLE', '3600000')
  }
  let handled = 0
  let running = 0
  let most = 0
  const handle = async (): Promise<Verdict> => {
    running += 1
    most = Math.max(most, running)
    await new Promise(setImmediate)
    running -= 1
    handled += 1
    return { kind: 'ack' }
  }
  await using _ = await consume(url, 'both', { concurrency: 2, handle })
  await eventually('all of them', () => handled === 16)
  expect(most).toBe(2)
})

// Bug: the claim that finds such messages takes them off the group's list, and nobody was told.
test('messages that were cut from the stream while a dead consumer had them are told as lost', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  const ids: string[] = []
  for (let n = 1; n <= 3; n += 1) ids.push((await redis.xadd('cut', '*', 'body', String(n)))!)
  await redis.xgroup('CREATE', 'cut', 'test', '0')
  await redis.xreadgroup('GROUP', 'test', 'dead', 'COUNT', 2, 'STREAMS', 'cut', '>')
  await redis.call('XCLAIM', 'cut', 'test', 'dead', '0', ids[0]!, ids[1]!, 'IDLE', '3600000')
  await redis.xtrim('cut', 'MAXLEN', 1)
  await using consumer = await consume(url, 'cut', { concurrency: 10 })
  await eventually('the last message', () => consumer.got.length > 0)
  expect(consumer.got).toEqual(['3'])
  expect(consumer.errors).toEqual([
    expect.stringContaining(`2 messages of the stream cut (${ids[0]}, ${ids[1]})`),
  ])
})

// Bug: the script that brings entries back failed on it, each time, and its group read nothing more.
test('a message to be retried that has thousands of headers comes again, and the others go on', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  const handle = async ({ body, redelivered }: Delivery): Promise<Verdict> =>
    body === 'many' && !redelivered ? { kind: 'again', delayMs: 1 } : { kind: 'ack' }
  await using consumer = await consume(url, 'many', { visibilityMs: 500, handle })
  const { got, errors } = consumer
  const headers = Array.from({ length: 5_000 }, (_, n) => [`header-${n}`, 'x']).flat()
  await redis.xadd('many', '*', ...headers, 'body', 'many')
  await eventually('its first delivery', () => got.length === 1)
  await redis.xadd('many', '*', 'body', 'next')
  await eventually('all deliveries', () => got.length === 3)
  expect(got.toSorted()).toEqual(['many', 'many', 'next'])
  expect(errors).toEqual([])
})

// Bug: each process left its random name in the group for ever, killed or not.
test('the names of consumers that stopped or were killed leave the group, but for one that has a message', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  const namesIn = async (stream: string) => {
    const consumers = (await redis.xinfo('CONSUMERS', stream, 'test')) as string[][]
    return consumers.map(([, name]) => name)
  }
  await redis.xgroup('CREATE', 'names', 'test', '0', 'MKSTREAM')
  await redis.xadd('names', '*', 'body', '1')
  await redis.xreadgroup('GROUP', 'test', 'holder', 'COUNT', 1, 'STREAMS', 'names', '>')
  await redis.xgroup('CREATECONSUMER', 'names', 'test', 'killed')
  await (await consume(url, 'names'))[Symbol.asyncDispose]()
  expect((await namesIn('names')).sort()).toEqual(['holder', 'killed'])
  expect(await namesIn('names:again:test')).toEqual([])
  {
    await using consumer = await consume(url, 'names', { visibilityMs: 1 })
    expect(await namesIn('names')).not.toContain('killed')
    await eventually('the message of the other one', () => consumer.got.includes('1'))
  }
  expect(await namesIn('names')).toEqual([])
})

// A refusal would cost each message an attempt, and make a dead letter of it.
test('a server that has no room for another connection refuses no message', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  await using publisher = closing(createRedisStreamsPublisher({ url }))
  const publish = () => publisher.publish(outbound('crowded', 1), new AbortController().signal)
  await redis.config('SET', 'maxclients', '1')
  await expect(publish()).rejects.toBeInstanceOf(BrokerUnavailableError)
  await redis.config('SET', 'maxclients', '100')
  await eventually('it to be published', () =>
    publish().then(
      () => true,
      () => false,
    ),
  )
})

test('a group that is deleted begins anew with the oldest entry, and says so', async () => {
  await using server = await oneServer()
  const { url, redis } = server
  await using consumer = await consume(url, 'anew')
  const { got, errors } = consumer
  await redis.xadd('anew', '*', 'body', '1')
  await eventually('the message', () => got.length === 1)
  await redis.xgroup('DESTROY', 'anew', 'test')
  await redis.xadd('anew', '*', 'body', '2')
  await eventually('both', () => got.includes('2'))
  expect(got).toEqual(['1', '1', '2'])
  expect(errors).toEqual([expect.stringMatching(/the group test of anew was gone, and begins anew/)])
})

// Bug: Redis was called out of reach, because its connection was closed, though it had answered what is wrong.
test.each([
  ['no password', (url: string) => url],
  ['a wrong password', (url: string) => url.replace('redis://', 'redis://:canary@')],
])('%s is named, and Redis is not called out of reach', async (_, urlOf) => {
  await using servers = await startRedisServers(1)
  const redis = new Redis(servers.urls[0]!, { protocol: 2 })
  await redis.config('SET', 'requirepass', 'another')
  const url = urlOf(servers.urls[0]!)
  const publisher = createRedisStreamsPublisher({ url })
  const refused = { code: 'broker_access_refused', message: expect.not.stringMatching(/canary/) }
  try {
    await expect(
      publisher.publish(outbound('closed', 1), new AbortController().signal),
    ).rejects.toMatchObject(refused)
    const subscribed = createRedisStreamsSubscriber({ url, stream: 'closed', group: 'test' }).subscribe(
      async () => ({ kind: 'ack' }),
      { concurrency: 1, onError: () => {} },
    )
    await expect(subscribed).rejects.toMatchObject(refused)
  } finally {
    await publisher.close()
    redis.disconnect()
  }
})
