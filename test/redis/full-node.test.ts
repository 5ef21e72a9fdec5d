// One server at `maxmemory`: it answers from its records, takes writes that do not grow, and refuses others whole.
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { tokenAt } from '../../src/core/record/token.ts'
import { createRedisAuditLog } from '../../src/redis/audit-log.ts'
import { createRedisWaitQueues } from '../../src/redis/wait-queues.ts'
import { systemClock } from '../../src/system/clock.ts'
import { duringTests } from '../support/during-tests.ts'
import { openRedisNode, STANDING_CLOCK } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'

let operator: Redis

const servers = duringTests(() => startRedisServers(1))
const opened = duringTests(() => openRedisNode({ url: servers.at(0).url }, { clock: STANDING_CLOCK }))
beforeAll(() => {
  operator = new Redis(servers.at(0).url)
})
afterAll(() => operator?.disconnect())
beforeEach(() => operator.config('SET', 'maxmemory', '0'))

const fill = () => operator.config('SET', 'maxmemory', '1')
const nowMs = Date.now()
const token = (count: number) => tokenAt(nowMs - 1_000 + count)
let keys = 0
const newKey = () => {
  keys += 1
  return `dedup:shop:test:v1:${keys}`
}

const A = 'a'.repeat(32)
const B = 'b'.repeat(32)
const fingerprint = 'f'.repeat(64)
const keyTtlMs = 3_600_000
const outcome = Buffer.from('what came of it'.repeat(40))

const claim = (key: string, count: number, owner = A, leaseMs = 10_000): RecordCommand => ({
  kind: 'claim',
  key,
  token: token(count),
  owner,
  leaseMs,
  fingerprint,
  keyTtlMs,
})
const renew = (key: string, count: number, owner = A): RecordCommand => ({
  kind: 'renew',
  key,
  token: token(count),
  owner,
  leaseMs: 20_000,
  fingerprint,
  attempt: 1,
  keyTtlMs,
})
const complete = (key: string, count: number, owner = A, what = outcome): RecordCommand => ({
  kind: 'complete',
  key,
  token: token(count),
  owner,
  fingerprint,
  attempt: 1,
  outcome: what,
  keyTtlMs,
})
const release = (key: string, count: number, owner = A): RecordCommand => ({
  kind: 'release',
  key,
  token: token(count),
  owner,
  keyTtlMs,
})
const say = (command: RecordCommand) => opened.node.execute(command)

const NO_ROOM = {
  kind: 'unreachable',
  reason: 'refused',
  answered: true,
  full: true,
  detail: expect.stringContaining('OOM'),
}

describe('a node at maxmemory', () => {
  test('a full node answers a duplicate, promises its token, and keeps the outcome as long as before', async () => {
    const key = newKey()
    await say(claim(key, 1))
    await say(complete(key, 1))
    const leftMs = await operator.pttl(key)
    await fill()
    expect(await say(claim(key, 2, B))).toMatchObject({
      kind: 'completed',
      promised: true,
      fence: token(2),
      acceptedToken: token(1),
      outcome,
    })
    expect(await say(complete(key, 1, A, Buffer.from('another')))).toMatchObject({ kind: 'completed' })
    expect(await say({ kind: 'read', key })).toMatchObject({
      record: { state: 'completed', fence: token(2), owner: B, acceptedToken: token(1), outcome },
    })
    const nowLeftMs = await operator.pttl(key)
    expect(nowLeftMs).toBeLessThanOrEqual(leftMs)
    expect(nowLeftMs).toBeGreaterThan(leftMs - 10_000)
  })

  test('a full node keeps a promise that outlives its outcome, and says when the outcome is over', async () => {
    const key = newKey()
    await say(claim(key, 1))
    await say(complete(key, 1))
    await operator.pexpire(key, 60_000)
    await fill()
    expect(await say(claim(key, 2, B, 100_000))).toMatchObject({ kind: 'completed', promised: true, outcome })
    expect(await say({ kind: 'read', key })).toMatchObject({
      record: { state: 'completed', fence: token(2), overAtNodeMs: expect.any(Number), outcome },
    })
    expect(await operator.pttl(key)).toBeGreaterThan(60_000)
  })

  test('a full node answers with the holder of a claim, renews its lease, and takes its release', async () => {
    const key = newKey()
    await say(claim(key, 1))
    await fill()
    expect(await say(claim(key, 2, B))).toMatchObject({ kind: 'held', fence: token(1) })
    expect(await say(renew(key, 1))).toMatchObject({ kind: 'renewed' })
    expect(await say(claim(key, 3, B))).toMatchObject({ kind: 'held', remainingMs: expect.any(Number) })
    expect(await say(release(key, 1))).toMatchObject({ kind: 'released' })
    expect(await say({ kind: 'read', key })).toMatchObject({ record: { state: 'released', fence: token(1) } })
    expect(await operator.pttl(key)).toBeGreaterThan(0)
  })

  async function nodeMs(): Promise<number> {
    const [seconds = 0, micros = 0] = (await operator.time()).map(Number)
    return seconds * 1_000 + micros / 1_000
  }

  test('a full node grants neither a new key, nor a released one, nor an expired claim', async () => {
    const [fresh, released, expired] = [newKey(), newKey(), newKey()]
    await say(claim(released, 1))
    await say(release(released, 1))
    await say(claim(expired, 1, A, 1))
    const claimedMs = await nodeMs()
    await fill()
    // The lease of 1 ms is over by the node's clock, also where filling it took no time.
    while ((await nodeMs()) < claimedMs + 2) await operator.ping()
    const before = await Promise.all([released, expired].map((key) => operator.getBuffer(key)))
    for (const key of [fresh, released, expired]) expect(await say(claim(key, 5, B))).toMatchObject(NO_ROOM)
    expect(await operator.exists(fresh)).toBe(0)
    expect(await Promise.all([released, expired].map((key) => operator.getBuffer(key)))).toEqual(before)
  })

  test('a full node refuses an outcome without room, and leaves the claim as it was', async () => {
    const key = newKey()
    await say(claim(key, 1))
    const before = await operator.getBuffer(key)
    await fill()
    expect(await say(complete(key, 1))).toMatchObject(NO_ROOM)
    expect(await operator.getBuffer(key)).toEqual(before)
    await operator.config('SET', 'maxmemory', '0')
    expect(await say(complete(key, 1))).toMatchObject({ kind: 'recorded' })
  })

  test('a full node lets no record grow beside one that it replaces in the same call', async () => {
    const [held, granted, done, fresh] = [newKey(), newKey(), newKey(), newKey()]
    await say(claim(held, 1))
    await say(claim(granted, 1))
    await say(claim(done, 1))
    await say(complete(done, 1))
    await fill()
    const answers = await Promise.all([
      say(renew(held, 1)),
      say(claim(fresh, 1)),
      say(complete(granted, 1)),
      say(complete(fresh, 1)),
      say(claim(done, 2, B)),
      say(release(held, 1)),
    ])
    expect(answers).toMatchObject([
      { kind: 'renewed' },
      NO_ROOM,
      NO_ROOM,
      NO_ROOM,
      { kind: 'completed', promised: true },
      { kind: 'released' },
    ])
    expect(await operator.exists(fresh)).toBe(0)
    expect(await operator.strlen(granted)).toBe(166)
  })

  test('a full node takes no entry of the audit log and no mark, so that the entry is written later', async () => {
    const clock = { ...STANDING_CLOCK, timer: systemClock.timer }
    const auditLog = createRedisAuditLog({ clients: () => [opened.client], deadlineMs: 5_000, clock })
    const entry = { id: 'fact-1', kind: 'orphan', atWallMs: nowMs, recordKey: 'k', fields: {} } as const
    await fill()
    expect(await auditLog.append('audit', entry)).toBe(false)
    await operator.config('SET', 'maxmemory', '0')
    expect(await auditLog.append('audit', entry)).toBe(true)
    expect(await auditLog.read('audit', 10)).toMatchObject({ kind: 'entries', entries: [{ id: 'fact-1' }] })
  })

  test('a full node keeps no wait queue, so that no request waits for a call that cannot come', async () => {
    const clock = { ...STANDING_CLOCK, timer: systemClock.timer }
    const queues = createRedisWaitQueues({
      clients: () => [opened.client],
      nodeCount: 1,
      deadlineMs: 5_000,
      clock,
      untaken: () => {},
    })
    const entry = { process: 'abc', first: 0, last: 0, draws: 1, openTo: 0, aliveMs: 2_000 }
    await fill()
    expect(await queues.update('a record', entry)).toEqual([])
    await operator.config('SET', 'maxmemory', '0')
    expect(await queues.update('a record', entry)).toHaveLength(1)
  })

  test('a full node keeps a record for which a command names no lifetime', async () => {
    const key = newKey()
    await say(claim(key, 1))
    const before = await operator.getBuffer(key)
    await fill()
    expect(await say({ ...renew(key, 1), keyTtlMs: 0 } as RecordCommand)).toMatchObject({
      kind: 'unreachable',
    })
    expect(await operator.getBuffer(key)).toEqual(before)
  })
})
