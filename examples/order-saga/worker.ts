/**
 * One process of the services, to be killed at any time: `node worker.ts <role> <settings>`.
 *
 *     relay    carries the outbox to the broker
 *     orders   begins a saga for each order that was placed, and drives sagas
 *     ledger   writes down how each order ended
 */

import {
  createConsumer,
  createOutboxRelay,
  createSagaKit,
  createSagaRunner,
  type Handlers,
  type MessagePublisher,
  type MessageSubscriber,
  NonRetryableError,
} from '@fencepost/saga'
import { createMailboxPublisher, createMailboxSubscriber } from '@fencepost/saga/mailbox'
import { createRabbitMqPublisher, createRabbitMqSubscriber } from '@fencepost/saga/rabbitmq'
import pg from 'pg'
import { orderSaga } from './order-saga.ts'
import type { Role, WorkerSettings } from './settings.ts'

const [role, text] = process.argv.slice(2) as [Role, string]
const { databaseUrl, providerUrl, rabbitMqUrl }: WorkerSettings = JSON.parse(text)

const pool = new pg.Pool({ connectionString: databaseUrl, max: 12, connectionTimeoutMillis: 5_000 })
const kit = createSagaKit({ pool })

const publisher = (): MessagePublisher =>
  rabbitMqUrl === undefined ? createMailboxPublisher(kit) : createRabbitMqPublisher({ url: rabbitMqUrl })
const subscriber = (queue: string): MessageSubscriber =>
  rabbitMqUrl === undefined
    ? createMailboxSubscriber({ kit, queue, pollIntervalMs: 20, visibilityMs: 2_000 })
    : createRabbitMqSubscriber({ url: rabbitMqUrl, queue })
// Faults are this example's subject: no message is given up before the run is over.
const retry = { maxAttempts: 1_000, backoff: { initialMs: 50, maxMs: 1_000 } }

switch (role) {
  case 'relay':
    createOutboxRelay({
      kit,
      publisher: publisher(),
      leaseMs: 2_000,
      pollIntervalMs: 20,
      publishTimeoutMs: 3_000,
      retry,
    }).start()
    break
  case 'orders': {
    const runner = createSagaRunner({
      kit,
      definitions: [orderSaga(kit, providerUrl)],
      concurrency: 20,
      pollIntervalMs: 20,
      marginMs: 1_000,
      backoff: { initialMs: 50, maxMs: 1_000 },
    })
    await consume('orders', {
      OrderPlaced: async (tx, { aggregateId, payload }) =>
        runner.begin(tx, 'order', { sagaId: aggregateId, input: payload }),
    })
    runner.start()
    break
  }
  case 'ledger':
    await consume('ledger', {
      OrderCompleted: (tx, { payload }) =>
        note(tx, 'completed', payload as { orderId: string; amount: number }),
      OrderFailed: (tx, { payload }) =>
        note(tx, 'failed', { amount: 0, ...(payload as { orderId: string }) }),
    })
    break
}
console.log(`${role} ready`)

/** The broker may be away when we begin, as at any other time. */
async function consume(queue: string, handlers: Handlers): Promise<void> {
  for (;;)
    try {
      await createConsumer({
        kit,
        subscriber: subscriber(queue),
        consumerId: queue,
        handlers,
        retry,
        concurrency: 20,
      })
      return
    } catch (error) {
      if (error instanceof NonRetryableError) throw error
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
}

async function note(
  tx: { query(text: string, values: unknown[]): Promise<unknown> },
  entry: string,
  { orderId, amount }: { orderId: string; amount: number },
): Promise<void> {
  await tx.query('INSERT INTO ledger (order_id, entry, amount) VALUES ($1, $2, $3)', [orderId, entry, amount])
}
