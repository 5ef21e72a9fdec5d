/**
 * A mailbox subscriber from options that JSON can carry, for a process of its own.
 */

import { createSagaKit } from '@fencepost/saga'
import { createMailboxSubscriber } from '@fencepost/saga/mailbox'
import pg from 'pg'

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
