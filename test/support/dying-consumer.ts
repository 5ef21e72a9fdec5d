/**
 * A consumer in a process of its own. A message of type `Poison` kills the process while it is handled; others take
 * longer than that, so they die with it wherever they are in progress beside it.
 * Usage: node dying-consumer.ts <url> <schema>
 */
import { setTimeout as work } from 'node:timers/promises'
import { createConsumer, createSagaKit } from '@fencepost/saga'
import { createMailboxSubscriber } from '@fencepost/saga/mailbox'
import pg from 'pg'

const [connectionString, schema] = process.argv.slice(2)
const kit = createSagaKit({
  pool: new pg.Pool({ connectionString: connectionString! }),
  schema: schema!,
  housekeeping: false,
})
await createConsumer({
  kit,
  consumerId: 'test',
  subscriber: createMailboxSubscriber({ kit, queue: 'orders', visibilityMs: 300, pollIntervalMs: 10 }),
  handlers: {
    Poison: async () => {
      await work(50)
      process.kill(process.pid, 'SIGKILL')
    },
    Good: async () => {
      await work(200)
    },
  },
})
