/** For how long a decision about an orphan is kept: a record does not name its route, and each route has its own retention. */
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { adoptOutcome, concludeOrphan, type Orphan } from '../../../src/core/coordination/settle-orphan.ts'
import { SILENT } from '../../../src/core/events.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const CLAIM = { key: 'k', fingerprint: 'f'.repeat(64), leaseMs: 30_000, budgetMs: 100 } as const
/** Those of the configuration, which knows no route of the record. */
const TERMS = { leaseMs: 30_000, retentionMs: DAY_MS }
const OUTCOME = { kind: 'tombstone', status: 200, completedAtWallMs: 0 } as const

/** A claim of a route with this retention, a minute after its lease has expired. */
async function orphanOf(retentionMs: number) {
  const clock = new VirtualClock()
  const nodes = createEmbeddedNodes(3, clock, 10_000, SILENT)
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const leases = createLeases({ quorum, clock, random: seededRandom(1), events: SILENT })
  const retry = () => leases.claim({ ...CLAIM, retentionMs })
  const claimed = await retry()
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  await clock.advance(CLAIM.leaseMs + MINUTE_MS)
  const { token, fingerprint, attempt } = claimed.lease
  const orphan: Orphan = { recordKey: CLAIM.key, fingerprint, attempt, token }
  return { clock, nodes, leases, retry, lease: claimed.lease, orphan }
}

describe.each([
  ['thirty days', 30 * DAY_MS, 29 * DAY_MS],
  ['five minutes', 5 * MINUTE_MS, 3 * MINUTE_MS],
])('of a route that keeps its records for %s', (_, retentionMs, withinMs) => {
  test('an outcome that is decided answers duplicates for as long as the record of the claim would have', async () => {
    const { clock, leases, retry, orphan } = await orphanOf(retentionMs)
    expect(await concludeOrphan(orphan, OUTCOME, TERMS, leases)).toEqual({ kind: 'settled' })
    await clock.advance(withinMs)
    expect(await retry()).toMatchObject({ kind: 'duplicate' })
    await clock.advance(retentionMs - withinMs)
    expect(await retry()).toMatchObject({ kind: 'granted', lease: { attempt: 1 } })
  })

  test('so does an outcome of a minority that is adopted', async () => {
    const { clock, nodes, leases, retry, lease, orphan } = await orphanOf(retentionMs)
    const { key, token, owner, fingerprint, attempt } = lease
    const outcome = encodeOutcome(OUTCOME, token)
    const kept = { outcome, keyTtlMs: retentionMs - MINUTE_MS }
    await nodes[0]?.execute({ kind: 'complete', key, token, owner, fingerprint, attempt, ...kept })
    expect(await adoptOutcome(orphan, TERMS, leases)).toBe(true)
    await clock.advance(withinMs)
    expect(await retry()).toMatchObject({ kind: 'duplicate' })
  })
})
