// Kafka answers for each partition, and its client fails a whole batch for one of them. A stand-in for the client does the same,
// with the errors that it has for a topic below its min.insync.replicas.
import { expect, test } from 'vitest'
import { createKafkaPublisher, type StringProducer } from '../../../packages/saga/src/brokers/kafka.ts'
import {
  BrokerUnavailableError,
  PublishDeferredError,
  PublishRefusedError,
} from '../../../packages/saga/src/errors.ts'
import { outbound } from './conformance.ts'

const { signal } = new AbortController()

/** What the client throws: an error of the send, around one for each try, around that of the response. */
function thrown(reason: object): Error {
  const wrapped = (inner: object, code: string) => Object.assign(new Error(code), { code, errors: [inner] })
  return wrapped(wrapped(wrapped(reason, 'PLT_KFK_RESPONSE'), 'PLT_KFK_MULTIPLE'), 'PLT_KFK_MULTIPLE')
}
const protocolError = (apiId: string) => Object.assign(new Error(apiId), { code: 'PLT_KFK_PROTOCOL', apiId })

/** Writes what it can, and fails the whole batch where one topic is at fault. */
function producerOf(faults: ReadonlyMap<string, object>) {
  const sends: string[][] = []
  const written: string[] = []
  const producer = {
    async send({ messages }: { messages: { topic: string; value: string }[] }) {
      sends.push([...new Set(messages.map(({ topic }) => topic))])
      written.push(
        ...messages.filter(({ topic }) => !faults.has(topic)).map(({ topic, value }) => `${topic} ${value}`),
      )
      const fault = messages.map(({ topic }) => faults.get(topic)).find((one) => one !== undefined)
      if (fault !== undefined) throw thrown(fault)
    },
    close: async () => {},
  }
  return { producer: producer as unknown as StringProducer, sends, written }
}

// Bug: NOT_ENOUGH_REPLICAS of one topic failed the messages of all, as an outage. They had been written, and were again with each try.
test('a topic with too few replicas in sync makes its own messages wait, and no others', async () => {
  const faults = new Map([['short', protocolError('NOT_ENOUGH_REPLICAS')]])
  const { producer, sends, written } = producerOf(faults)
  const publisher = createKafkaPublisher(producer)
  const round = (n: number) =>
    Promise.allSettled(
      ['orders', 'short', 'bills'].map((topic) => publisher.publish(outbound(topic, n), signal)),
    )
  const first = await round(1)
  expect(first.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  const { reason } = first[1] as PromiseRejectedResult
  expect(reason).toBeInstanceOf(PublishDeferredError)
  expect(reason.message).toContain('the topic short takes the message later')
  written.length = 0
  sends.length = 0
  await round(2)
  expect(written.sort()).toEqual(['bills {"n":2}', 'orders {"n":2}'])
  expect(sends.filter((topics) => topics.includes('short'))).toEqual([['short']])

  faults.clear()
  await round(3)
  sends.length = 0
  await round(4)
  expect(sends.filter((topics) => topics.includes('short') && topics.length > 1)).toHaveLength(1)
})

test('where Kafka is away, the topics of a batch are not tried one after the other', async () => {
  const away = { code: 'PLT_KFK_NETWORK' }
  const { producer, sends } = producerOf(
    new Map(['orders', 'bills', 'mails', 'visits'].map((topic) => [topic, away])),
  )
  const publisher = createKafkaPublisher(producer)
  const sent = ['orders', 'bills', 'mails', 'visits'].map((topic) =>
    publisher.publish(outbound(topic, 1), signal),
  )
  for (const one of sent) await expect(one).rejects.toBeInstanceOf(BrokerUnavailableError)
  expect(sends).toEqual([['orders'], ['bills', 'mails', 'visits'], ['bills']])
})

test('where Kafka goes away while a refused message is looked for, no message is left without an answer', async () => {
  const faults = new Map([['closed', protocolError('TOPIC_AUTHORIZATION_FAILED')]])
  const { producer, sends } = producerOf(faults)
  const publisher = createKafkaPublisher(producer)
  const topics = ['first', 'orders', 'bills', 'closed', 'mails']
  const sent = topics.map((topic) => publisher.publish(outbound(topic, 1), signal))
  sent[0]?.then(() => {
    // The next send is that of the four others, and fails for the closed one; from then on nothing answers.
    const original = producer.send.bind(producer)
    let count = 0
    Object.assign(producer, {
      send: (batch: never) => {
        count += 1
        return count === 1 ? original(batch) : Promise.reject(thrown({ code: 'PLT_KFK_NETWORK' }))
      },
    })
  })
  const ends = await Promise.allSettled(sent)
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', ...Array(4).fill('rejected')])
  for (const end of ends.slice(1))
    expect((end as PromiseRejectedResult).reason).toBeInstanceOf(BrokerUnavailableError)
  expect(sends).toEqual([['first'], ['orders', 'bills', 'closed', 'mails']])
})

test('a message that is refused is found also in a batch of several topics', async () => {
  const { producer, written } = producerOf(new Map([['closed', protocolError('TOPIC_AUTHORIZATION_FAILED')]]))
  const publisher = createKafkaPublisher(producer)
  const topics = ['orders', 'bills', 'closed', 'mails']
  const sent = await Promise.allSettled(topics.map((topic) => publisher.publish(outbound(topic, 1), signal)))
  expect(sent.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect((sent[2] as PromiseRejectedResult).reason).toBeInstanceOf(PublishRefusedError)
  expect(new Set(written)).toEqual(new Set(['orders {"n":1}', 'bills {"n":1}', 'mails {"n":1}']))
})
