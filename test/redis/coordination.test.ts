// Coordination on real nodes: one sidecar sweeps, all write the audit log, an operator decides.
import { describe, expect, test } from 'vitest'
import { appendAudit } from '../../src/app/coordination.ts'
import { createSweeper } from '../../src/coordination/sweeper.ts'
import { type AuditEntry, reportingUntaken } from '../../src/core/coordination/audit-log.ts'
import { campaign, type Term } from '../../src/core/coordination/election.ts'
import {
  concludeOrphan,
  forgetOrphan,
  type Orphan,
  type SettleReply,
  type Verdict,
} from '../../src/core/coordination/settle-orphan.ts'
import { SILENT } from '../../src/core/events.ts'
import { contentMarkOf, ENTITY_MARK } from '../../src/core/request/identity.ts'
import { createRedisAuditLog } from '../../src/redis/audit-log.ts'
import { expiredClaims } from '../../src/redis/record-scan.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster, keyOf, type Sidecar } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const RETENTION_MS = 60_000
const TERMS = { leaseMs: 10_000, retentionMs: RETENTION_MS }
const NEVER = new AbortController().signal

function auditLogOf({ nodes }: Sidecar) {
  const clients = () =>
    nodes.members.map(({ state, client }) => (state.kind === 'voting' ? client : undefined))
  return createRedisAuditLog({ clients, deadlineMs: 2_000, clock: systemClock })
}

function sweeperOf(sidecar: Sidecar, ask?: (orphan: Orphan) => Promise<SettleReply>) {
  return createSweeper({
    sources: sidecar.nodes.members.map((_, index) => ({
      expired: async (cursor) => {
        const { found, cursor: next } = await expiredClaims(sidecar.nodes, index, cursor)
        return { found: found.map(({ recordKey, fence: token }) => ({ recordKey, token })), cursor: next }
      },
    })),
    leases: sidecar.leases,
    auditLog: auditLogOf(sidecar),
    clock: systemClock,
    terms: TERMS,
    ask,
    untaken: reportingUntaken(systemClock, SILENT),
    onFailure: (cause) => {
      throw cause
    },
  })
}

async function expiredClaim(sidecar: Sidecar, name: string, under = keyOf(name)): Promise<string> {
  const claimed = await sidecar.claim(name, { key: under, leaseMs: 200, retentionMs: RETENTION_MS })
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  const { key } = claimed.lease
  // On every node: leases begin when the claim arrives, so one node's may live a moment longer than another's.
  await eventually('the lease to expire on all nodes', async () => {
    const { nodes } = sidecar
    const shown = await Promise.all(nodes.members.map((_, index) => expiredClaims(nodes, index, '0')))
    return shown.every(({ found }) => found.some(({ recordKey }) => recordKey === key))
  })
  return key
}

const entry = (id: string, atWallMs: number): AuditEntry => ({
  id,
  kind: 'orphan',
  atWallMs,
  recordKey: 'k',
  fields: { a: 'b' },
})

test('the audit log has the entries of a majority, merged by their own ids, each once, from any writer', async () => {
  await using servers = await startRedisServers(5)
  await using one = await joinCluster(servers.urls)
  await using other = await joinCluster(servers.urls)
  const [here, there] = [auditLogOf(one), auditLogOf(other)]
  expect(await here.append('dead-letters', entry('second', 2))).toBe(true)
  expect(await there.append('dead-letters', entry('first', 1))).toBe(true)
  expect(await there.append('dead-letters', entry('second', 2))).toBe(true)
  expect(await here.read('dead-letters', 10)).toEqual({
    kind: 'entries',
    entries: [entry('first', 1), entry('second', 2)],
  })
  expect(await here.read('audit', 10)).toEqual({ kind: 'entries', entries: [] })

  await servers.kill(0)
  await servers.kill(1)
  expect(await there.remove('dead-letters', 'first')).toBe(true)
  expect(await there.read('dead-letters', 10)).toEqual({ kind: 'entries', entries: [entry('second', 2)] })
  await servers.kill(2)
  expect(await there.append('dead-letters', entry('third', 3))).toBe(false)
  expect((await there.read('dead-letters', 10)).kind).toBe('unavailable')
})

test('an entry that was cut off half-way is completed by the next append of it', async () => {
  await using servers = await startRedisServers(3)
  // A look in between would find that its user may not do what it must, and take its vote.
  await using sidecar = await joinCluster(servers.urls, { inspectEveryMs: 600_000 })
  const auditLog = auditLogOf(sidecar)
  const allow = (rule: string) =>
    Promise.all(sidecar.nodes.members.map(({ client }) => client.call('ACL', 'SETUSER', 'default', rule)))
  // As a crash, a lost connection or a full node between its commands would.
  await allow('-xadd')
  expect(await auditLog.append('dead-letters', entry('an orphan', 1))).toBe(false)
  await allow('+xadd')
  expect(await auditLog.append('dead-letters', entry('an orphan', 1))).toBe(true)
  expect(await auditLog.read('dead-letters', 10)).toEqual({
    kind: 'entries',
    entries: [entry('an orphan', 1)],
  })
})

test('the sweeper records an orphan once, and no live claim, outcome, entity or mark of a content', async () => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  const orphan = await expiredClaim(sidecar, 'orphan')
  await expiredClaim(
    sidecar,
    'an entity',
    keyOf('an entity').replace(/:(?=[0-9a-f]{64}$)/, `${ENTITY_MARK}:`),
  )
  await expiredClaim(sidecar, 'a content', contentMarkOf(keyOf('a content')))
  await sidecar.carryOut('done')
  await sidecar.claim('live', { leaseMs: 30_000 })

  expect(await sweeperOf(sidecar).sweepOnce(NEVER)).toBe(1)
  expect(await sweeperOf(sidecar).sweepOnce(NEVER)).toBe(1)
  const read = await auditLogOf(sidecar).read('dead-letters', 10)
  expect(read.kind === 'entries' && read.entries.map(({ recordKey }) => recordKey)).toEqual([orphan])
})

// Bug: for as long as one node was down every sweep wrote `coordination stumbled` with a stack trace, which the runbooks take for missing rights.
test('a sweep beside a node that does not vote finds what the others show, and fails at nothing', async () => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  await expiredClaim(sidecar, 'a')
  await servers.kill(0)
  await eventually('the node is down', () => sidecar.nodes.members[0]?.state.kind === 'down')
  expect(await sweeperOf(sidecar).sweepOnce(NEVER)).toBe(1)
})

test.each<[verdict: Verdict, open: number, next: string]>([
  ['completed', 0, 'duplicate'],
  ['released', 0, 'granted'],
  ['unknown', 1, 'granted'],
])('the application says %s', async (verdict, open, next) => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  await expiredClaim(sidecar, 'asked')
  const asked: Orphan[] = []
  const sweeper = sweeperOf(sidecar, async (orphan) => {
    asked.push(orphan)
    return verdict
  })
  expect(await sweeper.sweepOnce(NEVER)).toBe(open)
  expect(asked).toMatchObject([{ attempt: 1 }])
  const claimed = await sidecar.claim('asked')
  expect(claimed.kind).toBe(next)
  // Only after an unknown verdict does the next attempt learn that it may be the second.
  if (claimed.kind === 'granted') expect(claimed.lease.attempt).toBe(verdict === 'unknown' ? 2 : 1)
})

test('the application sends the answer that it gave: duplicates get that, and the orphan is settled', async () => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  await expiredClaim(sidecar, 'reconciled')
  const outcome = {
    kind: 'response',
    status: 201,
    headers: [['Location', '/payments/1']],
    body: Buffer.from([0, 255, 10]),
    completedAtWallMs: 7,
  } as const
  const sweeper = sweeperOf(sidecar, async () => ({ verdict: 'completed', outcome }))
  expect(await sweeper.sweepOnce(NEVER)).toBe(0)
  expect(await sidecar.claim('reconciled')).toMatchObject({ kind: 'duplicate', outcome })
  const letters = await auditLogOf(sidecar).read('dead-letters', 10)
  expect(letters.kind === 'entries' && letters.entries).toEqual([])
})

test.each<Verdict>(['completed', 'released'])(
  'a request that is executed and recorded while the application is asked is no orphan, though the verdict is %s',
  async (verdict) => {
    await using servers = await startRedisServers(5)
    await using sidecar = await joinCluster(servers.urls)
    await expiredClaim(sidecar, 'again')
    const outcome = { kind: 'result', result: 'paid', completedAtWallMs: 0 } as const
    const sweeper = sweeperOf(sidecar, async () => {
      const claimed = await sidecar.claim('again')
      if (claimed.kind !== 'granted') throw new Error(claimed.kind)
      expect(await sidecar.leases.complete(claimed.lease, outcome)).toEqual({ kind: 'recorded' })
      return verdict
    })
    expect(await sweeper.sweepOnce(NEVER)).toBe(0)
    const read = await auditLogOf(sidecar).read('dead-letters', 10)
    expect(read.kind === 'entries' && read.entries).toEqual([])
    expect(await sidecar.claim('again')).toMatchObject({ kind: 'duplicate', outcome: { result: 'paid' } })
  },
)

describe('the letter of a lease that was lost under working code', () => {
  const OUTCOME = { kind: 'tombstone', status: 200, completedAtWallMs: 0 } as const
  const lettersOf = async (sidecar: Sidecar) => {
    const read = await auditLogOf(sidecar).read('dead-letters', 10)
    return read.kind === 'entries' ? read.entries.map(({ kind }) => kind) : read.kind
  }
  /** A claim whose holder lost its lease, and the letter that its sidecar wrote. */
  async function lostClaim(sidecar: Sidecar, name: string) {
    const recordKey = await expiredClaim(sidecar, name)
    const record = await sidecar.leases.read(recordKey)
    if (record.kind !== 'claimed') throw new Error(record.kind)
    const { token, attempt, fingerprint } = record
    appendAudit(
      auditLogOf(sidecar),
      systemClock,
      reportingUntaken(systemClock, SILENT),
    )({
      kind: 'lease_ended',
      recordKey,
      token,
      attempt,
      fingerprint,
      ended: 'lost',
      heldMs: 1,
      remainingMs: 0,
    })
    await eventually('the letter', async () => (await lettersOf(sidecar)).length === 1)
    return token
  }
  const retry = async (sidecar: Sidecar, name: string) => {
    const claimed = await sidecar.claim(name)
    if (claimed.kind !== 'granted') throw new Error(claimed.kind)
    expect(await sidecar.leases.complete(claimed.lease, OUTCOME)).toEqual({ kind: 'recorded' })
  }

  test('is the only one of its claim, though the sweeper finds the claim expired', async () => {
    await using servers = await startRedisServers(3)
    await using sidecar = await joinCluster(servers.urls)
    await lostClaim(sidecar, 'expired')
    expect(await sweeperOf(sidecar).sweepOnce(NEVER)).toBe(1)
    expect(await lettersOf(sidecar)).toEqual(['renewal_failed'])
  })

  test.each<[verdict: Verdict | 'nobody is asked', left: readonly string[]]>([
    ['nobody is asked', ['renewal_failed']],
    ['unknown', ['renewal_failed']],
    ['completed', ['renewal_failed']],
    ['released', []],
  ])('where a retry took over first, and the application says: %s', async (verdict, left) => {
    await using servers = await startRedisServers(3)
    await using sidecar = await joinCluster(servers.urls)
    const token = await lostClaim(sidecar, 'taken over')
    await retry(sidecar, 'taken over')
    const asked: Orphan[] = []
    const ask = async (orphan: Orphan) => {
      asked.push(orphan)
      return verdict as Verdict
    }
    await sweeperOf(sidecar, verdict === 'nobody is asked' ? undefined : ask).sweepOnce(NEVER)
    expect(await lettersOf(sidecar)).toEqual(left)
    // About the claim that was lost, not about the one that took over.
    expect(asked.map((orphan) => orphan.token)).toEqual(verdict === 'nobody is asked' ? [] : [token])
    // What was recorded stands in any case.
    expect((await sidecar.claim('taken over')).kind).toBe('duplicate')
  })
})

test('an operator decides about an orphan; a request that went on meanwhile is left alone', async () => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: 0 } as const
  const orphanOf = async (name: string) => {
    const recordKey = await expiredClaim(sidecar, name)
    const record = await sidecar.leases.read(recordKey)
    if (record.kind !== 'claimed') throw new Error(record.kind)
    return { recordKey, fingerprint: record.fingerprint, attempt: record.attempt, token: record.token }
  }
  expect(await forgetOrphan(await orphanOf('requeued'), TERMS, sidecar.leases)).toEqual({
    kind: 'settled',
  })
  expect(await sidecar.claim('requeued')).toMatchObject({ kind: 'granted', lease: { attempt: 1 } })
  expect(await concludeOrphan(await orphanOf('concluded'), outcome, TERMS, sidecar.leases)).toEqual({
    kind: 'settled',
  })
  expect(await sidecar.claim('concluded')).toMatchObject({
    kind: 'duplicate',
    outcome: { kind: 'tombstone' },
  })

  const moved = await orphanOf('moved')
  await sidecar.claim('moved', { leaseMs: 30_000 })
  expect(await forgetOrphan(moved, TERMS, sidecar.leases)).toEqual({
    kind: 'not_an_orphan',
    because: 'held',
  })
})

test('a decision is about one attempt: where another one has expired meanwhile, no claim is forgotten', async () => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  const recordKey = await expiredClaim(sidecar, 'tried again')
  const record = await sidecar.leases.read(recordKey)
  if (record.kind !== 'claimed') throw new Error(record.kind)
  const { fingerprint, attempt, token } = record
  const orphan = { recordKey, fingerprint, attempt, token }
  await expiredClaim(sidecar, 'tried again')
  expect(await forgetOrphan(orphan, TERMS, sidecar.leases)).toEqual({
    kind: 'not_an_orphan',
    because: 'a later attempt',
  })
  expect(await sidecar.claim('tried again')).toMatchObject({ kind: 'granted', lease: { attempt: 3 } })
})

test('a repeated decision is about the same claim: a newer first attempt is not forgotten', async () => {
  await using servers = await startRedisServers(5)
  await using sidecar = await joinCluster(servers.urls)
  const recordKey = await expiredClaim(sidecar, 'decided')
  const record = await sidecar.leases.read(recordKey)
  if (record.kind !== 'claimed') throw new Error(record.kind)
  const { fingerprint, attempt, token } = record
  const orphan = { recordKey, fingerprint, attempt, token }
  expect(await forgetOrphan(orphan, TERMS, sidecar.leases)).toEqual({ kind: 'settled' })
  await expiredClaim(sidecar, 'decided')
  expect(await forgetOrphan(orphan, TERMS, sidecar.leases)).toEqual({
    kind: 'not_an_orphan',
    because: 'a later attempt',
  })
  expect(await sidecar.claim('decided')).toMatchObject({ kind: 'granted', lease: { attempt: 2 } })
})

test('one candidate leads; when it resigns another one leads under a larger token', async () => {
  await using servers = await startRedisServers(5)
  await using one = await joinCluster(servers.urls)
  await using other = await joinCluster(servers.urls)
  const terms: { name: string; term: Term }[] = []
  const candidate = (name: string, { leases }: Sidecar) =>
    campaign({
      recordKey: 'dedup::office:test',
      // Long enough to be kept by a process that is held up for two seconds.
      leaseMs: 3_000,
      lead: (term) =>
        new Promise((resolve) => {
          terms.push({ name, term })
          term.over.addEventListener('abort', () => resolve(), { once: true })
        }),
      onFailure: (cause) => {
        throw cause
      },
      leases,
      clock: systemClock,
      random: systemRandom,
      events: SILENT,
    })
  const first = candidate('one', one)
  await eventually('the first to lead', () => first.leading)
  await using second = candidate('other', other)
  await eventually('the other to see the leader', () => second.filled)
  expect([first.leading, second.leading]).toEqual([true, false])
  expect(first.filled).toBe(true)

  await first[Symbol.asyncDispose]()
  await eventually('the other to lead', () => second.leading)
  expect(terms.map(({ name }) => name).slice(-1)).toEqual(['other'])
  expect(terms.at(-1)!.term.token).toBeGreaterThan(terms[0]!.term.token)
  expect(terms[0]!.term.over.aborted).toBe(true)
})
