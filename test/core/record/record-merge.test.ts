import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { NO_OWNER, type NodeRecord } from '../../../src/core/record/record.ts'
import {
  adoptRecord,
  leasedAtMost,
  mergeRecords,
  mergeSnapshots,
  onNoClock,
  type RecordSnapshot,
} from '../../../src/core/record/record-merge.ts'
import { arbitraryRecord } from '../../support/arbitrary-records.ts'

const [ANN, BOB] = ['a'.repeat(32), 'b'.repeat(32)]
const PRINT = 'f'.repeat(64)

const released = (fence: number): NodeRecord => ({ state: 'released', fence })
const claimed = (fence: number, attempt = 1, leaseUntilNodeMs = 900, owner = ANN): NodeRecord => ({
  state: 'claimed',
  fence,
  owner,
  leaseUntilNodeMs,
  attempt,
  fingerprint: PRINT,
  claimedAtNodeMs: 0,
})
const kept = (record: NodeRecord): NodeRecord => ({ ...record, kept: true }) as NodeRecord
const expired = (fence: number, attempt = 1) => claimed(fence, attempt, 0)
const givenBack = (fence: number, attempt: number) => claimed(fence, attempt, 0, NO_OWNER)
const completed = (
  acceptedToken: number,
  fence = acceptedToken,
  copied = false,
  owner = ANN,
): NodeRecord => ({
  state: 'completed',
  fence,
  owner,
  acceptedToken,
  attempt: 1,
  fingerprint: PRINT,
  claimedAtNodeMs: 0,
  outcome: Buffer.from(`of ${acceptedToken}`),
  ...(copied ? { copied: true as const } : {}),
})

/** Of records that last for another second: {@link onNoClock}. */
const lasting = (record: NodeRecord) => onNoClock({ record, nodeMs: 0, ttlMs: 1_000 })

describe('two nodes remember one record differently; a third gets', () => {
  test.each<[what: string, one: NodeRecord, other: NodeRecord, merged: NodeRecord]>([
    ['the larger fence', released(5), released(9), released(9)],
    ['the claim with the larger token', expired(5), claimed(9, 2, 900, BOB), claimed(9, 2, 900, BOB)],
    ['the longer lease of one claim', claimed(5, 1, 300), claimed(5, 1, 900), claimed(5, 1, 900)],
    ['a claim as kept, where one of them knows that', kept(claimed(5, 1, 300)), claimed(5), kept(claimed(5))],
    ['a claim as not kept, where a smaller one was', claimed(9, 2), kept(expired(5)), claimed(9, 2)],
    ['no kept claim, where its fence is a release', kept(expired(5, 2)), released(9), givenBack(9, 2)],
    // Found by simulation: two claimants had proposed one token, and the release was the other's.
    ['a claim rather than a release of the same token', claimed(5), released(5), claimed(5)],
    ['a takeover rather than what its release left behind', claimed(5, 3), givenBack(5, 2), claimed(5, 3)],
    // Found by simulation: the node had forgotten the first attempt, and giving the takeover back left no trace of it.
    [
      'the record before a claim that its node took for the first',
      claimed(5),
      givenBack(5, 1),
      claimed(5, 2),
    ],
    ['a claim whose takeover its node missed', expired(5), claimed(9, 1, 900, BOB), claimed(9, 2, 900, BOB)],
    [
      'an attempt that only a node with a smaller fence knows of',
      expired(5, 2),
      released(9),
      givenBack(9, 2),
    ],
    ['the outcome rather than its claim', claimed(5), completed(5), completed(5)],
    ['the outcome with the larger token', completed(5), completed(9), completed(9)],
    // No larger promise: repeating an acceptance equals a late message.
    ['an outcome with no larger promise above it', expired(4), completed(5), completed(5)],
    // A larger promise: repeating it would accept against that promise. It is copied, and marked as a copy.
    ['an outcome below a promise', claimed(9, 1, 900, BOB), completed(5), completed(5, 9, true, BOB)],
    ['an outcome below the fence of a release', released(9), completed(5), completed(5, 9, true, NO_OWNER)],
    [
      'an outcome whose replay raised the fence',
      completed(5),
      completed(5, 9, false, BOB),
      completed(5, 9, true, BOB),
    ],
  ])('%s', (_, one, other, merged) => {
    expect(mergeRecords(lasting(one), lasting(other))).toEqual(lasting(merged))
    expect(mergeRecords(lasting(other), lasting(one))).toEqual(lasting(merged))
  })
})

const seen = (record: NodeRecord, ttlMs = 1_000): RecordSnapshot => ({ record, nodeMs: 0, ttlMs })

test('an outcome that a majority accepted is copied as accepted, however far the fence was raised since', () => {
  const majority = [seen(completed(5, 9)), seen(completed(5, 7)), seen(completed(5, 5))]
  expect(mergeSnapshots(majority, 3)).toMatchObject({ chosen: true, record: { fence: 9 } })
  expect(mergeSnapshots(majority, 3)?.record).not.toHaveProperty('copied')
})

test('an outcome with a majority at one token is copied as accepted, though a minority shows it at a larger one', () => {
  const snapshots = [seen(completed(9)), seen(completed(5, 9)), seen(completed(5, 9)), seen(completed(5, 7))]
  expect(mergeSnapshots(snapshots, 3)).toEqual({ record: completed(5, 9), ttlMs: 1_000, chosen: true })
})

test('a copy is no vote: two that accepted and one copy are no majority of three', () => {
  const snapshots = [seen(completed(5, 9)), seen(completed(5, 9)), seen(completed(5, 9, true))]
  expect(mergeSnapshots(snapshots, 3)).toMatchObject({ chosen: false, record: { copied: true } })
})

test('the longest memory is kept, and no records merge to none', () => {
  expect(mergeSnapshots([seen(released(5), 10), seen(released(4), 99)], 2)?.ttlMs).toBe(99)
  expect(mergeSnapshots([], 2)).toBeUndefined()
})

/** Found by simulation: with each node that copied it an outcome lasted longer, and came back in place of a later one. */
describe('a promise outlives the outcome beside it; a copy of both', () => {
  const outlived = (overAtNodeMs: number, fence = 5): NodeRecord =>
    ({ ...completed(5, fence), overAtNodeMs }) as NodeRecord
  const at = (nodeMs: number, record: NodeRecord, ttlMs: number): RecordSnapshot => ({
    record,
    nodeMs,
    ttlMs,
  })

  test.each<[what: string, shown: readonly RecordSnapshot[], lastsMs: number | undefined]>([
    ['has what remains of the outcome', [at(10_000, outlived(10_300), 900)], 300],
    [
      'has the longest memory of it, whatever the clocks say',
      [at(10_000, outlived(10_300), 900), at(50_000, outlived(50_400, 7), 600)],
      400,
    ],
    [
      'has the lifetime of another node’s record, where that is the outcome’s own',
      [at(10_000, outlived(10_300, 7), 900), at(0, completed(5), 500)],
      500,
    ],
    [
      'lasts no longer for the release of another node',
      [at(10_000, completed(5), 300), at(0, released(7), 900)],
      300,
    ],
    [
      'lasts as its own outcome does, and not as one of another token',
      [at(10_000, completed(9), 300), at(0, completed(5), 900)],
      300,
    ],
    [
      'lasts as the chosen outcome does, and not as a later one of a minority',
      [
        at(10_000, outlived(10_300), 900),
        at(0, completed(5), 400),
        at(0, completed(5), 200),
        at(0, completed(9), 800),
      ],
      400,
    ],
    [
      'needs no time where the outcome lasts longest',
      [at(10_000, outlived(10_300), 900), at(0, completed(5), 900)],
      undefined,
    ],
    [
      'still has the outcome in its last millisecond, and for no longer',
      [at(10_000, outlived(10_000), 900)],
      1,
    ],
  ])('%s', (_, shown, lastsMs) => {
    // The longest lifetime of each row.
    const ttlMs = 900
    for (const seen of [shown, shown.toReversed()]) {
      const merged = mergeSnapshots(seen, 3)
      expect(merged).toMatchObject({ ttlMs, record: { state: 'completed' } })
      expect(overAtIn(merged?.record)).toBe(lastsMs)
      const told = merged && adoptRecord(undefined, merged, 7_000_000)
      expect(told?.ttlMs).toBe(ttlMs)
      expect(overAtIn(told?.record)).toBe(lastsMs === undefined ? undefined : 7_000_000 + lastsMs)
    }
  })

  test.each<[what: string, own: RecordSnapshot, lastsMs: number | undefined]>([
    ['keeps its own longer memory', at(0, outlived(7_000_400), 100), 400],
    ['takes the longer memory of the others', at(0, outlived(7_000_200), 100), 300],
    ['keeps an outcome of its own record', at(0, completed(5), 600), 600],
    ['keeps it as long as its record, where that is the longest', at(0, completed(5), 900), undefined],
    ['takes the time of a larger token', at(0, completed(3), 800), 300],
    ['keeps the time of its own larger token', at(0, completed(9), 200), 200],
  ])('a node that forgot in part %s', (_, own, lastsMs) => {
    const merged = mergeSnapshots([at(10_000, outlived(10_300), 900)], 1)
    const told = merged && adoptRecord(own, merged, 7_000_000)
    expect(told?.ttlMs).toBe(900)
    expect(overAtIn(told?.record)).toBe(lastsMs === undefined ? undefined : 7_000_000 + lastsMs)
    // Another time changes nothing.
    expect(merged && told && adoptRecord(told, merged, 7_000_000)).toEqual(told)
  })
})

function overAtIn(record: NodeRecord | undefined): number | undefined {
  return record?.state === 'completed' ? record.overAtNodeMs : undefined
}

test('a copied lease runs on the clock of the node that gets it', () => {
  const merged = mergeSnapshots([{ record: claimed(5, 1, 10_500), nodeMs: 10_000, ttlMs: 1 }], 1)
  expect(merged && adoptRecord(undefined, merged, 7_000_000).record).toMatchObject({
    leaseUntilNodeMs: 7_000_500,
  })
})

// Found by simulation: by way of a second node, one clock set back by half a minute blocked a key for as long.
test('no lease is copied as longer than the longest, as one appears on a clock that was set back', () => {
  const merged = mergeSnapshots([{ record: claimed(5, 1, 40_500), nodeMs: 10_000, ttlMs: 1 }], 1)
  expect(merged && leasedAtMost(merged, 1_500).record).toMatchObject({ leaseUntilNodeMs: 1_500 })
  expect(merged && leasedAtMost(merged, 60_000)).toBe(merged)
})

/** Found by simulation: a completion that was refused arrived once more, at a node that had forgotten why. */
test.each<[what: string, own: NodeRecord, others: NodeRecord, told: NodeRecord]>([
  ['the claim above it', completed(5), expired(7, 2), expired(7, 2)],
  ['the release above it', completed(5), released(7), released(7)],
  [
    'its own promise, over the claim that the others show',
    completed(5, 9),
    claimed(7),
    claimed(9, 1, 900, NO_OWNER),
  ],
  ['its own promise, over their release', completed(5, 9), released(7), released(9)],
  ['the outcome, where the others promised nothing above it', completed(5), expired(5), completed(5)],
  ['the outcome of the others', completed(5), completed(7), completed(7)],
])('a node that forgot took an outcome late, and gets %s', (_, own, others, told) => {
  const merged = mergeSnapshots([seen(others), seen(others), seen(others)], 3)
  expect(merged && adoptRecord({ record: own, ttlMs: 1_000 }, merged, 0).record).toEqual(told)
})

// Found by simulation: another content, granted in quarantine, was given back and left no trace of the attempt.
test('a node that granted another content without a vote gets the forgotten claim, above its own promise', () => {
  const merged = mergeSnapshots([{ record: expired(5, 2), nodeMs: 10_000, ttlMs: 1 }], 1)
  const stray: NodeRecord = { ...claimed(9, 1, 10_900, BOB), fingerprint: 'e'.repeat(64) } as NodeRecord
  const told = merged && adoptRecord({ record: stray, ttlMs: 1 }, merged, 10_000)
  expect(told?.record).toEqual({ ...givenBack(9, 2), fingerprint: PRINT })
  expect(merged && told && adoptRecord(told, merged, 10_000)).toEqual(told)
})

const arbitrarySnapshot = fc.record({
  record: arbitraryRecord(1_000_000),
  nodeMs: fc.constant(1_000_000),
  ttlMs: fc.integer({ min: 1, max: 200_000 }),
})

/** Found by simulation: a claim that a single node kept took a node away from the content that three others showed. */
describe('nodes of five show claims of two contents; a node that forgot gets', () => {
  const [MANY, FEW] = ['1'.repeat(64), '2'.repeat(64)]
  const of = (fingerprint: string, record: NodeRecord) => ({ ...record, fingerprint }) as NodeRecord
  const [many, few] = [of(MANY, expired(5)), of(FEW, givenBack(9, 1))]
  test.each<[what: string, shown: readonly NodeRecord[], told: NodeRecord]>([
    ['the only one that a majority can have granted', [few, many, many, many], of(MANY, givenBack(9, 1))],
    ['the larger of two that a majority can have granted', [few, few, many, many], few],
    ['the larger where too few answered to tell', [few, many, many], few],
    // Found by simulation: a round that lost held one node for a moment, and had released another already.
    [
      'the one that a majority may have granted, where another node shows a release',
      [few, released(8), many, many],
      of(MANY, givenBack(9, 1)),
    ],
    [
      'the one that somebody works under, of two that a majority can have granted',
      [few, few, kept(many), many],
      of(MANY, givenBack(9, 1)),
    ],
    ['the larger, where somebody works under both', [kept(few), few, kept(many), many], kept(few)],
    ['the larger where the others may have given theirs back', [few, many, released(3), released(3)], few],
    [
      'a running lease, under no known owner',
      [few, many, many, of(MANY, claimed(5, 1, 900))],
      of(MANY, claimed(9, 1, 900, NO_OWNER)),
    ],
    [
      'all attempts of the content that stands',
      [few, many, of(MANY, expired(7, 2)), many],
      of(MANY, givenBack(9, 2)),
    ],
  ])('%s', (_, shown, told) => {
    const snapshots = shown.map((record) => ({ record, nodeMs: 0, ttlMs: 1_000 }))
    for (const seen of [snapshots, snapshots.toReversed()])
      expect(mergeSnapshots(seen, 3)?.record).toEqual(told)
  })
})

/** Found by simulation: the node was told of a content that another claimant held for a moment, long after it forgot. */
describe('of three nodes two show claims of two contents; the third, which forgot, gets', () => {
  const [ONE, OTHER] = ['1'.repeat(64), '2'.repeat(64)]
  const of = (fingerprint: string, record: NodeRecord) => ({ ...record, fingerprint }) as NodeRecord
  const executed = of(ONE, expired(5))
  test.each<[what: string, other: NodeRecord, leasesOver: boolean, told: NodeRecord]>([
    ['not the one whose first lease still runs', of(OTHER, claimed(9)), true, of(ONE, givenBack(9, 1))],
    ['the larger one, where it may have granted it', of(OTHER, claimed(9)), false, of(OTHER, claimed(9))],
    ['the larger one, where its lease is over', of(OTHER, expired(9)), true, of(OTHER, expired(9))],
    ['the larger one, where it was renewed', of(OTHER, kept(claimed(9))), true, of(OTHER, kept(claimed(9)))],
  ])('%s', (_, other, leasesOver, told) => {
    const merged = mergeSnapshots([seen(executed), seen(other)], 2, leasesOver)
    expect(merged?.record).toEqual(told)
    // It may have granted the other one itself, without a vote: under the same promise it keeps what it is told.
    if (told.state !== 'claimed' || told.fingerprint === OTHER) return
    expect(merged && adoptRecord({ record: other, ttlMs: 1_000 }, merged, 0).record).toEqual(told)
  })
})

test('merging never lowers a fence or an accepted token, in any order, and is idempotent', () => {
  fc.assert(
    fc.property(arbitrarySnapshot, arbitrarySnapshot, (one, other) => {
      const [a, b] = [onNoClock(one), onNoClock(other)]
      const merged = mergeRecords(a, b)
      expect(merged.fence).toBe(Math.max(a.fence, b.fence))
      const accepted = [a, b].flatMap((r) => (r.state === 'completed' ? [r.acceptedToken] : []))
      if (accepted.length > 0) expect(merged).toMatchObject({ acceptedToken: Math.max(...accepted) })
      expect(mergeRecords(b, a)).toEqual(merged)
      expect(mergeRecords(merged, b)).toEqual(merged)
      expect(mergeRecords(a, merged)).toEqual(merged)
    }),
    { numRuns: 2_000 },
  )
})
