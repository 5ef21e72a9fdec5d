// A `Tx` that the application has made itself, over a library for which the kit has no function.
import {
  assertFence,
  createSagaRunner,
  defineSaga,
  type InboxTransaction,
  NonRetryableError,
  publish,
  SagaConfigError,
  type Tx,
  withIdempotency,
} from '@fencepost/saga'
import { beforeAll, expect, test } from 'vitest'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})

type Query = Tx['query']

/** A transaction on one connection, whose `query` the application makes of that of `pg`. */
const transactionWith =
  (made: (query: Query) => unknown): InboxTransaction =>
  async (work) => {
    const client = await kit.pool.connect()
    try {
      await client.query('BEGIN')
      const query = made((text, values) => client.query(text, values))
      const result = await work({ query } as Tx, undefined)
      await client.query('COMMIT')
      return result
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    } finally {
      client.release()
    }
  }

/** As most libraries answer: `{ rows: await sql.unsafe(text, values) }`. */
const withRowsAlone = transactionWith((query) => async (text: string, values?: unknown[]) => ({
  rows: (await query(text, values)).rows,
}))

/** As postgres.js sends values: by the types that the server names for the parameters, so JSON of whatever is for a JSON column. */
const encodedByType = transactionWith((query) => async (text: string, values: unknown[] = []) => {
  if (values.length === 0) return query(text)
  await query(`PREPARE probe AS ${text}`)
  const named = await query<{ types: string[] }>(
    `SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 'probe'`,
  )
  await query('DEALLOCATE probe')
  const sent = values.map((value, index) =>
    /^jsonb?$/.test(named.rows[0]!.types[index] ?? '') && value !== null ? JSON.stringify(value) : value,
  )
  return query(text, sent)
})

const message = (messageId: string, body = '{}') => ({
  messageId,
  type: 'T',
  aggregateType: 'o',
  aggregateId: messageId,
  body,
  headers: {},
  createdAt: new Date(0).toISOString(),
  redelivered: false,
})

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
  const verdict = await inbox.receive(message('m'))
  expect(verdict).toMatchObject({ kind: 'again' })
  expect(kit.seenOf('consumed').at(-1)?.error).toBeInstanceOf(SagaConfigError)
  expect(runs).toBe(0)
})

// Bug: what is JSON was sent as it is, and such a library made JSON of it once more. A consumer got the text of its payload instead
// of the payload, and a duplicate the text of the result.
test('what is JSON arrives as it is, also where a library encodes values by the types of their parameters', async () => {
  const order = { scope: 'json', key: 'k', request: {} }
  const place = () =>
    encodedByType((tx) =>
      withIdempotency(kit, { ...order, tx }, async (inner) => {
        const headers = { tenant: 'a' }
        const event = { aggregateType: 'json', aggregateId: '1', type: 'T', payload: { n: 1 }, headers }
        await publish(kit, inner, event)
        await runner().begin(inner, 's', { sagaId: 'json', input: { n: 1 } })
        return { n: 1 }
      }),
    )
  const results = [await place(), await place()].map(({ result }) => result)
  expect(results).toEqual([{ n: 1 }, { n: 1 }])
  const { rows } = await kit.pool.query(
    `SELECT payload::text, headers ->> 'tenant' AS tenant FROM ${kit.schema}.outbox WHERE aggregate_type = 'json'`,
  )
  expect(rows).toEqual([{ payload: '{"n":1}', tenant: 'a' }])
  const begun = await kit.pool.query(
    `SELECT input::text, jsonb_typeof(headers) AS headers FROM ${kit.schema}.saga_instances WHERE saga_id = 'json'`,
  )
  expect(begun.rows).toEqual([{ input: '{"n":1}', headers: 'object' }])
})

test('so do the result that a consumer keeps, and the dead letter of what is behind another', async () => {
  const answers: unknown[] = []
  const inbox = new Inbox({
    kit,
    consumerId: 'json',
    orderingKey: () => 'one',
    handlers: {
      T: async (_tx, { payload }) => {
        if ((payload as { dead?: boolean }).dead) throw new NonRetryableError('no')
        return { n: 1 }
      },
    },
    onProcessed: async (_, { result }) => answers.push(result),
    transaction: encodedByType,
  })
  const handled = message('j1')
  for (const one of [handled, handled, message('j2', '{"dead":true}'), message('j3', '{"n":3}')])
    expect(await inbox.receive(one)).toEqual({ kind: 'ack' })
  expect(answers).toEqual([{ n: 1 }, { n: 1 }])
  const { rows } = await kit.pool.query(
    `SELECT error_code, payload::text, jsonb_typeof(headers) AS headers FROM ${kit.schema}.dead_letters
     WHERE consumer_id = 'json' AND message_id = 'j3'`,
  )
  expect(rows).toEqual([{ error_code: 'behind', payload: '{"n":3}', headers: 'object' }])
})
