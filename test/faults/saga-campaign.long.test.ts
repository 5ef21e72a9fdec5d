// Orders are placed over RabbitMQ while workers, connections, backends, databases and the broker are killed: no order is lost, no
// customer is charged twice, and the books balance. Longer still: `npm run campaign -- order-saga --broker rabbitmq`, and
// `npm run campaign -- checkout`.
import { expect, test } from 'vitest'
import { runCheckout } from '../../examples/checkout/campaign.ts'
import { seedOfRun } from '../support/seeded-random.ts'
import { booksBalance } from './campaign-books.ts'

test('300 orders under random kills: the books balance', () => booksBalance(300, 10_000), 240_000)

test('200 orders of three services without an orchestrator, under random kills: the books balance, and every saga has one end', async () => {
  const { books, kills } = await runCheckout({
    orders: 200,
    placeMs: 8_000,
    seed: seedOfRun('checkout'),
    moods: { decline: 0.05, failBefore: 0.05, failAfter: 0.1, late: 0.01, hang: 0.01 },
    first: ['worker', 'backend', 'worker'],
    victims: { worker: 60, connection: 15, backend: 15, database: 5, broker: 5 },
    killEveryMs: 800,
    settleMs: 120_000,
    say: () => {},
  })
  expect(books.faults).toEqual([])
  const { completed = 0, failed = 0 } = books.orders
  expect(completed + failed).toBe(200)
  expect(Object.values(books.sagas).reduce((sum, count) => sum + count, 0)).toBe(200)
  // A run without a kill or a refund shows nothing.
  expect(kills.worker).toBeGreaterThan(0)
  expect(kills.connection + kills.backend).toBeGreaterThan(0)
  expect(books.refunded).toBeGreaterThan(0)
}, 300_000)
