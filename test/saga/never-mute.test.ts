// A kit that was not set up says so at once, and one without `events` writes its errors and warnings to the console.
import { readFile, writeFile } from 'node:fs/promises'
import pg from 'pg'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { createConsumer } from '../../packages/saga/src/consumer.ts'
import {
  BrokerUnavailableError,
  DatabaseRefusedError,
  SchemaMissingError,
} from '../../packages/saga/src/errors.ts'
import { eventLog } from '../../packages/saga/src/event-log.ts'
import type { SagaEvent } from '../../packages/saga/src/events.ts'
import { createSagaKit, type SagaKitOptions } from '../../packages/saga/src/kit.ts'
import { migrate } from '../../packages/saga/src/migrate.ts'
import { publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { getSaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'

const server = duringTests(() => startPostgres())
beforeAll(async () => {
  await server
    .pool()
    .query(
      `CREATE ROLE stranger LOGIN; CREATE ROLE locked LOGIN PASSWORD 'right'; CREATE SCHEMA forbidden; CREATE TABLE forbidden.outbox_relays ()`,
    )
  await requirePassword('locked')
})

/** The others of this server are trusted without a password. */
async function requirePassword(role: string): Promise<void> {
  const { rows } = await server.pool().query('SHOW hba_file')
  const path: string = rows[0].hba_file
  const lines = `local all ${role} scram-sha-256\nhost all ${role} all scram-sha-256\n`
  await writeFile(path, lines + (await readFile(path, 'utf8')))
  await server.pool().query('SELECT pg_reload_conf()')
}

const urlOf = (parts: Partial<URL>) => Object.assign(new URL(server.url), parts).href
type Case = [string, () => string, string, typeof SchemaMissingError | typeof DatabaseRefusedError, RegExp]
const cases: Case[] = [
  [
    'whose tables are missing',
    () => server.url,
    'nowhere',
    SchemaMissingError,
    /schema nowhere.*run migrate\(kit\)/,
  ],
  [
    'whose user is unknown',
    () => urlOf({ username: 'nobody_here' }),
    'fencepost',
    DatabaseRefusedError,
    /role "nobody_here" does not exist; check the user/,
  ],
  [
    'whose password is wrong',
    () => urlOf({ username: 'locked', password: 'canary' }),
    'fencepost',
    DatabaseRefusedError,
    /password authentication failed for user "locked"; check the user and the password/,
  ],
  [
    'whose database does not exist',
    () => urlOf({ pathname: '/nowhere' }),
    'fencepost',
    DatabaseRefusedError,
    /database "nowhere" does not exist; create the database/,
  ],
  [
    'whose user has no rights',
    () => urlOf({ username: 'stranger' }),
    'forbidden',
    DatabaseRefusedError,
    /permission denied for schema forbidden; grant/,
  ],
]

async function withKit(
  url: string,
  options: Partial<SagaKitOptions>,
  use: (kit: ReturnType<typeof createSagaKit>) => Promise<void>,
) {
  const pool = new pg.Pool({ connectionString: url })
  try {
    await use(createSagaKit({ pool, ...options }))
  } finally {
    await pool.end()
  }
}

describe.each(cases)('a kit %s', (_, urlOfCase, schema, error, words) => {
  test('its relay says so with its first poll, and its consumer does not begin', async () => {
    const seen: SagaEvent[] = []
    await withKit(urlOfCase(), { schema, events: (event) => seen.push(event) }, async (kit) => {
      const relay = createOutboxRelay({ kit, publisher: new RecordingPublisher() })
      relay.start()
      await eventually('the first error', () => seen.some(({ kind }) => kind === 'relay_error'))
      const [first] = seen.filter((event) => event.kind === 'relay_error')
      const reason = first?.error as Error
      expect(reason).toBeInstanceOf(error)
      expect(reason.message).toMatch(words)
      await relay.stop().catch(() => {})
      const subscriber = { subscribe: () => Promise.reject(new Error('must not be reached')) }
      const consumer = createConsumer({ kit, subscriber, consumerId: 'c', handlers: {} })
      await expect(consumer).rejects.toThrow(words)
    })
  })
})

describe('a service that starts before its tables were migrated', () => {
  /** Without a column that `publish` needs, as before the migration of a later kit. */
  async function tablesOfBefore(schema: string) {
    const seen: SagaEvent[] = []
    const kit = createSagaKit({ pool: server.pool(), schema, events: (event) => seen.push(event) })
    await migrate(kit)
    await kit.query(`ALTER TABLE ${schema}.outbox DROP COLUMN scheduled`)
    return {
      kit,
      seen,
      migrated: () =>
        kit.query(`ALTER TABLE ${schema}.outbox ADD COLUMN scheduled boolean NOT NULL DEFAULT false`),
    }
  }

  // Bug: it began, each handler that published failed until its attempts were spent, and every message became a dead letter.
  test('its consumer does not begin', async () => {
    const { kit } = await tablesOfBefore('consumed_before')
    const subscriber = { subscribe: () => Promise.reject(new Error('must not be reached')) }
    await expect(createConsumer({ kit, subscriber, consumerId: 'c', handlers: {} })).rejects.toThrow(
      /schema consumed_before lacks tables or columns.*run migrate\(kit\)/,
    )
  })

  // Bug: steps that publish had their effect, failed until their attempts were spent, and every saga was compensated.
  test('its runner leaves sagas alone until they are', async () => {
    const { kit, seen, migrated } = await tablesOfBefore('run_before')
    let effects = 0
    const pay = defineSaga<object>('order').step({
      name: 'pay',
      effect: async () => {
        effects += 1
      },
      commit: (tx) =>
        publish(kit, tx, { aggregateType: 'order', aggregateId: '1', type: 'Paid', payload: {} }),
    })
    await using runner = createSagaRunner({ kit, definitions: [pay], pollIntervalMs: 20 })
    await kit.transaction((tx) => runner.begin(tx, pay, { sagaId: '1', input: {} }))
    await expect(runner.runOnce()).rejects.toBeInstanceOf(SchemaMissingError)
    runner.start()
    await eventually('it to be said', () =>
      seen.some((event) => event.kind === 'saga_error' && event.error instanceof SchemaMissingError),
    )
    expect(effects).toBe(0)
    await migrated()
    await eventually('the saga to end', async () => (await getSaga(kit, '1'))?.status === 'completed')
    expect(effects).toBe(1)
  })
})

test('a kit without `events` writes it to the console', async () => {
  const written = vi.spyOn(console, 'error').mockImplementation(() => {})
  try {
    await withKit(server.url, { schema: 'nowhere' }, async (kit) => {
      const relay = createOutboxRelay({
        kit,
        publisher: new RecordingPublisher(),
        relayId: 'r-1',
        pollIntervalMs: 1,
      })
      relay.start()
      await eventually('a line', () => written.mock.calls.length > 0)
      await relay.stop().catch(() => {})
      expect(String(written.mock.calls[0])).toMatch(
        /^fencepost saga: relay r-1: the schema nowhere lacks tables/,
      )
    })
  } finally {
    written.mockRestore()
  }
})

describe('the log of events', () => {
  const logged = (events: readonly SagaEvent[], clock = { monoMs: () => 0 }) => {
    const lines: string[] = []
    const log = eventLog(clock, {
      error: (text) => lines.push(`error ${text}`),
      warn: (text) => lines.push(`warn ${text}`),
    })
    for (const event of events) log(event)
    return lines
  }
  const error = new BrokerUnavailableError('RabbitMQ is out of reach', {
    cause: new Error('connect ECONNREFUSED'),
  })
  const reason = 'RabbitMQ is out of reach, because connect ECONNREFUSED'
  const consumed = { kind: 'consumed', consumerId: 'c', type: 'Paid', durationMs: 1 } as const

  test.each<[SagaEvent, string | undefined]>([
    [{ kind: 'relay_error', relayId: 'r', error }, `error fencepost saga: relay r: ${reason}`],
    [{ kind: 'consumer_error', consumerId: 'c', error }, `error fencepost saga: consumer c: ${reason}`],
    [{ kind: 'saga_error', error }, `error fencepost saga: sagas: ${reason}`],
    [{ kind: 'housekeeping_error', error }, `error fencepost saga: housekeeping: ${reason}`],
    [
      { kind: 'housekept', durationMs: 1, deleted: 0, expired: 2 },
      'warn fencepost saga: 2 dead letters expired and were discarded',
    ],
    [{ kind: 'housekept', durationMs: 1, deleted: 5, expired: 0 }, undefined],
    [
      { kind: 'parked', what: 'message m', error },
      `error fencepost saga: message m waits for a person: ${reason}`,
    ],
    [{ kind: 'pool_error', error }, `warn fencepost saga: an idle connection to PostgreSQL broke: ${reason}`],
    [
      { kind: 'publish_failed', destination: 'q', error },
      `warn fencepost saga: a message for q was not sent: ${reason}`,
    ],
    [
      { ...consumed, outcome: 'retry', error },
      `warn fencepost saga: consumer c: a handler of Paid failed: ${reason}`,
    ],
    [{ ...consumed, outcome: 'processed' }, undefined],
    [
      { kind: 'saga_step_failed', sagaId: 's', step: 'pay', error },
      `warn fencepost saga: saga s, step pay: ${reason}`,
    ],
    [
      { kind: 'lock_renewal_failed', resources: ['a', 'b'], error },
      `warn fencepost saga: lock renewal failed: a, b: ${reason}`,
    ],
    [{ kind: 'fenced_out', what: 'pay 1' }, 'warn fencepost saga: pay 1 was taken over by a newer holder'],
    [{ kind: 'retained', table: 'inbox', deleted: 1 }, undefined],
    [
      {
        kind: 'unhandled',
        consumerId: 'c',
        reason: 'unmapped',
        messageId: 'm',
        type: '',
        outcome: 'passed',
        error: new Error('no id'),
      },
      'warn fencepost saga: consumer c: message m was passed: no id',
    ],
  ])('%j', (event, line) => {
    expect(logged([event])).toEqual(line === undefined ? [] : [line])
  })

  test('what repeats is written once a minute, with how often it came', () => {
    let nowMs = 0
    const event = (relayId: string): SagaEvent => ({ kind: 'relay_error', relayId, error: new Error('away') })
    const lines: string[] = []
    const log = eventLog({ monoMs: () => nowMs }, { error: (text) => lines.push(text), warn: () => {} })
    for (; nowMs < 120_000; nowMs += 1_000) log(event('r'))
    log({ kind: 'relay_error', relayId: 'r', error: new Error('another') })
    expect(lines).toEqual([
      'fencepost saga: relay r: away',
      'fencepost saga: relay r: away (and 59 times since)',
      'fencepost saga: relay r: another',
    ])
  })
})
