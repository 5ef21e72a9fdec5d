/** `fencepost records` on the operator API of five embedded nodes: what it prints, what it changes, and its exit codes. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { records } from '../../src/cli/records.ts'
import { startApplication } from '../support/application.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { duringTests } from '../support/during-tests.ts'
import { startOperatorApi } from '../support/operator-api.ts'
import { OPERATE_TOKEN, operatorTokensFile, VIEW_TOKEN } from '../support/operator-caller.ts'
import { keyOf } from '../support/redis-cluster.ts'

const bob = operatorTokensFile(`${OPERATE_TOKEN}\n`)
const ann = operatorTokensFile(`${VIEW_TOKEN}\n`)
const api = duringTests(() => startOperatorApi())
afterAll(() => {
  bob[Symbol.dispose]()
  ann[Symbol.dispose]()
})

async function run(args: readonly string[], { token = bob.path, operator = api.origin } = {}) {
  const { io, stdout, stderr } = bufferedIo({})
  const readFile = (path: string) => readFileSync(path, 'utf8')
  const files = { readFile, readBytes: (path: string) => readFileSync(path) }
  const exit = await records([...args, '--operator', operator, '--token-file', token], { ...io, ...files })
  return { exit, out: stdout(), err: stderr() }
}

const because = ['--reason', 'ticket 4711'] as const

test('without --yes a decision says what it would do, and does nothing', async () => {
  const key = await api.expire('dry')
  const { exit, out } = await run(['forget', key, ...because])
  expect(exit).toBe(64)
  expect(out).toContain('The next request with this key is a first attempt again')
  const { state, fencing_token: token } = await api.operator.show(key)
  expect(out).toContain(`Nothing was decided. To do it, add --fencing-token ${token} --yes.`)
  expect(state).toBe('expired')
  const audited = api.auditLog.entries('audit').filter(({ recordKey }) => recordKey === key)
  expect(audited).toEqual([])
})

test('with --yes it is decided, and the reason stands in the audit log', async () => {
  const key = await api.expire('forgotten')
  const { exit, out } = await run(['forget', key, ...because, '--yes'])
  expect([exit, out.split('\n')[0]]).toEqual([0, 'forget: done'])
  expect((await api.operator.show(key)).state).toBe('released')
  const audited = api.auditLog.entries('audit').filter(({ recordKey }) => recordKey === key)
  expect(audited.map(({ fields }) => [fields.act, fields.by, fields.reason, fields.step])).toEqual([
    ['forget', 'bob', 'ticket 4711', 'begun'],
    ['forget', 'bob', 'ticket 4711', 'done'],
  ])
})

// Bug: --yes decided about an attempt that nobody had looked at, and the next request executed it a second time.
test('an attempt that came after the dry run is not decided with it', async () => {
  const key = await api.expire('came after')
  const [, how = ''] = /To do it, add (.+)\./.exec((await run(['forget', key, ...because])).out) ?? []
  await api.expire('came after')
  const { state, fencing_token: token } = await api.operator.show(key)
  const refused = await run(['forget', key, ...because, ...how.split(' ')])
  expect([refused.exit, refused.err]).toEqual([1, expect.stringContaining('record-moved-on')])
  expect(await api.operator.show(key)).toMatchObject({ state, fencing_token: token })
  expect((await run(['forget', key, ...because, '--fencing-token', String(token), '--yes'])).exit).toBe(0)
})

test('--yes alone breaks no promise: the one at stake has to be said out', async () => {
  const { key } = await api.claim('live')
  const refused = await run(['end', key, ...because, '--yes'])
  expect([refused.exit, refused.out]).toEqual([
    64,
    expect.stringMatching(/add --fencing-token \d+ --even-though live --yes/),
  ])
  expect((await api.operator.show(key)).state).toBe('live')
  expect((await run(['end', key, ...because, '--yes', '--even-though', 'live'])).exit).toBe(0)
  expect((await api.operator.show(key)).state).toBe('expired')
})

test('complete records the body of a file, and show prints it', async () => {
  const key = await api.expire('by hand')
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

// Bug: it was read as text, and each byte that is none came to the client as U+FFFD.
test('complete records a body that is no text as it is', async () => {
  const key = await api.expire('no text')
  const file = join(bob.path, '../answer.pdf')
  writeFileSync(file, Buffer.from([0x25, 0x50, 0x44, 0x46, 0xff, 0x00, 0xfe]))
  const answer = ['--status', '200', '--header', 'Content-Type: application/pdf', '--body-file', file]
  expect((await run(['complete', key, ...because, ...answer, '--yes'])).exit).toBe(0)
  const read = await api.leases.read(key)
  expect(read.kind === 'completed' && read.outcome).toMatchObject({
    status: 200,
    headers: [['content-type', 'application/pdf']],
    body: readFileSync(file),
  })
})

// Bug: a header without a colon was recorded under a name that was cut off, of two of one name the first was dropped, and of two
// records or two outcomes one was taken without a word.
test.each([
  ['a header without a colon', ['--status', '201', '--header', 'content-type'], 'accepted is "name: value"'],
  ['a header without a name', ['--status', '201', '--header', ': x'], 'accepted is "name: value"'],
  [
    'a header twice',
    ['--status', '201', '--header', 'Vary: a', '--header', 'vary: b'],
    'vary is given twice',
  ],
  ['an answer that is lost, and is there', ['--status', '201', '--not-kept'], 'With which of them?'],
  ['a body of a result', ['--result-file', '/none', '--body-file', '/none'], 'With which of them?'],
  ['a body without a status', ['--body-file', '/none'], 'With what?'],
  ['two records', ['--not-kept', '--value', 'payment:order-4711'], 'Two of them are named'],
] as const)('complete with %s is refused, and nothing is decided', async (_, how, sentence) => {
  const key = await api.expire('misread')
  const told = await run(['complete', key, ...because, ...how, '--yes'])
  expect([told.exit, told.err]).toEqual([64, expect.stringContaining(sentence)])
  expect((await api.operator.show(key)).state).toBe('expired')
})

test('a path and a key that name another record than the value beside them decide about neither', async () => {
  const named = ['--path', '/payments', '--key', 'order-4711', '--value', 'payment:order-4711']
  expect(await run(['forget', ...named, ...because, '--yes'])).toMatchObject({
    exit: 64,
    err: expect.stringContaining('Two of them are named'),
  })
})

test('every node is shown with its fingerprint, so that one with another content is seen', async () => {
  const { key, fingerprint } = await api.claim('fingerprints')
  const { out } = await run(['show', key])
  const digits = fingerprint.slice(0, 16)
  expect(
    out.split('\n').filter((line) => line.includes('claimed') && line.includes(`fingerprint ${digits}`)),
  ).toHaveLength(5)
  expect(out).toMatch(new RegExp(`^fingerprint +${digits}$`, 'm'))
})

/** An expired claim, and the question that the sweeper writes of it. */
async function question(name: string) {
  const key = await api.expire(name)
  const { fencing_token: token, fingerprint } = await api.operator.show(key)
  const id = `orphan:${key.slice(-16)}:${token}`
  const fields = { token: String(token), attempt: '1', fingerprint }
  await api.auditLog.append('dead-letters', { id, kind: 'orphan', atWallMs: 1, recordKey: key, fields })
  return { key, id }
}

test.each([
  ['requeue', [], 'released', 'first attempt again'],
  ['discard', ['--completed'], 'completed', 'never executed again'],
  ['discard', [], 'expired', 'stays as it is'],
] as const)(
  '%s %j of a dead letter: a reason, what would happen, and with --yes it happens',
  async (act, how, after, told) => {
    const { key, id } = await question(`${act} ${how.length} letter`)
    expect((await run(['list', 'dead-letters'])).out).toContain(id)
    expect(await run([act, id, ...how])).toMatchObject({
      exit: 64,
      err: expect.stringContaining('Give --reason'),
    })
    const dry = await run([act, id, ...how, ...because])
    expect([dry.exit, dry.out]).toEqual([
      64,
      expect.stringContaining('Nothing was decided. To do it, add --yes.'),
    ])
    expect(dry.out).toContain(told)
    expect((await api.operator.show(key)).state).toBe('expired')
    expect((await run([act, id, ...how, ...because, '--yes'])).exit).toBe(0)
    expect((await api.operator.show(key)).state).toBe(after)
    expect(api.auditLog.entries('audit').at(-1)?.fields).toMatchObject({
      act,
      by: 'bob',
      reason: 'ticket 4711',
      step: 'done',
    })
    expect(await run([act, id, ...how, ...because])).toMatchObject({
      exit: 1,
      err: expect.stringContaining('dead-letter-unknown'),
    })
  },
)

test('a question whose record has moved on is not decided, and the exit code says so', async () => {
  const { key, id } = await question('moved on')
  await api.operator.decide('complete', key, { not_kept: true })
  const { exit, out } = await run(['requeue', id, ...because, '--yes'])
  expect([exit, out]).toEqual([
    1,
    expect.stringContaining('requeue: not decided, its record has moved on (duplicate)'),
  ])
})

test('dead letters are a page at a time, and a page says how to get older ones', async () => {
  const ids = Array.from({ length: 201 }, (_, at) => `page:${String(at).padStart(3, '0')}`)
  for (const [at, id] of ids.entries())
    await api.auditLog.append('dead-letters', {
      id,
      kind: 'orphan',
      atWallMs: 10 + at,
      recordKey: keyOf(id),
      fields: {},
    })
  const newest = await run(['list', 'dead-letters'])
  expect([newest.out.includes('page:001'), newest.out.includes('page:000')]).toEqual([true, false])
  const [, cursor = ''] = /--before (\S+)/.exec(newest.out) ?? []
  const older = await run(['list', 'dead-letters', '--before', cursor])
  expect([older.out.includes('page:000'), older.out.includes('--before')]).toEqual([true, false])
  for (const id of ids) await api.auditLog.remove('dead-letters', id)
})

test('what the sidecar answered lately is a list; an empty one is nothing, and ends with 1', async () => {
  expect(await run(['list', 'decisions'])).toMatchObject({ exit: 1, out: 'nothing\n' })
  const key = keyOf('answered')
  api.recent.observe({
    kind: 'decided',
    entrypoint: 'proxy',
    decision: 'duplicate_in_flight',
    detail: 'in_flight',
    route: 'payments',
    status: 409,
    durationMs: 1,
    keyHash: key.slice(-64),
    tenant: 'shop',
  })
  const { exit, out } = await run(['list', 'decisions'])
  expect([exit, out]).toEqual([
    0,
    expect.stringMatching(new RegExp(`duplicate_in_flight +409 .*${key.slice(-64, -48)}`)),
  ])
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
  ['a list that there is not', ['list', 'all'], 64, '`live`, `expired`, `dead-letters` and `decisions` are'],
  [
    'a token that is none',
    ['end', keyOf('absent'), '--fencing-token', '1e3'],
    64,
    'A token is a whole number',
  ],
  ['complete without an answer', ['complete', keyOf('absent'), ...because], 64, 'Give --status'],
  ['a file that there is not', ['find', '--request-file', '/none'], 64, 'can not be read'],
] as const)('%s', async (_, args, exit, sentence) => {
  const told = await run(args)
  expect([told.exit, told.err]).toEqual([exit, expect.stringContaining(sentence)])
})

// Bug: "no answer from … Unexpected token '<'": the listener was looked for, and it had answered, or another server had.
test.each([
  [504, '<html>Gateway Time-out</html>'],
  [201, 'charge 1'],
  [200, 'null'],
  // Bug: "404: ", of the admin listener.
  [404, '{"error":"not found"}'],
])('an answer with status %d that is none of a listener is called that', async (status, text) => {
  await using server = await startApplication((_, response) => void response.writeHead(status).end(text))
  const told = await run(['end', keyOf('absent'), ...because, '--yes'], { operator: server.origin })
  expect([told.exit, told.err]).toEqual([
    69,
    expect.stringContaining(
      `${server.origin} answered with status ${status} and not as an operator listener`,
    ),
  ])
})

// Bug: "no answer from …" alone, about a decision that had been made: its answer came too late, or was lost.
test('a decision whose answer is lost is not called undecided, and one that was never sent is', async () => {
  const key = await api.expire('answer lost')
  await using cut = await startApplication(async (request, response) => {
    const { method, target } = request
    const body = request.body.toString()
    const headers = {
      authorization: request.values('authorization')[0] ?? '',
      'content-type': 'application/json',
    }
    const reply = await fetch(api.origin + target, { method, headers, ...(body === '' ? {} : { body }) })
    const text = await reply.text()
    if (target.endsWith('/forget') && !body.includes('dry_run')) response.destroy()
    else response.writeHead(reply.status).end(text)
  })
  const unknown = 'It is not known whether it was decided: look at the record before you decide again.'
  const decided = await run(['forget', key, ...because, '--yes'], { operator: cut.origin })
  expect([decided.exit, decided.err]).toEqual([69, expect.stringContaining(unknown)])
  expect((await api.operator.show(key)).state).toBe('released')
  for (const args of [
    ['show', key],
    ['forget', key, ...because, '--yes'],
  ]) {
    const away = await run(args, { operator: 'http://127.0.0.1:9' })
    expect([away.exit, away.err]).toEqual([69, expect.not.stringContaining(unknown)])
  }
})

test('a role that may not decide, no listener, and no token', async () => {
  const refused = await run(['end', keyOf('absent'), ...because], { token: ann.path })
  expect([refused.exit, refused.err]).toEqual([1, expect.stringContaining('role-required')])
  const away = await run(['show', keyOf('absent')], { operator: 'http://127.0.0.1:9' })
  expect([away.exit, away.err]).toEqual([69, expect.stringContaining('no answer from http://127.0.0.1:9')])
  expect((await run(['show', keyOf('absent')], { token: '/none' })).exit).toBe(78)
})
