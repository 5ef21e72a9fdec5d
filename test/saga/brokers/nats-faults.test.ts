// A message that the NATS client refuses to send is at fault itself: as an outage it would be waited for, for ever.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createNatsPublisher, createNatsSubscriber } from '../../../packages/saga/src/brokers/nats.ts'
import { PublishRefusedError } from '../../../packages/saga/src/errors.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { outbound } from './conformance.ts'

let server: NatsServer
beforeAll(async () => {
  server = await startNats()
})
afterAll(() => server[Symbol.asyncDispose]())

test.each([
  ['larger than the server takes', { body: JSON.stringify('x'.repeat(2 * 1024 * 1024)) }],
  ['for what cannot be a subject', { destination: 'orders new' }],
])('a message %s is refused, and one after it is not', async (_, more) => {
  const connection = { servers: server.url }
  const options = { connection, stream: 'orders', subjects: ['orders'], durable: 'test' }
  const subscription = await createNatsSubscriber(options).subscribe(async () => ({ kind: 'ack' }), {
    concurrency: 1,
    onError: () => {},
  })
  const publisher = createNatsPublisher({ connection })
  const { signal } = new AbortController()
  try {
    const sent = publisher.publish(outbound('orders', 1, more), signal)
    await expect(sent).rejects.toBeInstanceOf(PublishRefusedError)
    await publisher.publish(outbound('orders', 2), signal)
  } finally {
    await publisher.close()
    await subscription.close()
  }
})
