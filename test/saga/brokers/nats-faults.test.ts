// What NATS faults say about a message: one at fault that counted as an outage would be waited for, for ever.
import { DiscardPolicy, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, test } from 'vitest'
import { createNatsPublisher, createNatsSubscriber } from '../../../packages/saga/src/brokers/nats.ts'
import {
  BrokerUnavailableError,
  PublishDeferredError,
  PublishRefusedError,
} from '../../../packages/saga/src/errors.ts'
import { closing } from '../../support/closing.ts'
import { openDoor } from '../../support/door.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startNats } from '../../support/nats-server.ts'
import { outbound } from './conformance.ts'

const server = duringTests(() => startNats())

test.each([
  ['larger than the server takes', { body: JSON.stringify('x'.repeat(2 * 1024 * 1024)) }],
  ['for what cannot be a subject', { destination: 'orders new' }],
])('a message %s is refused, and one after it is not', async (_, more) => {
  const connection = { servers: server.url }
  const options = { connection, stream: 'orders', subjects: ['orders'], durable: 'test' }
  await using _subscription = closing(
    await createNatsSubscriber(options).subscribe(async () => ({ kind: 'ack' }), {
      concurrency: 1,
      onError: () => {},
    }),
  )
  await using publisher = closing(createNatsPublisher({ connection }))
  const { signal } = new AbortController()
  const sent = publisher.publish(outbound('orders', 1, more), signal)
  await expect(sent).rejects.toBeInstanceOf(PublishRefusedError)
  await publisher.publish(outbound('orders', 2), signal)
})

// Bug: a stream that was full, or had no leader, refused each message ten times within minutes, and they became dead letters.
test('a full stream takes a message later: it costs no attempt', async () => {
  const connection = { servers: server.url }
  await using admin = closing(await connect(connection))
  const manager = await jetstreamManager(admin)
  await manager.streams.add({
    ...{ name: 'full', subjects: ['full'] },
    ...{ max_msgs: 1, max_msg_size: 10_000, discard: DiscardPolicy.New },
  })
  await using publisher = closing(createNatsPublisher({ connection }))
  const send = (n: number, body = '{}') =>
    publisher.publish(outbound('full', n, { body }), new AbortController().signal)
  await send(1)
  await expect(send(2)).rejects.toBeInstanceOf(PublishDeferredError)
  await manager.streams.purge('full')
  await expect(send(3, JSON.stringify('x'.repeat(10_000)))).rejects.toBeInstanceOf(PublishRefusedError)
  await send(4)
})

// Bug: the server says it with a 400, so each message was refused ten times within minutes, and became a dead letter.
test('an account that has no storage left takes a message later: it costs no attempt', async () => {
  const account = `accounts { A { jetstream { max_file: 4096 }, users: [{ user: a, password: a }] } }`
  await using limited = await startNats({ config: [account] })
  const connection = { servers: limited.url, user: 'a', pass: 'a' }
  await using admin = closing(await connect(connection))
  const manager = await jetstreamManager(admin)
  await manager.streams.add({ name: 'limited', subjects: ['limited'] })
  await using publisher = closing(createNatsPublisher({ connection }))
  const send = (n: number) =>
    publisher.publish(
      outbound('limited', n, { body: JSON.stringify('x'.repeat(2_000)) }),
      new AbortController().signal,
    )
  await send(1)
  await expect(send(2)).rejects.toBeInstanceOf(PublishDeferredError)
  await expect(send(3)).rejects.toThrow('resource limits exceeded for account')
  await manager.streams.purge('limited')
  await send(4)
})

// Bug: as long as JetStream was not enabled for the account, each message cost its attempts, and became a dead letter.
test('a server without JetStream is away: it refuses no message', async () => {
  const accounts = `accounts { A { users: [{ user: a, password: a }] } }`
  await using without = await startNats({ config: [accounts] })
  const connection = { servers: without.url, user: 'a', pass: 'a' }
  await using publisher = closing(createNatsPublisher({ connection }))
  const sent = publisher.publish(outbound('orders', 1), new AbortController().signal)
  await expect(sent).rejects.toBeInstanceOf(BrokerUnavailableError)
  await expect(sent).rejects.toThrow('JetStream did not answer: it is not enabled')
  // Bug: the consumer was told to create the stream.
  const begun = createNatsSubscriber({ connection, stream: 'orders', durable: 'orders' }).subscribe(
    async () => ({ kind: 'ack' }),
    { concurrency: 1, onError: () => {} },
  )
  await expect(begun).rejects.toMatchObject({ code: 'broker_unavailable' })
  await expect(begun).rejects.toThrow('JetStream did not answer: it is not enabled')
})

// Bug: NATS was called out of reach, and one message for such a subject stopped the relay for good.
test('a message for a subject that the user may not publish to is refused, and others go on', async () => {
  const users = `{ user: a, password: a, permissions { publish { deny: "secret" } } }`
  await using strict = await startNats({
    config: [`accounts { A { jetstream: enabled, users: [${users}] } }`],
  })
  const connection = { servers: strict.url, user: 'a', pass: 'a' }
  await using admin = closing(await connect(connection))
  const manager = await jetstreamManager(admin)
  await manager.streams.add({ name: 'open', subjects: ['open', 'secret'] })
  await using publisher = closing(createNatsPublisher({ connection }))
  const { signal } = new AbortController()
  const sent = publisher.publish(outbound('secret', 1), signal)
  await expect(sent).rejects.toBeInstanceOf(PublishRefusedError)
  await expect(sent).rejects.toThrow(/permissions violation/i)
  await publisher.publish(outbound('open', 2), signal)
})

// No one responds there, and the server may not say whether a stream does later.
test('where the user may not ask for the stream, a message for a subject that nobody has waits, and others go on', async () => {
  const users = `{ user: a, password: a, permissions { publish { deny: "$JS.API.>" } } }, { user: b, password: b }`
  await using strict = await startNats({
    config: [`accounts { A { jetstream: enabled, users: [${users}] } }`],
  })
  await using admin = closing(await connect({ servers: strict.url, user: 'b', pass: 'b' }))
  const manager = await jetstreamManager(admin)
  await manager.streams.add({ name: 'there', subjects: ['there'] })
  await using publisher = closing(
    createNatsPublisher({ connection: { servers: strict.url, user: 'a', pass: 'a' } }),
  )
  const { signal } = new AbortController()
  const sent = publisher.publish(outbound('nobody', 1), signal)
  await expect(sent).rejects.toBeInstanceOf(PublishDeferredError)
  await expect(sent).rejects.toThrow('which the user may not ask')
  await publisher.publish(outbound('there', 2), signal)
})

test.each<[string, string | undefined]>([
  ['a plain subscriber, which says nothing', undefined],
  ['a service that answers, and stores nothing', '{"ok":true}'],
  ['a service that answers with no JSON', 'thanks'],
])('a message for a subject without a stream is refused, also where there is %s', async (_, reply) => {
  const connection = { servers: server.url }
  await using other = closing(await connect(connection))
  other.subscribe('notes', {
    callback: (_error, message) => {
      if (reply !== undefined) message.respond(reply)
    },
  })
  await other.flush()
  await using publisher = closing(createNatsPublisher({ connection, timeoutMs: 300 }))
  const sent = publisher.publish(outbound('notes', 1), new AbortController().signal)
  await expect(sent).rejects.toBeInstanceOf(PublishRefusedError)
  await expect(sent).rejects.toThrow('no stream takes the subject notes')
})

// The last: the server stands still afterwards.
// Bug: NATS 2.10 and later refuse to add a consumer that is there with another `ack_wait`, and no consumer began.
test('a durable consumer that is there with another ackWaitMs gets the new one, and keeps its place', async () => {
  const connection = { servers: server.url }
  const options = { connection, stream: 'changed', subjects: ['changed'], durable: 'changed' }
  const got: string[] = []
  const consume = (ackWaitMs: number) =>
    createNatsSubscriber({ ...options, ackWaitMs }).subscribe(
      async ({ body }) => {
        got.push(body)
        return { kind: 'ack' }
      },
      { concurrency: 1, onError: () => {} },
    )
  await using publisher = closing(createNatsPublisher({ connection }))
  const send = (n: number) => publisher.publish(outbound('changed', n), new AbortController().signal)
  const arrived = (count: number) => eventually(`${count} messages`, () => got.length === count)
  await using admin = closing(await connect(connection))
  const first = await consume(30_000)
  await send(1)
  await arrived(1)
  await first.close()
  const second = await consume(60_000)
  await send(2)
  await arrived(2)
  await second.close()
  expect(got).toEqual(['{"n":1}', '{"n":2}'])
  const manager = await jetstreamManager(admin)
  const { config } = await manager.consumers.info('changed', 'changed')
  expect(config.ack_wait).toBe(60_000 * 1_000_000)
})

// Bug: the client waited for the consumer to come back, without a word; then it said so, and still nothing was handled until a restart.
test.each([
  ['a durable consumer', 'consumer'],
  ['a stream whose subjects the subscriber names', 'stream'],
] as const)('%s that is deleted is declared anew, and that is told', async (_, what) => {
  const connection = { servers: server.url }
  const errors: string[] = []
  const got: string[] = []
  const name = `deleted-${what}`
  const options = { connection, stream: name, subjects: [name], durable: name }
  await using _subscription = closing(
    await createNatsSubscriber(options).subscribe(
      async ({ body }) => {
        got.push(body)
        return { kind: 'ack' }
      },
      { concurrency: 2, onError: (error) => errors.push(String(error)) },
    ),
  )
  await using publisher = closing(createNatsPublisher({ connection }))
  await using admin = closing(await connect(connection))
  const arrived = (n: number) => eventually(`message ${n}`, () => got.includes(`{"n":${n}}`))
  const send = (n: number) =>
    publisher.publish(outbound(name, n), new AbortController().signal).then(
      () => true,
      () => false,
    )
  await send(1)
  await arrived(1)
  const manager = await jetstreamManager(admin)
  if (what === 'consumer') await manager.consumers.delete(name, name)
  else await manager.streams.delete(name)
  await eventually('an error that says so', () =>
    errors.some((text) => /was gone, and begins anew/.test(text)),
  )
  await send(2)
  await arrived(2)
})

// Bug: NATS was called out of reach, though it had answered what is wrong.
test.each([
  [
    'a stream that is missing',
    { stream: 'missing' },
    /stream missing \(stream not found\); create the stream/,
  ],
  [
    'a subject of another stream',
    { stream: 'rival', subjects: ['owned.one'] },
    /subjects overlap with an existing stream/,
  ],
  [
    'a name that no consumer can have',
    { stream: 'owner', durable: 'two words' },
    /two words.*cannot contain/,
  ],
])('%s is named, and NATS is not called out of reach', async (_, more, words) => {
  const connection = { servers: server.url }
  const subscribe = (options: { stream: string; subjects?: string[]; durable?: string }) =>
    createNatsSubscriber({ connection, durable: 'named', ...options }).subscribe(
      async () => ({ kind: 'ack' }),
      { concurrency: 1, onError: () => {} },
    )
  await (await subscribe({ stream: 'owner', subjects: ['owned.>'] })).close()
  const error = await subscribe(more).catch((thrown: Error) => thrown)
  expect(error).toMatchObject({
    code: 'broker_declaration_refused',
    message: expect.stringMatching(words),
  })
})

// Bug: the client ends a connection for good whose user is refused twice, and both sides kept that one until a restart.
test('users that are refused for a while (a reload, a rotation) are let in again afterwards', async () => {
  let refusing = false
  const door = await openDoor({ host: '127.0.0.1', port: server.port }, (bytes) =>
    refusing && bytes.includes('PONG') ? Buffer.from("-ERR 'Authorization Violation'\r\n") : bytes,
  )
  const connection = { servers: `nats://127.0.0.1:${door.port}` }
  const got: string[] = []
  const options = { connection, stream: 'rotated', subjects: ['rotated'], durable: 'rotated' }
  await using _subscription = closing(
    await createNatsSubscriber(options).subscribe(
      async ({ body }) => {
        got.push(body)
        return { kind: 'ack' }
      },
      { concurrency: 1, onError: () => {} },
    ),
  )
  await using publisher = closing(createNatsPublisher({ connection }))
  const send = (n: number) => publisher.publish(outbound('rotated', n), new AbortController().signal)
  await send(1)
  refusing = true
  const before = door.attempts()
  door.turn('shut')
  door.turn('open')
  await eventually('each to be refused twice', () => door.attempts() >= before + 4)
  // Bug: the publisher called NATS out of reach, though it had answered what is wrong.
  const newcomer = createNatsPublisher({ connection })
  await expect(newcomer.publish(outbound('rotated', 1), new AbortController().signal)).rejects.toMatchObject({
    code: 'broker_access_refused',
  })
  await newcomer.close()
  await eventually('the door is empty', () => door.inside() === 0)
  refusing = false
  await eventually('another message', () =>
    send(2).then(
      () => true,
      () => false,
    ),
  )
  await eventually('it at the consumer', () => got.includes('{"n":2}'))
})

// Bug: a try to connect took as long as the relay waits for a confirm, or longer, so it counted against the message.
test('a server that does not answer a connection is given up before the relay gives up the message', async () => {
  const door = await openDoor({ host: '127.0.0.1', port: server.port })
  door.turn('held')
  const publisher = createNatsPublisher({ connection: { servers: `nats://127.0.0.1:${door.port}` } })
  const beganMs = performance.now()
  const sent = publisher.publish(outbound('orders', 1), new AbortController().signal)
  await expect(sent).rejects.toBeInstanceOf(BrokerUnavailableError)
  expect(performance.now() - beganMs).toBeLessThan(9_000)
  await publisher.close()
})

test('a server that does not answer has refused nothing: it costs the message no attempt', async () => {
  const publisher = createNatsPublisher({ connection: { servers: server.url }, timeoutMs: 300 })
  const { signal } = new AbortController()
  try {
    await expect(publisher.publish(outbound('nothing-there', 1), signal)).rejects.toBeInstanceOf(
      PublishRefusedError,
    )
    server.pause()
    const sent = publisher.publish(outbound('orders', 2), signal)
    await expect(sent).rejects.toBeInstanceOf(BrokerUnavailableError)
  } finally {
    server.resume()
    await publisher.close()
  }
})
