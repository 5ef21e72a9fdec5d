/**
 * A mailbox subscriber from options that JSON can carry, for a process of its own.
 */
import pg from 'pg'
import { createMailboxSubscriber } from '../../src/saga/brokers/mailbox.ts'
import { createSagaKit } from '../../src/saga/kit.ts'

export function createMailboxSubscriberFor(options: {
  url: string
  schema: string
  queue: string
  visibilityMs: number
}) {
  const kit = createSagaKit({ pool: new pg.Pool({ connectionString: options.url }), schema: options.schema })
  return createMailboxSubscriber({
    kit,
    queue: options.queue,
    visibilityMs: options.visibilityMs,
    pollIntervalMs: 10,
  })
}
