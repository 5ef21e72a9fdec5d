/**
 * Places an order once, and handles its event once, on PostgreSQL alone. Run it twice with the same order: the second
 * run finds the order placed and sends no event.
 *
 *     DATABASE_URL=postgres://… node scripts/run.mjs examples/quickstart/place-order.ts order-42
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  createConsumer,
  createOutboxRelay,
  createSagaKit,
  migrate,
  publish,
  withIdempotency,
} from '@fencepost/saga'
import { createMailboxPublisher, createMailboxSubscriber } from '@fencepost/saga/mailbox'
import pg from 'pg'

const [order = 'order-42'] = process.argv.slice(2)
const amount = 1200
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '' })
const kit = createSagaKit({ pool })
await migrate(kit)
await pool.query('CREATE TABLE IF NOT EXISTS placed_order (id text PRIMARY KEY, amount integer NOT NULL)')

// The key, the row, the event and the result are one transaction.
const { replayed, result } = await withIdempotency(
  kit,
  { scope: 'place-order', key: order, request: { amount } },
  async (tx) => {
    await tx.query('INSERT INTO placed_order VALUES ($1, $2)', [order, amount])
    const event = { aggregateType: 'order', aggregateId: order, type: 'OrderPlaced', payload: { amount } }
    await publish(kit, tx, { ...event, destination: 'invoices' })
    return { order, amount }
  },
)
console.log(replayed ? 'placed before:' : 'placed now:', result)

// A consumer handles each event once, however often it is delivered. Here delivery stays inside the database.
const handled = Promise.withResolvers<void>()
const consumer = await createConsumer({
  kit,
  subscriber: createMailboxSubscriber({ kit, queue: 'invoices' }),
  consumerId: 'invoices',
  handlers: {
    OrderPlaced: async (_tx, { aggregateId }) => {
      console.log('invoice for:', aggregateId)
      handled.resolve()
    },
  },
})
const relay = createOutboxRelay({ kit, publisher: createMailboxPublisher(kit) })
relay.start()
await Promise.race([handled.promise, pause(3_000)])
await relay.stop()
await consumer.stop()
await pool.end()
