// The NATS JetStream adapter, on a real server.
import { jetstream } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { createNatsPublisher, createNatsSubscriber } from '../../../packages/saga/src/brokers/nats.ts'
import { startNats } from '../../support/nats-server.ts'
import { brokerConformance, VISIBILITY_MS } from './conformance.ts'

brokerConformance(
  async () => {
    const server = await startNats()
    const connection = { servers: server.url }
    const publisher = createNatsPublisher({ connection, timeoutMs: 2_000 })
    const send = async (subject: string, body: string | Uint8Array, fields: Record<string, string>) => {
      const client = await connect(connection)
      const sent = headers()
      for (const [name, value] of Object.entries(fields)) sent.set(name, value)
      await jetstream(client).publish(subject, body, { headers: sent })
      await client.close()
    }
    return {
      publisher,
      freshPublisher: () => createNatsPublisher({ connection, timeoutMs: 2_000 }),
      sendForeign: (subject, { headers: fields, contentType, body }) =>
        send(subject, body, contentType === undefined ? fields : { ...fields, 'content-type': contentType }),
      sendBytes: (subject, fields, body) => send(subject, body, fields),
      nowhere: 'no.such.subject',
      channel: async (name) => {
        const options = {
          connection,
          stream: `s-${name}`,
          subjects: [`t.${name}`],
          durable: 'test',
          ackWaitMs: VISIBILITY_MS,
        }
        const subscriber = createNatsSubscriber(options)
        const first = await subscriber.subscribe(async () => ({ kind: 'again', delayMs: 0 }), {
          concurrency: 1,
          onError: () => {},
        })
        await first.close()
        return {
          destination: `t.${name}`,
          subscriber,
          elsewhere: {
            module: `${import.meta.dirname}/../../../packages/saga/src/brokers/nats.ts`,
            factory: 'createNatsSubscriber',
            options,
          },
        }
      },
      kill: () => server.kill(),
      start: () => server.start(),
      async [Symbol.asyncDispose]() {
        await publisher.close()
        await server[Symbol.asyncDispose]()
      },
    }
  },
  { carriesBytes: true },
)
