// The command `fencepost-saga`: what a person does with the tables of the kit.

import { createOutboxRelay, createSagaRunner, defineSaga, processSagaStep, publish } from '@fencepost/saga'
import { beforeAll, expect, test } from 'vitest'
import { fencepostSaga } from '../../packages/saga/src/command/command.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})

function command(env: Readonly<Record<string, string>>, files: Readonly<Record<string, string>> = {}) {
  const said = { stdout: '', stderr: '' }
  const keep = (name: keyof typeof said) => ({
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = {
    env,
    stdout: keep('stdout'),
    stderr: keep('stderr'),
    readFile: (path: string) => files[path] ?? absent(path),
    stopped: () => Promise.resolve(),
  }
  return async (...args: string[]) => ({ exitCode: await fencepostSaga(args, io), ...said })
}

function absent(path: string): never {
  throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' })
}

const run = (...args: string[]) =>
  command({ DATABASE_URL: server.url, USER: 'ann' })('--schema', kit.schemaName, ...args)

test.each([
  ['an option', ['--database', 'URL', 'lag']],
  ['a file', ['--database-file', '/secrets/url', 'lag']],
])('the database may be given by %s, which comes before the environment', async (_, args) => {
  const away = command({ DATABASE_URL: 'postgres://127.0.0.1:9/x' }, { '/secrets/url': `${server.url}\n` })
  const given = args.map((one) => (one === 'URL' ? server.url : one))
  expect(await away('--schema', kit.schemaName, ...given)).toMatchObject({ exitCode: 0, stderr: '' })
})

test('where nothing says which database, or it is none, the command says what to give', async () => {
  expect(await command({})('lag')).toMatchObject({
    exitCode: 64,
    stderr: expect.stringContaining('DATABASE_URL'),
  })
  const nonsense = await command({ DATABASE_URL: 'nonsense:canary' })('lag')
  expect(nonsense).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('postgres://user') })
  expect(nonsense.stderr).not.toContain('canary')
})

test('the help names every command, and that of a command its options; what is not known is refused', async () => {
  const { stdout, exitCode } = await command({})('--help')
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/dead-letters replay <ids\.\.\.>/)])
  expect((await command({})('compensate', '--help')).stdout).toContain('--reason <text>')
  expect((await command({})()).exitCode).toBe(64)
  for (const args of [
    ['lost'],
    ['show'],
    ['lag', 'x'],
    ['lag', '--reason', 'x'],
    ['lag', '--lost'],
    ['list', '--status', 'lost'],
  ])
    expect([args, (await run(...args)).exitCode]).toEqual([args, 64])
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

test('plans prints SQL without a database, and one sentence for an invalid schema or number of partitions', async () => {
  expect((await command({})('plans')).stdout).toContain('CREATE TABLE "fencepost".outbox')
  for (const args of [
    ['--schema', 'no schema', 'plans'],
    ['plans', '--partitions', 'many'],
  ]) {
    const { exitCode, stdout, stderr } = await command({})(...args)
    expect([exitCode, stdout, stderr.trim().split('\n').length]).toEqual([1, '', 1])
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
  const because = ['--by', 'bob', '--reason', 'ticket 1']
  expect(await run('compensate', 'm-1', ...because)).toMatchObject({ exitCode: 0, stdout: 'done\n' })
  expect(JSON.parse((await run('show', 'm-1')).stdout)).toMatchObject({
    status: 'compensating',
    reason: 'ticket 1',
  })
  const [turned, retried] = JSON.parse((await run('decisions', '--limit', '2')).stdout)
  expect(turned).toMatchObject({ act: 'compensate', subject: 'm-1', by: 'bob', reason: 'ticket 1' })
  expect(retried).toMatchObject({ act: 'retry', by: expect.stringMatching(/^ann@/) })
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

test('an unreachable database is exit 69, its password not shown', async () => {
  const away = await command({ DATABASE_URL: 'postgres://u:canary@127.0.0.1:9/x' })('lag')
  expect(away.exitCode).toBe(69)
  expect(away.stderr).not.toBe('')
  expect(away.stderr).not.toContain('canary')
})
