/** What somebody writes who has installed @fencepost/saga and pg a minute ago. */
import { createSagaKit, migrate, withIdempotency } from '@fencepost/saga'
import pg from 'pg'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '' })
const kit = createSagaKit({ pool })
await migrate(kit)
const order = { orderId: `order-${process.versions.node}`, amount: 1200 }
const place = () =>
  withIdempotency(kit, { scope: 'place-order', key: order.orderId, request: order }, async (tx) => {
    await tx.query('SELECT 1')
    return { orderId: order.orderId }
  })
for (const { replayed } of [await place(), await place()]) console.log(replayed ? 'before' : 'now')
await pool.end()
