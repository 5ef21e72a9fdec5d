// The operator's commands on the tables of the saga kit.

import { createOutboxRelay, createSagaRunner, defineSaga, processSagaStep, publish } from '@fencepost/saga'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { saga } from '../../src/cli/saga.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let server: PostgresServer
let kit: TestKit
beforeAll(async () => {
  server = await startPostgres()
  kit = await testKit(server)
})
afterAll(() => server[Symbol.asyncDispose]())

async function run(...args: string[]) {
  const { io, stdout, stderr } = bufferedIo({ DATABASE_URL: server.url })
  const exitCode = await saga(['--schema', kit.schemaName, ...args], io)
  return { exitCode, stdout: stdout(), stderr: stderr() }
}

// Bug: the runbooks run it in the pod of a sidecar, which has neither DATABASE_URL nor a shell to set it with; it said `Which database?`.
test('in the pod of a sidecar the database and the schema are those of its settings', async () => {
  const settings = {
    FENCEPOST_REDIS_NODES: 'redis://a:6379,redis://b:6379,redis://c:6379',
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_SAGA_DATABASE_FILE: '/secrets/database',
    FENCEPOST_SAGA_SCHEMA: kit.schemaName,
  }
  const { io, stdout, stderr } = bufferedIo(settings)
  const readFile = (path: string) => (path === '/secrets/database' ? `${server.url}\n` : io.readFile(path))
  expect(await saga(['lag'], { ...io, readFile })).toBe(0)
  expect([JSON.parse(stdout()), stderr()]).toEqual([{ pending: 0, parked: 0, oldestAgeMs: 0 }, ''])
})

test('where nothing says which database, the command says what to give', async () => {
  const { io, stderr } = bufferedIo({})
  expect(await saga(['lag'], io)).toBe(64)
  expect(stderr()).toMatch(/^Which database\? Give --database .*DATABASE_URL.*FENCEPOST_SAGA_DATABASE_FILE/)
})

test('migrate prints what it applied, once; a dry run prints what it would apply', async () => {
  const fresh = (...args: string[]) => run('--schema', 'by_command', 'migrate', ...args)
  expect((await fresh('--dry-run')).stdout).toBe('would apply: 1; version 0\n')
  expect((await fresh()).stdout).toBe('applied: 1; version 1\n')
  expect((await fresh()).stdout).toBe('applied: nothing; version 1\n')
})

test('without a number migrate keeps the partitions of the services, whatever their count', async () => {
  const wide = await testKit(server, { partitions: 32 })
  const migrate = (...args: string[]) => run('--schema', wide.schemaName, 'migrate', ...args)
  expect((await migrate()).exitCode).toBe(0)
  expect(await countOf(wide, 'outbox_partitions')).toBe(32)
  for (const count of ['0', '2.5', 'many'])
    expect(await migrate('--partitions', count)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('a whole number from 1 to 1024 expected'),
    })
  expect(await countOf(wide, 'outbox_partitions')).toBe(32)
  expect((await migrate('--partitions', '64')).exitCode).toBe(0)
  expect(await countOf(wide, 'outbox_partitions')).toBe(64)
})

// Bug: each command said that a relation does not exist, and ended as it does where the database is away.
test.each([['lag'], ['list'], ['dead-letters', 'list'], ['retention']])(
  '%s %s before the first migration says what to do',
  async (...args) => {
    expect(await run('--schema', 'not_migrated', ...args)).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(/^the schema not_migrated lacks tables .* run .*fencepost-saga migrate/),
    })
  },
)

test('plans prints SQL without a database', async () => {
  const { io, stdout } = bufferedIo({})
  expect(await saga(['plans'], io)).toBe(0)
  expect(stdout()).toContain('CREATE TABLE "fencepost".outbox')
})

test('plans prints one sentence for an invalid schema or number of partitions', async () => {
  for (const args of [
    ['--schema', 'no schema', 'plans'],
    ['plans', '--partitions', 'many'],
  ]) {
    const { io, stdout, stderr } = bufferedIo({})
    expect([await saga(args, io), stdout(), stderr().trim().split('\n').length]).toEqual([1, '', 1])
  }
})

test.each([
  ['replay', 'first'],
  ['replay', '1', '1.5'],
  ['discard', '99999999999999999999'],
  ['list', '--limit', 'all'],
])('dead-letters %s %s is a usage error and no fault of the database', async (...args) => {
  const answer = await run('--schema', (await testKit(server)).schemaName, 'dead-letters', ...args)
  expect(answer).toMatchObject({ exitCode: 64, stdout: '' })
})

test('an id given twice is one dead letter', async () => {
  const answer = await run(
    '--schema',
    (await testKit(server)).schemaName,
    'dead-letters',
    'discard',
    '7',
    '7',
  )
  expect(answer).toMatchObject({ exitCode: 1, stdout: '0 of 1\n' })
})

test('a parked saga is inspected, retried and compensated; an unknown one is reported as unknown', async () => {
  let broken = true
  const stubborn = {
    name: 'stubborn',
    maxAttempts: 1,
    effect: async () => {
      if (broken) throw new Error('down')
    },
  }
  const definition = defineSaga('o', [{ name: 'decide', pivot: true }, stubborn])
  const runner = createSagaRunner({ kit, definitions: [definition], backoff: { initialMs: 0, maxMs: 0 } })
  await kit.transaction((tx) => runner.begin(tx, 'o', { sagaId: 'o-1', input: {} }))
  await runner.runOnce()
  const shown = JSON.parse((await run('show', 'o-1')).stdout)
  expect(shown).toMatchObject({
    status: 'parked',
    steps: [{ status: 'done' }, { name: 'stubborn', status: 'running' }],
  })
  broken = false
  expect(await run('retry', 'o-1')).toMatchObject({ exitCode: 0, stdout: 'done\n' })
  await runner.runOnce()
  expect(JSON.parse((await run('show', 'o-1')).stdout).status).toBe('completed')
  expect(await run('compensate', 'o-1')).toMatchObject({
    exitCode: 1,
    stderr: 'saga o-1 is neither running nor parked\n',
  })
  expect(await run('show', 'nobody')).toMatchObject({ exitCode: 1, stderr: 'there is no saga nobody\n' })
})

test('a saga that messages drive is listed, inspected, retried and compensated by the same commands', async () => {
  const pay = (effect: () => Promise<unknown>) =>
    processSagaStep(
      kit,
      { sagaId: 'm-1', saga: 'checkout', step: 'pay', request: {}, leaseMs: 60_000, maxAttempts: 1 },
      { effect, commit: async () => null },
    )
  await pay(() => Promise.reject(new Error('down'))).catch(() => {})
  const parked = { sagaId: 'm-1', status: 'parked', drivenBy: 'messages', lastError: 'pay: down' }
  expect(JSON.parse((await run('list', '--status', 'parked')).stdout)).toMatchObject([parked])
  expect(JSON.parse((await run('show', 'm-1')).stdout)).toMatchObject({ steps: [{ lastError: 'down' }] })
  expect(await run('retry', 'm-1')).toMatchObject({ exitCode: 0, stdout: 'done\n' })
  expect(await run('retry', 'm-1')).toMatchObject({
    exitCode: 1,
    stderr: 'saga m-1 is not parked, and no message of its steps is dead\n',
  })
  await pay(async () => 1)
  expect(await run('compensate', 'm-1')).toMatchObject({ exitCode: 0, stdout: 'done\n' })
  expect(JSON.parse((await run('show', 'm-1')).stdout)).toMatchObject({
    status: 'compensating',
    reason: 'asked for by an operator',
  })
  expect((await run('list', '--status', 'lost')).exitCode).not.toBe(0)
})

test('dead letters are listed, replayed and discarded; the lag counts what is parked', async () => {
  const publisher = new RecordingPublisher()
  publisher.react = () => 'refuse'
  for (const n of [1, 2])
    await kit.transaction((tx) =>
      publish(kit, tx, { aggregateType: 'a', aggregateId: `${n}`, type: 'T', payload: { n } }),
    )
  await using relay = createOutboxRelay({ kit, publisher, retry: { maxAttempts: 1 } })
  await relay.drainOnce()
  const letters = JSON.parse((await run('dead-letters')).stdout)
  expect(letters.map(({ errorCode }: { errorCode: string }) => errorCode)).toEqual([
    'publish_refused',
    'publish_refused',
  ])
  expect(await run('dead-letters', 'replay', String(letters[0].id))).toMatchObject({
    exitCode: 0,
    stdout: '1 of 1\n',
  })
  expect(JSON.parse((await run('lag')).stdout)).toMatchObject({ pending: 1, parked: 0 })
  expect(await run('dead-letters', 'discard', String(letters[1].id), '999')).toMatchObject({
    exitCode: 1,
    stdout: '1 of 2\n',
  })
  expect(await countOf(kit, `dead_letters WHERE status = 'dead'`)).toBe(0)
  expect((await run('retention')).exitCode).toBe(0)
})

test('without a database setting it asks for one; an unreachable one is exit 69, its password not shown', async () => {
  const none = bufferedIo({})
  expect(await saga(['lag'], none.io)).toBe(64)
  expect(none.stderr()).toContain('DATABASE_URL')
  const away = bufferedIo({ DATABASE_URL: 'postgres://u:canary@127.0.0.1:9/x' })
  expect(await saga(['lag'], away.io)).toBe(69)
  expect(away.stderr()).not.toBe('')
  expect(away.stderr()).not.toContain('canary')
})
