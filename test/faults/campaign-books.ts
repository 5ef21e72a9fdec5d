/** A campaign of the order saga as a test: the books balance, and there was something to balance. */
import { expect } from 'vitest'
import { runCampaign } from '../../examples/order-saga/campaign.ts'
import { seedOfRun } from '../support/seeded-random.ts'

export async function booksBalance(orders: number, placeMs: number): Promise<void> {
  const { books, kills } = await runCampaign({
    orders,
    placeMs,
    broker: 'rabbitmq',
    seed: seedOfRun('saga campaign'),
    moods: { decline: 0.05, failBefore: 0.05, failAfter: 0.1, late: 0.01, hang: 0.01 },
    first: ['worker', 'backend'],
    victims: { worker: 50, connection: 15, backend: 25, database: 5, broker: 5 },
    killEveryMs: 600,
    settleMs: 90_000,
    say: () => {},
  })
  expect(books.faults).toEqual([])
  const { completed = 0, failed = 0 } = books.orders
  expect(completed + failed).toBe(orders)
  // A run without a kill or a refund shows nothing.
  expect(kills.worker).toBeGreaterThan(0)
  expect(kills.connection + kills.backend).toBeGreaterThan(0)
  expect(books.refunded).toBeGreaterThan(0)
}
