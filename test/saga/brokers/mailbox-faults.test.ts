// What only the mailbox can do wrong, on a real PostgreSQL.
import { queryObjects } from 'node:v8'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createMailboxPublisher,
  createMailboxSubscriber,
} from '../../../packages/saga/src/brokers/mailbox.ts'
import type { SagaKit } from '../../../packages/saga/src/kit.ts'
import { eventually } from '../../support/eventually.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'
import { testKit } from '../../support/saga-kit.ts'
import { outbound } from './conformance.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server[Symbol.asyncDispose]())
const never = new AbortController().signal

test('a poll leaves nothing behind, also while a handler takes its time', async () => {
  const kit = await testKit(server, { housekeeping: false })
  let polls = 0
  const counted: SagaKit = {
    ...kit,
    query: (text, values) => {
      polls += 1
      return kit.query(text, values)
    },
  }
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const subscriber = createMailboxSubscriber({ kit: counted, queue: 'orders', pollIntervalMs: 1 })
  const subscription = await subscriber.subscribe(
    async () => {
      entered.resolve()
      await go.promise
      return { kind: 'ack' }
    },
    { concurrency: 10, onError: () => {} },
  )
  const pollsMore = async (count: number) => {
    const target = polls + count
    await eventually(`${count} polls`, () => polls >= target)
  }
  try {
    await createMailboxPublisher(kit).publish(outbound('orders', 1), never)
    await entered.promise
    await pollsMore(100)
    const before = queryObjects(Promise, { format: 'count' })
    await pollsMore(1_000)
    // There were several for each poll: races with the end of the subscription and with that of the handler.
    expect(queryObjects(Promise, { format: 'count' }) - before).toBeLessThan(200)
  } finally {
    go.resolve()
    await subscription.close()
  }
})
