/**
 * One process of one service, to be killed at any time: `node worker.ts <settings>`. It handles the messages of
 * its service, sends what its service has published, and undoes what an operator wants undone.
 */
import {
  createConsumer,
  createOutboxRelay,
  createSagaKit,
  createSagaRunner,
  type Handlers,
  NonRetryableError,
  type SagaPart,
} from '@fencepost/saga'
import { createRabbitMqPublisher, createRabbitMqSubscriber } from '@fencepost/saga/rabbitmq'
import pg from 'pg'
import { ordersHandlers, ordersPart } from './orders.ts'
import { payments } from './payments.ts'
import { stock } from './stock.ts'
import type { WorkerSettings } from './worker-settings.ts'

const { service, databaseUrl, rabbitMqUrl, providerUrl }: WorkerSettings = JSON.parse(process.argv[2]!)

const pool = new pg.Pool({ connectionString: databaseUrl, max: 14, connectionTimeoutMillis: 5_000 })
const kit = createSagaKit({ pool })
// Faults are this example's subject: no message is given up before the run is over.
const retry = { maxAttempts: 1_000, backoff: { initialMs: 50, maxMs: 1_000 } }

const { part, handlers } = duties()
createOutboxRelay({
  kit,
  publisher: createRabbitMqPublisher({ url: rabbitMqUrl }),
  leaseMs: 2_000,
  pollIntervalMs: 50,
  publishTimeoutMs: 3_000,
  retry,
}).start()
createSagaRunner({ kit, definitions: [], parts: [part], pollIntervalMs: 1_000 }).start()
await consume()
console.log(`${service} ready`)

function duties(): { readonly part: SagaPart; readonly handlers: Handlers } {
  switch (service) {
    case 'orders':
      return { part: ordersPart(), handlers: ordersHandlers(kit) as Handlers }
    case 'payments':
      return payments(kit, providerUrl) as { part: SagaPart; handlers: Handlers }
    case 'stock':
      return stock(kit) as { part: SagaPart; handlers: Handlers }
  }
}

/** The broker may be away when we begin, as at any other time. */
async function consume(): Promise<void> {
  for (;;)
    try {
      await createConsumer({
        kit,
        subscriber: createRabbitMqSubscriber({ url: rabbitMqUrl, queue: service }),
        consumerId: service,
        handlers,
        retry,
        concurrency: 10,
      })
      return
    } catch (error) {
      if (error instanceof NonRetryableError) throw error
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
}
