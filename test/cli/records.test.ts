/** `fencepost records` on the operator API of five embedded nodes: what it prints, what it changes, and its exit codes. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { records } from '../../src/cli/records.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { startOperatorApi } from '../support/operator-api.ts'
import { OPERATE_TOKEN, operatorTokensFile, VIEW_TOKEN } from '../support/operator-caller.ts'
import { keyOf } from '../support/redis-cluster.ts'

let api: Awaited<ReturnType<typeof startOperatorApi>>
const bob = operatorTokensFile(`${OPERATE_TOKEN}\n`)
const ann = operatorTokensFile(`${VIEW_TOKEN}\n`)
beforeAll(async () => {
  api = await startOperatorApi()
})
afterAll(async () => {
  bob[Symbol.dispose]()
  ann[Symbol.dispose]()
  await api[Symbol.asyncDispose]()
})

async function run(args: readonly string[], { token = bob.path, operator = api.origin } = {}) {
  const { io, stdout, stderr } = bufferedIo({})
  const readFile = (path: string) => readFileSync(path, 'utf8')
  const exit = await records([...args, '--operator', operator, '--token-file', token], { ...io, readFile })
  return { exit, out: stdout(), err: stderr() }
}

const because = ['--reason', 'ticket 4711'] as const

test('without --yes a decision says what it would do, and does nothing', async () => {
  const key = await api.lapse('dry')
  const { exit, out } = await run(['forget', key, ...because])
  expect(exit).toBe(64)
  expect(out).toContain('The next request with this key is a first attempt again')
  expect(out).toContain('Nothing was decided. To do it, add --yes.')
  expect((await api.operator.show(key)).state).toBe('lapsed')
  const audited = api.auditLog.entries('audit').filter(({ recordKey }) => recordKey === key)
  expect(audited).toEqual([])
})

test('with --yes it is decided, and the reason stands in the audit log', async () => {
  const key = await api.lapse('forgotten')
  const { exit, out } = await run(['forget', key, ...because, '--yes'])
  expect([exit, out.split('\n')[0]]).toEqual([0, 'forget: done'])
  expect((await api.operator.show(key)).state).toBe('released')
  const audited = api.auditLog.entries('audit').filter(({ recordKey }) => recordKey === key)
  expect(audited.map(({ fields }) => [fields.act, fields.by, fields.reason, fields.step])).toEqual([
    ['forget', 'bob', 'ticket 4711', 'begun'],
    ['forget', 'bob', 'ticket 4711', 'done'],
  ])
})

test('--yes alone breaks no promise: the one at stake has to be said out', async () => {
  const { key } = await api.claim('live')
  const refused = await run(['end', key, ...because, '--yes'])
  expect([refused.exit, refused.out]).toEqual([64, expect.stringContaining('add --even-though live --yes')])
  expect((await api.operator.show(key)).state).toBe('live')
  expect((await run(['end', key, ...because, '--yes', '--even-though', 'live'])).exit).toBe(0)
  expect((await api.operator.show(key)).state).toBe('lapsed')
})

test('complete records the body of a file, and show prints it', async () => {
  const key = await api.lapse('by hand')
  const file = join(bob.path, '../answer.json')
  writeFileSync(file, '{"payment":"p-1"}')
  const answer = ['--status', '201', '--header', 'content-type: application/json', '--body-file', file]
  expect((await run(['complete', key, ...because, ...answer, '--yes'])).exit).toBe(0)
  expect((await run(['show', key])).out).toContain('response 201, 17 bytes')
  expect((await run(['show', key])).out).toContain('{"payment":"p-1"}')
  expect((await run(['show', key], { token: ann.path })).out).not.toContain('p-1')
  const shown = JSON.parse((await run(['show', key, '--json'])).out)
  expect(shown).toMatchObject({ record: key, state: 'completed', outcome: { status: 201 } })
})

test('what a client stored sends no control characters to the terminal', async () => {
  const key = await api.complete('\u001b]0;owned\u0007\u202e')
  const { out } = await run(['show', key])
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
  expect(out).toContain(']0;owned')
})

test.each([
  ['a record that there is not', ['show', '0'.repeat(64)], 1, 'record-unknown'],
  ['a decision that there is nothing for', ['end', keyOf('absent'), ...because], 1, 'decision-refused'],
  ['no reason', ['end', keyOf('absent')], 64, 'Give --reason'],
  ['no record', ['show'], 64, 'Which record?'],
  ['a list that there is not', ['list', 'all'], 64, '`live` and `lapsed` are'],
  ['complete without an answer', ['complete', keyOf('absent'), ...because], 64, 'Give --status'],
  ['a file that there is not', ['find', '--request-file', '/none'], 64, 'can not be read'],
] as const)('%s', async (_, args, exit, sentence) => {
  const told = await run(args)
  expect([told.exit, told.err]).toEqual([exit, expect.stringContaining(sentence)])
})

test('a role that may not decide, no listener, and no token', async () => {
  const refused = await run(['end', keyOf('absent'), ...because], { token: ann.path })
  expect([refused.exit, refused.err]).toEqual([1, expect.stringContaining('role-required')])
  const away = await run(['show', keyOf('absent')], { operator: 'http://127.0.0.1:9' })
  expect([away.exit, away.err]).toEqual([69, expect.stringContaining('no answer from http://127.0.0.1:9')])
  expect((await run(['show', keyOf('absent')], { token: '/none' })).exit).toBe(78)
})
