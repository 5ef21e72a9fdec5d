// A `Tx` that the application has made itself, over a library for which the kit has no function.
import {
  assertFence,
  createSagaRunner,
  defineSaga,
  type InboxTransaction,
  publish,
  SagaConfigError,
  type Tx,
  withIdempotency,
} from '@fencepost/saga'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let server: PostgresServer
let kit: TestKit
beforeAll(async () => {
  server = await startPostgres()
  kit = await testKit(server)
})
afterAll(() => server[Symbol.asyncDispose]())

/** Rows alone, as most libraries answer with: `{ rows: await sql.unsafe(text, values) }`. */
const withRowsAlone: InboxTransaction = async (work) => {
  const client = await kit.pool.connect()
  try {
    await client.query('BEGIN')
    const query = async (text: string, values?: unknown[]) => ({
      rows: (await client.query(text, values)).rows,
    })
    const result = await work({ query } as unknown as Tx, undefined)
    await client.query('COMMIT')
    return result
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

const runner = () =>
  createSagaRunner({ kit, definitions: [defineSaga('s').step({ name: 'a', effect: async () => 1 })] })

// Bug: no number of rows was taken for none. `withIdempotency` said that the work was done before, committed its key and never
// ran it; a consumer acknowledged its messages without their handler; and `publish` outside a transaction wrote nothing, and
// returned an id.
test.each<[call: string, (tx: Tx) => Promise<unknown>, table: string]>([
  [
    'withIdempotency',
    (tx) => withIdempotency(kit, { scope: 's', key: 'k', request: {}, tx }, async () => 1),
    'idempotency_keys',
  ],
  [
    'publish',
    (tx) => publish(kit, tx, { aggregateType: 'o', aggregateId: '1', type: 'T', payload: {} }),
    'outbox',
  ],
  ['runner.begin', (tx) => runner().begin(tx, 's', { sagaId: 'one', input: {} }), 'saga_instances'],
  ['assertFence', (tx) => assertFence(kit, tx, { resource: 'r', fencingToken: 1 }), 'fences'],
])('%s refuses a transaction that does not say how many rows were written', async (_, call, table) => {
  const refused = withRowsAlone((tx) => call(tx))
  await expect(refused).rejects.toBeInstanceOf(SagaConfigError)
  await expect(refused).rejects.toThrow(/rowCount undefined/)
  expect(await countOf(kit, table)).toBe(0)
})

test('a consumer acknowledges no message in a transaction that does not say how many rows were written', async () => {
  let runs = 0
  const handlers = { T: async () => (runs += 1) }
  const inbox = new Inbox({ kit, consumerId: 'c', handlers, transaction: withRowsAlone, retryInPlaceMs: 0 })
  const verdict = await inbox.receive({
    messageId: 'm',
    type: 'T',
    aggregateType: 'o',
    aggregateId: '1',
    body: '{}',
    headers: {},
    createdAt: new Date(0).toISOString(),
    redelivered: false,
  })
  expect(verdict).toMatchObject({ kind: 'again' })
  expect(kit.seenOf('consumed').at(-1)?.error).toBeInstanceOf(SagaConfigError)
  expect(runs).toBe(0)
})
