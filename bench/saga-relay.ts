/**
 * How many messages one relay carries, with confirms and in order within each aggregate, for every broker; and how long
 * one message takes from its insertion to its confirm, with and without NOTIFY.
 *
 *     npm run bench -- saga-relay
 *     npm run bench -- saga-relay nothing rabbitmq        # these alone, and no latencies
 *
 * With FENCEPOST_KAFKA_JARS (docs/guide/saga.md) Kafka, too. Database, broker and relay share this machine. `nothing`
 * confirms at once: the rate of database and relay alone. Beside each rate stands the processor time of a message, of the relay
 * and of each server: on a machine with other work the times tell more than the rates.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  createOutboxRelay,
  createSagaKit,
  enableNotify,
  type MessagePublisher,
  migrate,
  publish,
  type SagaEvent,
  wakeOnNotify,
} from '@fencepost/saga'
import { createKafkaPublisher } from '@fencepost/saga/kafka'
import { createMailboxPublisher } from '@fencepost/saga/mailbox'
import { createNatsPublisher, createNatsSubscriber } from '@fencepost/saga/nats'
import { createRabbitMqPublisher, createRabbitMqSubscriber } from '@fencepost/saga/rabbitmq'
import { createRedisStreamsPublisher } from '@fencepost/saga/redis-streams'
import { createWebhookPublisher, createWebhookReceiver } from '@fencepost/saga/webhook'
import { Admin } from '@platformatic/kafka'
import { kafkaProducer } from '../test/support/kafka-elsewhere.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { startNats } from '../test/support/nats-server.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { startRabbitMq } from '../test/support/rabbitmq-server.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { serverTimes, timesBetween } from './support/server-times.ts'

const MESSAGES = 20_000
const AGGREGATES = 2_000
const only = process.argv.slice(2).map((name) => name.toLowerCase())

await using postgres = await startPostgres()
await using rabbit = await startRabbitMq()
await using nats = await startNats()
await using redis = await startRedisServers(1, { appendOnly: true, config: ['appendfsync everysec'] })
const again = async () => ({ kind: 'again', delayMs: 0 }) as const
const none = { concurrency: 1, onError: () => {} }
for (const subscriber of [
  createRabbitMqSubscriber({ url: rabbit.url, queue: 'bench' }),
  createNatsSubscriber({
    connection: { servers: nats.url },
    stream: 'bench',
    subjects: ['bench'],
    durable: 'bench',
  }),
])
  await (await subscriber.subscribe(again, none)).close()

let schemas = 0
async function freshKit() {
  schemas += 1
  const events: SagaEvent[] = []
  const kit = createSagaKit({
    pool: postgres.pool({ max: 20 }),
    schema: `bench_${schemas}`,
    events: (event) => events.push(event),
  })
  await migrate(kit)
  return { kit, events }
}

async function throughput(
  name: string,
  publisherOf: (kit: Awaited<ReturnType<typeof freshKit>>['kit']) => MessagePublisher,
  destination = 'bench',
) {
  if (only.length > 0 && !only.some((one) => name.toLowerCase().includes(one))) return
  const { kit } = await freshKit()
  const publisher = publisherOf(kit)
  await kit.pool.query(
    `INSERT INTO ${kit.schema}.outbox (message_id, aggregate_type, aggregate_id, partition, type, destination, payload, headers)
     SELECT gen_random_uuid(), 'order', 'o' || n % $2, (n % $2) % 16, 'Placed', $3, '{"orderId":"o-12345678","amount":4711,"currency":"EUR"}', '{}'
     FROM generate_series(1, $1) n`,
    [MESSAGES, AGGREGATES, destination],
  )
  await kit.pool.query(`ANALYZE ${kit.schema}.outbox`)
  const relay = createOutboxRelay({ kit, publisher, batchSize: 500, pollIntervalMs: 5 })
  const [own, servers, beganMs] = [process.cpuUsage(), serverTimes(), performance.now()]
  let confirmed = 0
  while (confirmed < MESSAGES) confirmed += await relay.drainOnce()
  const seconds = (performance.now() - beganMs) / 1_000
  const { user, system } = process.cpuUsage(own)
  const times = `relay ${Math.round((user + system) / MESSAGES)}, ${timesBetween(servers, serverTimes(), MESSAGES)}`
  await relay.stop()
  await publisher.close()
  console.log(
    `  ${name.padEnd(34)} ${(MESSAGES / seconds).toFixed(0).padStart(8)} messages/s   CPU µs a message: ${times}`,
  )
}

async function latency(name: string, notify: boolean) {
  const { kit, events } = await freshKit()
  if (notify) await enableNotify(kit)
  const publisher = createRabbitMqPublisher({ url: rabbit.url })
  const relay = createOutboxRelay({ kit, publisher, pollIntervalMs: 100 })
  await using _ = notify
    ? await wakeOnNotify(kit, relay, { host: postgres.folder, port: postgres.port, user: 'postgres' })
    : { async [Symbol.asyncDispose]() {} }
  relay.start()
  for (let n = 0; n < 300; n += 1) {
    await kit.transaction((tx) =>
      publish(kit, tx, {
        aggregateType: 'order',
        aggregateId: `o${n}`,
        type: 'Placed',
        payload: { n },
        destination: 'bench',
      }),
    )
    await new Promise((resolve) => setTimeout(resolve, 15))
  }
  const ages = () =>
    events.flatMap((event) => (event.kind === 'published' ? [event.ageMs] : [])).sort((a, b) => a - b)
  while (ages().length < 300) await new Promise((resolve) => setTimeout(resolve, 20))
  await relay.stop()
  await publisher.close()
  const sorted = ages()
  const at = (share: number) => sorted[Math.floor(sorted.length * share)]!.toFixed(1).padStart(8)
  console.log(`  ${name.padEnd(34)} p50 ${at(0.5)} ms   p99 ${at(0.99)} ms`)
}

console.log(
  `${MESSAGES} messages of ${AGGREGATES} aggregates, one relay, confirms, order within each aggregate`,
)
await throughput('nothing', () => ({ publish: async () => {}, close: async () => {} }))
await throughput('RabbitMQ, quorum queue', () => createRabbitMqPublisher({ url: rabbit.url }))
await throughput('NATS JetStream, file', () => createNatsPublisher({ connection: { servers: nats.url } }))
await throughput('Redis Streams, appendfsync everysec', () =>
  createRedisStreamsPublisher({ url: redis.urls[0]! }),
)
await throughput('in the database', (kit) => createMailboxPublisher(kit))
const receiver = createWebhookReceiver()
await receiver.subscribe(async () => ({ kind: 'ack' }), { concurrency: 1_000, onError: console.error })
const web = createServer(receiver.listener)
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
await throughput(
  'HTTP webhook',
  () => createWebhookPublisher({}),
  `http://127.0.0.1:${(web.address() as AddressInfo).port}/`,
)
web.closeAllConnections()
web.close()
if (process.env.FENCEPOST_KAFKA_JARS !== undefined) {
  await using kafka = await startKafka()
  const admin = new Admin({ clientId: 'bench', bootstrapBrokers: [kafka.address] })
  await admin.createTopics({ topics: ['bench'], partitions: 16, replicas: 1 })
  await admin.close()
  await throughput('Kafka, one node', () => createKafkaPublisher(kafkaProducer(kafka.address)))
}
if (only.length === 0) {
  console.log('from insertion to confirm over RabbitMQ, about 60 messages/s')
  await latency('poll every 100 ms', false)
  await latency('NOTIFY, poll every 100 ms', true)
}
