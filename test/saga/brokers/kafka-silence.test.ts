// A node of Kafka that says nothing: its client waits for minutes, the relay for seconds. A stand-in for the client waits here.
import { expect, test } from 'vitest'
import { createKafkaPublisher, type StringProducer } from '../../../packages/saga/src/brokers/kafka.ts'
import { eventually } from '../../support/eventually.ts'
import { outbound } from './conformance.ts'

// Bug: each try of the relay stood in the queue behind the silent batch, and all of them were sent when the node was back.
test('a message that the relay has given up is not sent any more when the node answers again', async () => {
  const sent: string[][] = []
  const node = Promise.withResolvers<void>()
  const send = async ({ messages }: { messages: { value: string }[] }) => {
    sent.push(messages.map(({ value }) => value))
    await node.promise
  }
  const publisher = createKafkaPublisher({ send, close: async () => {} } as unknown as StringProducer)
  const relay = new AbortController()
  const patient = new AbortController().signal
  const first = publisher.publish(outbound('orders', 1), relay.signal)
  const tries = Array.from({ length: 5 }, () => publisher.publish(outbound('orders', 2), relay.signal))
  const again = publisher.publish(outbound('orders', 2), patient)
  await eventually('the first to be under way', () => sent.length === 1)
  const givenUp = new Error('no confirm within 10000 ms')
  relay.abort(givenUp)
  node.resolve()
  await Promise.all([first, again])
  for (const one of tries) await expect(one).rejects.toBe(givenUp)
  expect(sent).toEqual([['{"n":1}'], ['{"n":2}']])
  expect(publisher.silenceIsOutage).toBe(true)
})
