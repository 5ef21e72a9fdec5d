/**
 * From the transaction that writes an event to the one that handles it, over any broker.
 */
import { expect } from 'vitest'
import { createConsumer } from '../../../packages/saga/src/consumer.ts'
import type { MessagePublisher, MessageSubscriber } from '../../../packages/saga/src/messages.ts'
import { publish } from '../../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../../packages/saga/src/relay.ts'
import { eventually } from '../../support/eventually.ts'
import type { PostgresServer } from '../../support/postgres-server.ts'
import { countOf, orderEvent, testKit } from '../../support/saga-kit.ts'

/**
 * 200 events of 10 aggregates; every seventh is failed once by its handler. All are handled once, each aggregate in
 * order.
 */
export async function outboxToConsumer(
  server: PostgresServer,
  publisher: MessagePublisher,
  channel: { readonly destination: string; readonly subscriber: MessageSubscriber },
): Promise<void> {
  const kit = await testKit(server)
  await kit.pool.query('CREATE TABLE handled (at bigserial, aggregate text, n int)')
  const failed = new Set<number>()
  const handler = async (
    tx: { query(text: string, values: unknown[]): Promise<unknown> },
    message: { aggregateId: string; payload: unknown },
  ) => {
    const { n } = message.payload as { n: number }
    await tx.query('INSERT INTO handled (aggregate, n) VALUES ($1, $2)', [message.aggregateId, n])
    if (n % 7 === 0 && !failed.has(n)) {
      failed.add(n)
      throw new Error('not the first time')
    }
  }
  await using _consumer = await createConsumer({
    kit,
    subscriber: channel.subscriber,
    consumerId: 'end-to-end',
    handlers: { Numbered: handler },
    retry: { maxAttempts: 5, backoff: { initialMs: 20, maxMs: 100 } },
  })
  await using relay = createOutboxRelay({
    kit,
    publisher,
    pollIntervalMs: 10,
    retry: { maxAttempts: 100, backoff: { initialMs: 10, maxMs: 100 } },
  })
  relay.start()
  await kit.transaction(async (tx) => {
    for (let n = 0; n < 200; n += 1)
      await publish(
        kit,
        tx,
        orderEvent('Numbered', `a${n % 10}`, { payload: { n }, destination: channel.destination }),
      )
  })
  await eventually(
    'everything handled',
    async () => (await countOf(kit, `inbox WHERE status = 'processed'`)) === 200,
    { withinMs: 60_000, everyMs: 50 },
  )
  const { rows } = await kit.pool.query('SELECT aggregate, n FROM handled ORDER BY at')
  expect(rows).toHaveLength(200)
  for (let index = 0; index < 10; index += 1) {
    const numbers = rows.filter(({ aggregate }) => aggregate === `a${index}`).map(({ n }) => n)
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
  }
  // The last message is handled before its broker confirms it, and deleted after that.
  await eventually('the outbox to be empty', async () => (await countOf(kit, 'outbox')) === 0)
  expect(await countOf(kit, 'dead_letters')).toBe(0)
}
