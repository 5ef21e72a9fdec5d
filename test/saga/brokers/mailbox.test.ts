// Delivery inside the database conforms to what brokers do.
import {
  createMailboxPublisher,
  createMailboxSubscriber,
} from '../../../packages/saga/src/brokers/mailbox.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { testKit } from '../../support/saga-kit.ts'
import { brokerConformance, VISIBILITY_MS } from './conformance.ts'

brokerConformance(async () => {
  const server = await startPostgres()
  const kit = await testKit(server)
  return {
    publisher: createMailboxPublisher(kit),
    freshPublisher: () => createMailboxPublisher(kit),
    channel: async (name) => ({
      destination: name,
      subscriber: createMailboxSubscriber({
        kit,
        queue: name,
        pollIntervalMs: 10,
        visibilityMs: VISIBILITY_MS,
      }),
      elsewhere: {
        module: `${import.meta.dirname}/../../support/mailbox-elsewhere.ts`,
        factory: 'createMailboxSubscriberFor',
        options: { url: server.url, schema: kit.schemaName, queue: name, visibilityMs: VISIBILITY_MS },
      },
    }),
    sendForeign: async (queue, { headers, contentType, body }) => {
      const properties = contentType === undefined ? headers : { ...headers, 'content-type': contentType }
      await kit.pool.query(
        `INSERT INTO ${kit.schema}.mailbox (queue, message_id, body, properties) VALUES ($1, $2, $3, $4)`,
        [queue, 'from another system', body, properties],
      )
    },
    kill: () => server.kill(),
    start: () => server.start(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
})
