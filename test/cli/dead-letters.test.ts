// The operator's commands on orphans, and what the terminal prints, on real nodes.
import { expect, onTestFinished, test } from 'vitest'
import { deadLetters } from '../../src/cli/dead-letters.ts'
import type { AuditEntry } from '../../src/core/coordination/audit-log.ts'
import { createRedisAuditLog } from '../../src/redis/audit-log.ts'
import { systemClock } from '../../src/system/clock.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

async function orphaned() {
  const servers = await startRedisServers(3)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecar = await joinCluster(servers.urls)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  const auditLog = createRedisAuditLog({
    clients: () => sidecar.nodes.members.map(({ client }) => client),
    deadlineMs: 2_000,
    clock: systemClock,
  })
  /** A claim that lapses, and the dead letter that the sweeper writes. */
  const lapse = async (): Promise<AuditEntry> => {
    const claimed = await sidecar.claim('order', { leaseMs: 2_000, retentionMs: 60_000 })
    if (claimed.kind !== 'granted') throw new Error(claimed.kind)
    const { key, token, attempt, fingerprint } = claimed.lease
    await eventually('the lease to lapse', async () => {
      const record = await sidecar.leases.read(key)
      return record.kind === 'claimed' && record.remainingMs <= 0
    })
    const fields = { token: String(token), attempt: String(attempt), fingerprint }
    return { id: `orphan:${token}`, kind: 'orphan', atWallMs: 1, recordKey: key, fields }
  }
  const letter = async (entry: AuditEntry) => expect(await auditLog.append('dead-letters', entry)).toBe(true)
  const run = async (...args: string[]) => {
    const { io, stdout, stderr } = bufferedIo({
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_UPSTREAM: 'http://127.0.0.1:9',
      // A busy machine must not look like missing nodes.
      FENCEPOST_NODE_DEADLINE: '1s',
      FENCEPOST_CLAIM_BUDGET: '3s',
      FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
    })
    return { exit: await deadLetters(args, io), told: stdout() + stderr() }
  }
  const audited = async () => {
    const read = await auditLog.read('audit', 100)
    if (read.kind !== 'entries') throw new Error(read.kind)
    return read.entries.map(({ fields }) => [fields.act, fields.because])
  }
  return { sidecar, lapse, letter, run, audited }
}

test('a requeue repeated because its removal failed leaves a newer claim alone, and says so', async () => {
  const { sidecar, lapse, letter, run, audited } = await orphaned()
  const entry = await lapse()
  await letter(entry)
  expect(await run('requeue', entry.id)).toEqual({ exit: 0, told: `requeued ${entry.id}\n` })
  // The letter is still there, as when too few nodes removed it; meanwhile a later claim of the key has lapsed.
  await lapse()
  const same = { ...entry, id: `${entry.id}:again` }
  await letter(same)
  expect(await run('requeue', same.id)).toEqual({
    exit: 0,
    told: `Its record has moved on by itself (a later attempt): nothing was changed; dropped ${same.id}\n`,
  })
  expect(await audited()).toEqual([
    ['requeue', undefined],
    ['drop', 'a later attempt'],
  ])
  expect(await sidecar.claim('order')).toMatchObject({ kind: 'granted', lease: { attempt: 2 } })
})

test('a list says how to go on with older ones, and an entry of any page can be shown', async () => {
  const { letter, run } = await orphaned()
  const entry = (n: number): AuditEntry => ({
    id: `orphan:${n}`,
    kind: 'orphan',
    atWallMs: n,
    recordKey: 'dedup:default:default:v1:none',
    fields: {},
  })
  for (const n of [1, 2, 3]) await letter(entry(n))
  const newest = await run('list', '--limit', '2', '--json')
  const cursor = /^There are older ones: --before (\S+)$/m.exec(newest.told)?.[1] ?? ''
  expect(newest.told.match(/"id":"[^"]+"/g)).toEqual(['"id":"orphan:2"', '"id":"orphan:3"'])
  const older = await run('list', '--json', '--before', cursor)
  expect(older).toEqual({ exit: 0, told: `${JSON.stringify(entry(1))}\n` })
  expect(await run('list', '--before', 'yesterday')).toEqual({
    exit: 64,
    told: '--before yesterday is not accepted; accepted is what a list before ended with\n',
  })
  expect((await run('show', 'orphan:1')).exit).toBe(0)
})
