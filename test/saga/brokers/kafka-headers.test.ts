// What a record of Kafka may have that no other broker's message has. A stand-in for the client hands it over.
import { expect, test } from 'vitest'
import { createKafkaSubscriber, type StringConsumer } from '../../../packages/saga/src/brokers/kafka.ts'
import { createConsumer } from '../../../packages/saga/src/consumer.ts'
import { listDeadLetters } from '../../../packages/saga/src/dead-letters.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { testKit } from '../../support/saga-kit.ts'

const postgres = duringTests(() => startPostgres())

function consumerOf(record: object): StringConsumer {
  const closed = Promise.withResolvers<void>()
  async function* records() {
    yield record
    await closed.promise
  }
  const stream = Object.assign(records(), { pause: () => {}, close: async () => closed.resolve() })
  return { on: () => {}, consume: async () => stream, close: async () => {} } as unknown as StringConsumer
}

// Bug: such a header was no text, so no dead letter could be written, and the partition stood still at its record.
test('a record with a header without a value is a dead letter where nothing reads it', async () => {
  const kit = await testKit(postgres, { housekeeping: false })
  let committed = false
  const record = {
    topic: 'orders',
    partition: 0,
    offset: 7n,
    timestamp: 1n,
    key: undefined,
    headers: new Map<string, string | undefined>([
      ['tenant', 'a'],
      ['parent', undefined],
    ]),
    value: '{}',
    commit: () => {
      committed = true
    },
  }
  const consumer = await createConsumer({
    kit,
    consumerId: 'billing',
    handlers: {},
    subscriber: createKafkaSubscriber({ connect: () => consumerOf(record), topics: ['orders'] }),
  })
  try {
    await eventually('it to be committed', () => committed)
    const [letter] = await listDeadLetters(kit)
    expect(letter?.headers).toEqual({ tenant: 'a', parent: '' })
  } finally {
    await consumer.stop()
  }
})
