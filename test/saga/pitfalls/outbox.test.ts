// Pitfalls 13 to 16 and 21: the outbox. Each first as it is usually written, then as the kit does it.
import pg from 'pg'
import { beforeEach, describe, expect, test } from 'vitest'
import { Inbox } from '../../../packages/saga/src/inbox.ts'
import { publish } from '../../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../../packages/saga/src/relay.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { type Reaction, RecordingPublisher } from '../../support/recording-publisher.ts'
import { recordSpans } from '../../support/recording-tracer.ts'
import { countOf, type TestKit, testKit } from '../../support/saga-kit.ts'

let kit: TestKit
let publisher: RecordingPublisher
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
  publisher = new RecordingPublisher()
  await kit.pool.query('DROP TABLE IF EXISTS events')
  await kit.pool.query(
    'CREATE TABLE events (id bigserial PRIMARY KEY, aggregate int, n int, created_at timestamptz DEFAULT now(), sent boolean DEFAULT false)',
  )
})
const event = (aggregateId: string, n: number) => ({
  aggregateType: 'a',
  aggregateId,
  type: 'T',
  payload: { n },
})
const fill = (count: number, aggregates: number) =>
  kit.transaction(async (tx) => {
    for (let n = 0; n < count; n += 1)
      await publish(kit, tx, event(`a${n % aggregates}`, Math.floor(n / aggregates)))
  })
const fillUsual = (count: number, aggregates: number) =>
  kit.pool.query(
    'INSERT INTO events (aggregate, n) SELECT g % $2, g / $2 FROM generate_series(0, $1 - 1) g',
    [count, aggregates],
  )
const relay = () => createOutboxRelay({ kit, publisher, pollIntervalMs: 5 })
const empty = () =>
  eventually('an empty outbox', async () => (await countOf(kit, 'outbox')) === 0, { withinMs: 20_000 })

describe('13 · order by now(), and a cursor that only looks ahead', () => {
  test('usual: a thousand rows of one transaction have one instant', async () => {
    await fillUsual(1_000, 1)
    expect((await kit.pool.query('SELECT count(DISTINCT created_at)::int AS n FROM events')).rows[0].n).toBe(
      1,
    )
  })
  test('usual: a row with a lower id that commits later is behind the cursor for ever', async () => {
    const slow = await kit.pool.connect()
    await slow.query('BEGIN; INSERT INTO events (n) VALUES (1)')
    await kit.pool.query('INSERT INTO events (n) VALUES (2)')
    const ahead = async (cursor: string) =>
      (await kit.pool.query('SELECT id, n FROM events WHERE id > $1 ORDER BY id', [cursor])).rows
    const first = await ahead('0')
    await slow.query('COMMIT')
    slow.release()
    expect([first, await ahead(first.at(-1).id)].map((rows) => rows.map(({ n }) => n))).toEqual([[2], []])
  })
  test('here: instants of their own, order by id, and deletion by id: the late one is sent', async () => {
    await fill(50, 1)
    expect(
      (await kit.pool.query(`SELECT count(DISTINCT created_at)::int AS n FROM ${kit.schema}.outbox`)).rows[0]
        .n,
    ).toBeGreaterThan(1)
    const go = Promise.withResolvers<void>()
    const entered = Promise.withResolvers<void>()
    const slow = kit.transaction(async (tx) => {
      await publish(kit, tx, event('slow', 1))
      entered.resolve()
      await go.promise
    })
    await entered.promise
    await kit.transaction((tx) => publish(kit, tx, event('quick', 2)))
    await using one = relay()
    await one.drainOnce()
    go.resolve()
    await slow
    await one.drainOnce()
    expect([publisher.numbersOf('quick'), publisher.numbersOf('slow')]).toEqual([[2], [1]])
  })
})

describe('14 · several relays', () => {
  type Sent = { aggregate: number; n: number }
  const inversions = (sent: readonly Sent[]) =>
    [...Map.groupBy(sent, ({ aggregate }) => aggregate).values()].reduce(
      (sum, list) => sum + list.filter(({ n }, index) => index > 0 && n < list[index - 1]!.n).length,
      0,
    )
  const network = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 4))
  /** Reads ten rows, sends them, marks them, until no row is left. */
  async function usualRelay(sent: Sent[], lock: string): Promise<void> {
    for (;;) {
      const client = await kit.pool.connect()
      try {
        await client.query('BEGIN')
        const { rows } = await client.query(
          `SELECT id, aggregate, n FROM events WHERE NOT sent ORDER BY id LIMIT 10 ${lock}`,
        )
        if (rows.length === 0) return
        for (const row of rows) {
          await network()
          sent.push(row)
        }
        await client.query('UPDATE events SET sent = true WHERE id = ANY($1)', [rows.map(({ id }) => id)])
        await client.query('COMMIT')
      } finally {
        await client.query('ROLLBACK')
        client.release()
      }
    }
  }
  test('usual: without a claim, two relays send most of it twice', async () => {
    await fillUsual(100, 5)
    const sent: Sent[] = []
    await Promise.all([usualRelay(sent, ''), usualRelay(sent, '')])
    expect(sent.length).toBeGreaterThan(100)
  })
  test('usual: with SKIP LOCKED once each, but the events of one aggregate overtake each other', async () => {
    await fillUsual(200, 5)
    const sent: Sent[] = []
    await Promise.all([
      usualRelay(sent, 'FOR UPDATE SKIP LOCKED'),
      usualRelay(sent, 'FOR UPDATE SKIP LOCKED'),
    ])
    expect(sent).toHaveLength(200)
    expect(inversions(sent)).toBeGreaterThan(0)
  })
  test('here: a lease for each partition: once each, and in order', async () => {
    await fill(200, 5)
    publisher.react = () => network().then(() => 'confirm')
    await using first = relay()
    await using second = relay()
    first.start()
    second.start()
    await empty()
    const sent = publisher.confirmed.map(({ aggregateId, body }) => ({
      aggregate: Number(aggregateId.slice(1)),
      n: JSON.parse(body).n,
    }))
    expect([sent.length, inversions(sent)]).toEqual([200, 0])
  })
})

describe('15 · NOTIFY as the transport', () => {
  test('usual: a notification without a listener is lost', async () => {
    const client = new pg.Client({
      host: server.folder,
      port: server.port,
      user: 'postgres',
      database: 'postgres',
    })
    await kit.pool.query(`SELECT pg_notify('usual', 'lost')`)
    const heard: (string | undefined)[] = []
    client.on('notification', ({ payload }) => heard.push(payload))
    await client.connect()
    await client.query('LISTEN usual')
    await kit.pool.query(`SELECT pg_notify('usual', 'heard')`)
    await eventually('the second', () => heard.length > 0)
    await client.end()
    expect(heard).toEqual(['heard'])
  })
  test('here: rows are polled; without any notification every event arrives', async () => {
    await fill(10, 10)
    await using one = relay()
    one.start()
    await empty()
    expect(publisher.confirmed).toHaveLength(10)
  })
})

describe('16 · a queue table that only grows', () => {
  test('usual: rows marked as sent stay, and every poll reads past them', async () => {
    await fillUsual(1_000, 10)
    await kit.pool.query('UPDATE events SET sent = true')
    expect((await kit.pool.query('SELECT count(*)::int AS n FROM events')).rows[0].n).toBe(1_000)
  })
  test('here: deleted when confirmed, no transaction is open while sending, and the table is vacuumed early', async () => {
    await fill(300, 10)
    let longest = -1
    publisher.react = async (): Promise<Reaction> => {
      if (longest < 0)
        longest = (
          await kit.pool.query(
            `SELECT count(*)::int AS n FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()`,
          )
        ).rows[0].n
      return 'confirm'
    }
    await using one = relay()
    one.start()
    await empty()
    expect(longest).toBe(0)
    const { rows } = await kit.pool.query('SELECT reloptions FROM pg_class WHERE oid = $1::regclass', [
      `${kit.schema}.outbox`,
    ])
    expect(rows[0].reloptions).toContain('autovacuum_vacuum_scale_factor=0')
  })
})

describe('21 · the trace ends at the outbox', () => {
  test('usual: a published event without headers begins a new trace at the consumer', () => {
    const published = { type: 'T', payload: {} }
    expect(published).not.toHaveProperty('headers')
  })
  test('here: the creation context goes along; send links to it, and process continues it', async () => {
    using recording = recordSpans()
    await kit.transaction((tx) => publish(kit, tx, event('traced', 1)))
    await using one = relay()
    await one.drainOnce()
    const [sent] = publisher.confirmed
    const inbox = new Inbox({
      kit,
      consumerId: 'c',
      handlers: { T: async () => {} },
    })
    await inbox.receive({ ...sent!, redelivered: false })
    const named = (prefix: string) => recording.spans.find(({ name }) => name.startsWith(prefix))!
    const { traceId, spanId } = named('create').context
    expect(sent!.headers.traceparent).toBe(`00-${traceId}-${spanId}-01`)
    expect(named('send').links[0]?.context.spanId).toBe(spanId)
    expect([named('process').context.traceId, named('process').parent?.spanId]).toEqual([traceId, spanId])
  })
})
