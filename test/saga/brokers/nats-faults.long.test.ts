// Three servers of NATS: a stream without a leader looks to a publisher as a subject without a stream does.
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createNatsPublisher } from '../../../packages/saga/src/brokers/nats.ts'
import {
  BrokerUnavailableError,
  PublishDeferredError,
  PublishRefusedError,
} from '../../../packages/saga/src/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { type NatsCluster, startNatsCluster } from '../../support/nats-server.ts'
import { outbound } from './conformance.ts'

const patience = { withinMs: 60_000, everyMs: 100 }

let cluster: NatsCluster
let admin: NatsConnection
const urls = () => cluster.servers.map(({ url }) => url)
beforeAll(async () => {
  cluster = await startNatsCluster()
  admin = await connect({ servers: urls(), maxReconnectAttempts: -1, reconnectTimeWait: 100 })
})
afterAll(async () => {
  await admin?.close()
  await cluster?.[Symbol.asyncDispose]()
})

const succeeds = (promise: Promise<unknown>) =>
  promise.then(
    () => true,
    () => false,
  )

async function addStream(name: string, replicas: number): Promise<void> {
  await eventually(
    `the stream ${name}`,
    async () => {
      const manager = await jetstreamManager(admin, { timeout: 2_000 })
      await manager.streams.add({ name, subjects: [name], num_replicas: replicas })
      return true
    },
    patience,
  )
}

const leaderOf = async (name: string) => {
  const manager = await jetstreamManager(admin)
  const { cluster } = await manager.streams.info(name)
  return cluster?.leader
}

// Bug: each try cost an attempt, and after some minutes without a leader every message was a dead letter.
test('a stream without a leader refuses no message, and others go on; without a majority JetStream is away', async () => {
  await addStream('everywhere', 3)
  await addStream('single', 1)
  const leader = await leaderOf('single')
  const holder = cluster.servers.find(({ name }) => name === leader)!
  const others = cluster.servers.filter((server) => server !== holder)
  const publisher = createNatsPublisher({
    connection: { servers: others.map(({ url }) => url) },
    timeoutMs: 1_000,
  })
  const seen: unknown[] = []
  let n = 0
  const send = (subject: string) => publisher.publish(outbound(subject, ++n), new AbortController().signal)
  const failure = async (subject: string) => {
    const error = await send(subject).catch((thrown: unknown) => thrown)
    seen.push(error)
    return error
  }
  try {
    await eventually(
      'a message to each',
      async () => {
        await send('single')
        await send('everywhere')
        return true
      },
      patience,
    )
    await holder.kill()
    await eventually(
      'the stream to be without a leader',
      async () => {
        const error = await failure('single')
        return (
          error instanceof PublishDeferredError && /has no leader, or no majority, now/.test(error.message)
        )
      },
      patience,
    )
    await eventually('the other stream', () => succeeds(send('everywhere')), patience)
    // One that has no stream is refused all the same.
    await expect(send('nowhere')).rejects.toThrow('no stream takes the subject nowhere')

    await others[0]!.kill()
    await eventually(
      'JetStream to be away',
      async () => {
        const error = await failure('everywhere')
        return error instanceof BrokerUnavailableError && /JetStream did not answer/.test(error.message)
      },
      patience,
    )
    expect(seen.filter((error) => error instanceof PublishRefusedError)).toEqual([])
    await others[0]!.start()
    await holder.start()
    await eventually(
      'both streams again',
      async () => {
        await send('single')
        await send('everywhere')
        return true
      },
      patience,
    )
  } finally {
    await publisher.close()
  }
}, 240_000)
