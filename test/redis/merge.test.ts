/** `adopt.lua` against `core/record/record-merge.ts`: both give the same result for every record and copy. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseKeyRing, seal } from '../../src/core/nodes/key-ring.ts'
import type { MemberActs } from '../../src/core/nodes/member.ts'
import { CatchUpCounter } from '../../src/core/nodes/rejoin-rules.ts'
import { adoptRecord, mergeSnapshots, type RecordSnapshot } from '../../src/core/record/record-merge.ts'
import { whatStands } from '../../src/core/record/record-rules.ts'
import { encodeOutcome, endOf } from '../../src/core/record/stored-outcome.ts'
import { memberActs } from '../../src/redis/link.ts'
import { loadBatchScript } from '../../src/redis/scripts.ts'
import { packRecord } from '../../src/redis/wire.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { arbitraryRecord } from '../support/arbitrary-records.ts'
import { openRedisNode, TEST_INCARNATION } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { seedOfRun } from '../support/seeded-random.ts'

type Opened = Awaited<ReturnType<typeof openRedisNode>>

async function rejoiningNode({ client }: Opened): Promise<MemberActs> {
  return memberActs({
    counts: () => true,
    name: 'redis-0',
    client,
    script: loadBatchScript(),
    runId: /run_id:(\w+)/.exec(await client.info('server'))?.[1] ?? '',
    incarnation: TEST_INCARNATION,
    deadlineMs: 5_000,
    clock: systemClock,
    catchUp: new CatchUpCounter(),
    sameConnection: () => true,
  })
}

test('a Redis node shows beside a header when the outcome ends, and no more of it', async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode({ url: servers.at(0).url })
  const node = await rejoiningNode(opened)
  const end = { atMs: Date.now() + 60_000, toleratedMs: 700 }
  const secret = 'card '.repeat(100)
  const plain = encodeOutcome({ kind: 'result', result: secret, completedAtWallMs: 0 }, 7, end)
  const name = 'n'.repeat(32)
  const parsed = parseKeyRing(`${name} ${Buffer.alloc(32, 1).toString('base64')}`)
  if (parsed.kind === 'refused') throw new Error(parsed.reason)
  const key = 'dedup:t:e:v:ends'
  for (const outcome of [plain, seal(parsed.ring, { key, acceptedToken: 7 }, plain)]) {
    const record = {
      state: 'completed',
      fence: 7,
      owner: 'a'.repeat(32),
      acceptedToken: 7,
      attempt: 1,
      fingerprint: 'f'.repeat(64),
      claimedAtNodeMs: 0,
      outcome,
    } as const
    await opened.client.set(key, packRecord(record), 'PX', 60_000)
    const { nodeMs, snapshots } = await node.inspect([key], false)
    const [shown] = snapshots
    if (shown === undefined || shown === 'damaged' || shown.record.state !== 'completed')
      throw new Error('the outcome is not shown')
    expect(endOf(shown.record.outcome)).toEqual(end)
    expect(shown.record.outcome.length).toBeLessThan(outcome.length)
    expect(Math.abs(nodeMs - Date.now())).toBeLessThan(30_000)
  }
})

test('a Redis node that gets a copy holds the record that the rules say', async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode({ url: servers.at(0).url })
  const { client } = opened
  const node = await rejoiningNode(opened)
  const nonce = systemRandom.hex(16)
  await node.begin(nonce, 'forgot')
  const nowMs = Date.now()
  const record = fc.record({
    record: arbitraryRecord(nowMs),
    ttlMs: fc.constantFrom(300_000, 400_000, 500_000),
  })
  const told = fc.array(record, { minLength: 1, maxLength: 3 })
  // Of an outcome whose time is over only the promise is left.
  const own = fc
    .tuple(record, fc.boolean())
    .map(([one, isOver]) =>
      isOver && one.record.state === 'completed'
        ? { ...one, record: { ...one.record, overAtNodeMs: nowMs - 60_000 } }
        : one,
    )
  let runs = 0
  let outlived = 0
  await fc.assert(
    fc.asyncProperty(
      fc.option(own, { nil: undefined }),
      told,
      fc.integer({ min: 1, max: 3 }),
      async (stored, others, needed) => {
        runs += 1
        const key = `dedup:t:e:v:${runs}`
        if (stored !== undefined) await client.set(key, packRecord(stored.record), 'PX', stored.ttlMs)
        const merged = mergeSnapshots(
          others.map((one) => ({ ...one, nodeMs: nowMs })),
          needed,
        )
        if (merged === undefined) throw new Error('something was told')
        await node.adopt(nonce, [{ key, merged }])

        const { snapshots } = await node.inspect([key], true)
        const [shown] = snapshots
        if (shown === undefined || shown === 'damaged') throw new Error(`the record is ${shown}`)
        const standing = whatStands(stored?.record, shown.nodeMs)
        const mine = stored && standing && { record: standing, ttlMs: stored.ttlMs }
        const expected = adoptRecord(mine, merged, shown.nodeMs)
        expect(withoutClock(shown)).toEqual(withoutClock({ ...expected, nodeMs: shown.nodeMs }))
        if (shown.record.state === 'completed' && shown.record.overAtNodeMs !== undefined) outlived += 1
      },
    ),
    { seed: seedOfRun('adopt'), numRuns: 1_500 },
  )
  expect(outlived).toBeGreaterThan(100)
})

/** Leases, outcomes and lifetimes run on between the two calls: for much less than this. */
const APART_MS = 20_000

function withoutClock({ record, nodeMs, ttlMs }: RecordSnapshot): unknown {
  const remaining = (untilNodeMs: number) => Math.round(Math.max(0, untilNodeMs - nodeMs) / APART_MS)
  const lifetime = Math.round(ttlMs / APART_MS)
  switch (record.state) {
    case 'released':
      return { record, lifetime }
    case 'claimed':
      return { record: { ...record, leaseUntilNodeMs: remaining(record.leaseUntilNodeMs) }, lifetime }
    case 'completed': {
      const { overAtNodeMs = nodeMs + ttlMs, ...outcome } = record
      return { record: outcome, over: remaining(overAtNodeMs), lifetime }
    }
  }
}
