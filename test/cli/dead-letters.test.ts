/** `fencepost dead-letters` on real nodes, without a sidecar: what it prints, what it changes, and its exit codes. */
import { Compile } from 'typebox/compile'
import { beforeAll, expect, test } from 'vitest'
import { deadLetters } from '../../src/cli/dead-letters.ts'
import { REASON_CHARS } from '../../src/cli/operator-client.ts'
import type { AuditEntry, AuditLog } from '../../src/core/coordination/audit-log.ts'
import { DeadLetterBody, DeadLetterDecided } from '../../src/http/operator/schemas.ts'
import { createRedisAuditLog } from '../../src/redis/audit-log.ts'
import { systemClock } from '../../src/system/clock.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const stack = stackOfTests()
let servers: RedisServers
let sidecar: Awaited<ReturnType<typeof joinCluster>>
let auditLog: AuditLog
beforeAll(async () => {
  servers = stack.use(await startRedisServers(3))
  sidecar = stack.use(await joinCluster(servers.urls))
  auditLog = createRedisAuditLog({
    clients: () => sidecar.nodes.members.map(({ client }) => client),
    deadlineMs: 2_000,
    clock: systemClock,
  })
})

async function run(...args: string[]) {
  const { io, stdout, stderr } = bufferedIo({
    USER: 'ann',
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: 'http://127.0.0.1:9',
    // A busy machine must not look like missing nodes.
    FENCEPOST_NODE_DEADLINE: '1s',
    FENCEPOST_CLAIM_BUDGET: '3s',
    FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
  })
  return { exit: await deadLetters(args, io), out: stdout(), err: stderr() }
}

const because = ['--reason', 'ticket 4711'] as const
const write = async (entry: AuditEntry) => expect(await auditLog.append('dead-letters', entry)).toBe(true)

/** A claim that its holder took over from an expired one and gave back, and the question that the sweeper writes of it. */
async function expire(name: string): Promise<AuditEntry> {
  const claimed = await sidecar.claim(name, { leaseMs: 60_000, retentionMs: 60_000 })
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  const renewed = await sidecar.leases.renew({ ...claimed.lease, attempt: 2 })
  if (renewed.kind !== 'renewed') throw new Error(renewed.kind)
  await sidecar.leases.release(renewed.lease)
  const { key: recordKey, token, fingerprint } = claimed.lease
  const fields = { token: String(token), attempt: '1', fingerprint }
  const entry = { id: `orphan:${token}`, kind: 'orphan', atWallMs: 1, recordKey, fields } as const
  await write(entry)
  return entry
}

/** What was done about an entry, newest last. */
async function audited(id: string) {
  const read = await auditLog.read('audit', 100)
  if (read.kind !== 'entries') throw new Error(read.kind)
  return read.entries.flatMap(({ fields }) => (fields.entry === id ? [fields] : []))
}

const ended = (id: string) =>
  `dead-letter-unknown: No dead letter has the id ${JSON.stringify(id)}; \`fencepost dead-letters list\` shows them.\n`

test.each([
  ['requeue', [], { kind: 'granted', lease: { attempt: 1 } }, 'is a first attempt again'],
  ['discard', ['--completed'], { kind: 'duplicate' }, 'never executed again'],
  ['discard', [], { kind: 'granted', lease: { attempt: 2 } }, 'stays as it is'],
] as const)(
  '%s %j: a reason, then what would happen, and with --yes it happens',
  async (act, how, next, told) => {
    const name = `${act} ${how.length}`
    const { id } = await expire(name)
    expect(await run(act, id, ...how)).toMatchObject({
      exit: 64,
      out: '',
      err: 'Why? Give --reason "ticket 4711: …".\n',
    })
    const dry = await run(act, id, ...how, ...because)
    expect([dry.exit, dry.out, dry.err]).toEqual([64, expect.stringContaining(told), ''])
    expect(dry.out).toMatch(/^Nothing was decided. To do it, add --yes.$/m)
    expect(await audited(id)).toEqual([])
    const done = await run(act, id, ...how, ...because, '--yes')
    expect([done.exit, done.out.split('\n')[0]]).toEqual([0, `${act}: done`])
    expect(await audited(id)).toMatchObject(
      ['begun', 'done'].map((step) => ({ act, step, by: 'ann@test', reason: 'ticket 4711' })),
    )
    expect(await sidecar.claim(name)).toMatchObject(next)
    expect(await run(act, id, ...how, ...because)).toEqual({ exit: 1, out: '', err: ended(id) })
  },
)

test('--by says who decides', async () => {
  const { id } = await expire('somebody else')
  expect((await run('discard', id, ...because, '--by', 'bob', '--yes')).exit).toBe(0)
  expect((await audited(id)).map(({ by }) => by)).toEqual(['bob', 'bob'])
})

test('a decision that is repeated leaves a newer claim alone, says so, and ends with 1', async () => {
  const entry = await expire('again')
  expect((await run('requeue', entry.id, ...because, '--yes')).exit).toBe(0)
  // The letter is still there, as when too few nodes removed it; meanwhile a later claim of the key has expired.
  await expire('again')
  const same = { ...entry, id: `${entry.id}:again` }
  await write(same)
  expect(await run('requeue', same.id, ...because, '--yes')).toEqual({
    exit: 1,
    out: 'requeue: not decided, its record has moved on (a later attempt). The entry is dropped.\n',
    err: '',
  })
  expect((await audited(same.id)).map(({ step }) => step)).toEqual(['begun', 'moved on: a later attempt'])
  expect(await sidecar.claim('again')).toMatchObject({ kind: 'granted', lease: { attempt: 2 } })
})

// Bug: the dry run promised that the next request is a first attempt again, of a record with an outcome.
test('a dry run about a record that was completed meanwhile says that it has moved on', async () => {
  const entry = await expire('completed-meanwhile')
  const claimed = await sidecar.claim('completed-meanwhile', { leaseMs: 60_000, retentionMs: 60_000 })
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: 1 } as const
  expect(await sidecar.leases.complete(claimed.lease, outcome)).toMatchObject({ kind: 'recorded' })
  const { exit, out } = await run('requeue', entry.id, ...because)
  expect(exit).toBe(64)
  expect(out).toContain('Its record has moved on')
  expect(out).not.toContain('first attempt again')
})

test('with --json a script reads what the operator API answers: preview, decision, moved on, and refusal', async () => {
  const entry = await expire('json')
  const replies = []
  for (const more of [[], ['--yes']]) {
    const { exit, out } = await run('requeue', entry.id, ...because, '--json', ...more)
    replies.push([exit, JSON.parse(out)])
  }
  await expire('json')
  const same = { ...entry, id: `${entry.id}:json` }
  await write(same)
  const moved = await run('requeue', same.id, ...because, '--json', '--yes')
  replies.push([moved.exit, JSON.parse(moved.out)])
  expect(replies).toEqual([
    [64, { decided: false, dropped: false, effects: [expect.any(String), 'The entry is dropped.'] }],
    [0, { decided: true, dropped: true }],
    [1, { decided: false, dropped: true, because: 'a later attempt' }],
  ])
  const schema = Compile(DeadLetterDecided)
  for (const [, reply] of replies) expect(schema.Errors(reply)).toEqual([])
  const unknown = await run('requeue', entry.id, ...because, '--json')
  expect([unknown.exit, JSON.parse(unknown.out).code]).toEqual([1, 'dead-letter-unknown'])
})

test('a reason is as long as the operator API takes it, and the refusal says the numbers', async () => {
  const { min, max } = REASON_CHARS
  expect(DeadLetterBody.properties.reason).toMatchObject({ minLength: min, maxLength: max })
  for (const reason of ['no', 'x'.repeat(501)])
    expect(await run('requeue', 'orphan:1', '--reason', reason)).toEqual({
      exit: 64,
      out: '',
      err: `--reason has ${reason.length} characters; accepted are 3 to 500.\n`,
    })
})

test('a list says how to go on with older ones, and an entry of any page can be shown', async () => {
  const left = await auditLog.read('dead-letters', 100)
  for (const { id } of left.kind === 'entries' ? left.entries : []) await auditLog.remove('dead-letters', id)
  const entry = (n: number): AuditEntry => ({
    id: `orphan:${n}`,
    kind: 'orphan',
    atWallMs: n,
    recordKey: 'dedup:default:default:v1:none',
    fields: {},
  })
  for (const n of [1, 2, 3]) await write(entry(n))
  const newest = await run('list', '--limit', '2', '--json')
  const cursor = /^There are older ones: --before (\S+)$/m.exec(newest.err)?.[1] ?? ''
  expect(newest.out.match(/"id":"[^"]+"/g)).toEqual(['"id":"orphan:2"', '"id":"orphan:3"'])
  const older = await run('list', '--json', '--before', cursor)
  expect(older).toEqual({ exit: 0, out: `${JSON.stringify(entry(1))}\n`, err: '' })
  expect(await run('list', '--before', 'yesterday')).toMatchObject({
    exit: 64,
    err: '--before yesterday is not accepted; accepted is what a list before ended with\n',
  })
  expect((await run('show', 'orphan:1')).exit).toBe(0)
})

// Bug: the list had the last digits of the record alone, and support knows the first ones: no customer's key was found by it.
test('a list shows the whole record of each entry, and no character that a terminal would obey', async () => {
  const { id, recordKey } = await expire('whose')
  const reason = 'ticket\u001b[2J\n4711'
  await write({ id: 'operator:1', kind: 'operator', atWallMs: 2, recordKey, fields: { reason } })
  const lines = (await run('list')).out.split('\n')
  expect(lines.find((line) => line.includes(id))).toContain(`  ${recordKey}  `)
  expect(lines.find((line) => line.includes('operator:1'))).toContain('reason=ticket?[2J?4711')
  await auditLog.remove('dead-letters', 'operator:1')
})

test('too few nodes: nothing is decided, and the exit code is 69', async () => {
  const { id } = await expire('no majority')
  await Promise.all([servers.kill(0), servers.kill(1)])
  for (const more of [[], ['--yes']]) {
    const { exit, err } = await run('requeue', id, ...because, ...more)
    expect([exit, err]).toEqual([
      69,
      expect.stringMatching(/^quorum-unavailable: \d nodes? answered and 2 are/),
    ])
  }
})
