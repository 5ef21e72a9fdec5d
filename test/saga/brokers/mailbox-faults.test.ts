// What only the mailbox can do wrong, on a real PostgreSQL.
import { join } from 'node:path'
import { queryObjects } from 'node:v8'
import { expect, test } from 'vitest'
import {
  createMailboxPublisher,
  createMailboxSubscriber,
} from '../../../packages/saga/src/brokers/mailbox.ts'
import { BrokerUnavailableError } from '../../../packages/saga/src/errors.ts'
import type { SagaKit } from '../../../packages/saga/src/kit.ts'
import { closing } from '../../support/closing.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { TestProcess } from '../../support/processes.ts'
import { testKit } from '../../support/saga-kit.ts'
import { outbound } from './conformance.ts'

const server = duringTests(() => startPostgres())
const never = new AbortController().signal

// Bug: each was a refusal of the message, and ten of them a dead letter.
test('a full disk and a session that says nothing are no fault of a message: they cost it no attempt', async () => {
  const kit = await testKit(server, { pool: server.pool({ query_timeout: 300 }), housekeeping: false })
  const put = () => createMailboxPublisher(kit).publish(outbound('orders', 1), never)
  await kit.pool.query(`CREATE FUNCTION ${kit.schema}.full() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END $$`)
  await kit.pool.query(
    `CREATE TRIGGER full_disk BEFORE INSERT ON ${kit.schema}.mailbox EXECUTE FUNCTION ${kit.schema}.full()`,
  )
  await expect(put()).rejects.toBeInstanceOf(BrokerUnavailableError)
  await kit.pool.query(`DROP TRIGGER full_disk ON ${kit.schema}.mailbox`)
  const { rows } = await kit.pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  process.kill(rows[0]!.pid, 'SIGSTOP')
  try {
    await expect(put()).rejects.toBeInstanceOf(BrokerUnavailableError)
    await put()
  } finally {
    process.kill(rows[0]!.pid, 'SIGCONT')
  }
})

test('the only consumer is killed in a handler: what is behind its message waits, and other aggregates go on', async () => {
  const kit = await testKit(server, { housekeeping: false })
  const visibilityMs = 3_000
  const options = { url: server.url, schema: kit.schemaName, queue: 'orders', visibilityMs }
  const publisher = createMailboxPublisher(kit)
  const put = (n: number, aggregateId: string) =>
    publisher.publish(outbound('orders', n, { aggregateId }), never)
  await using victim = new TestProcess(process.execPath, [
    'test/support/hanging-consumer.ts',
    join(import.meta.dirname, '../../support/mailbox-elsewhere.ts'),
    'createMailboxSubscriberFor',
    JSON.stringify(options),
  ])
  await put(1, 'one')
  await victim.line(/took/)
  await victim.end({ signal: 'SIGKILL' })
  for (const n of [2, 3, 4]) await put(n, 'one')
  await put(5, 'other')
  const got: number[] = []
  const subscriber = createMailboxSubscriber({ kit, queue: 'orders', pollIntervalMs: 10, visibilityMs })
  // One at a time: the message that becomes visible again must not wait for a place behind later ones.
  await using _subscription = closing(
    await subscriber.subscribe(
      async ({ body }) => {
        got.push(JSON.parse(String(body)).n)
        return { kind: 'ack' }
      },
      { concurrency: 1, onError: () => {} },
    ),
  )
  await eventually('all messages', () => got.length === 5)
  expect(got).toEqual([5, 1, 2, 3, 4])
})

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
    await pollsMore(300)
    // There were several for each poll: races with the end of the subscription and with that of the handler.
    expect(queryObjects(Promise, { format: 'count' }) - before).toBeLessThan(200)
  } finally {
    go.resolve()
    await subscription.close()
  }
})
