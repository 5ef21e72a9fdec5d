import { describe, expect, test } from 'vitest'
import { keepLeases } from '../../../src/core/nodes/record-copying.ts'
import type { RejoiningNode } from '../../../src/core/nodes/rejoin-rules.ts'
import { NO_OWNER, type NodeRecord } from '../../../src/core/record/record.ts'
import type { RecordSnapshot } from '../../../src/core/record/record-merge.ts'

const NODE_MS = 1_000_000
const ANN = 'a'.repeat(32)
const BOB = 'b'.repeat(32)
const CONTENT = 'f'.repeat(64)

const seen = (record: NodeRecord): RecordSnapshot => ({ record, nodeMs: NODE_MS, ttlMs: 60_000 })

function claim(owner: string, fence: number, remainingMs: number): RecordSnapshot {
  const leaseUntilNodeMs = NODE_MS + remainingMs
  return seen({
    state: 'claimed',
    fence,
    owner,
    leaseUntilNodeMs,
    attempt: 1,
    fingerprint: CONTENT,
    claimedAtNodeMs: NODE_MS,
  })
}

const released = (fence: number) => seen({ state: 'released', fence })

function completed(acceptedToken: number): RecordSnapshot {
  const outcome = Buffer.from('done')
  const known = {
    owner: ANN,
    acceptedToken,
    attempt: 1,
    fingerprint: CONTENT,
    claimedAtNodeMs: NODE_MS,
    outcome,
  }
  return seen({ state: 'completed', fence: acceptedToken, ...known })
}

/** How long a node that holds `own` after the copy has to wait: one of five nodes, which does not vote. */
async function owedMs(
  own: RecordSnapshot | undefined,
  others: readonly RecordSnapshot[],
  elapsedMs = 0,
): Promise<number> {
  let monoMs = 0
  let owed = 0
  const target = {
    inspect: async () => {
      monoMs = elapsedMs
      return { voting: false, snapshots: [own] }
    },
  } as unknown as RejoiningNode
  await keepLeases(
    target,
    ['key'],
    [others],
    { required: 3, longestMs: 60_000, askedMonoMs: 0 },
    {
      monoMs: () => monoMs,
      mayHaveForgotten: 1,
      owes: (ms) => {
        owed = Math.max(owed, ms)
      },
    },
  )
  return owed
}

describe('a running lease that two others show, while the node that forgot may be the third of its majority', () => {
  const running = [claim(ANN, 10, 5_000), claim(ANN, 10, 4_000)]

  test.for<[string, RecordSnapshot | undefined, number]>([
    ['is kept by a node that holds it', claim(ANN, 10, 5_000), 0],
    ['is kept by a node that refuses every claimant for as long', claim(NO_OWNER, 20, 5_000), 0],
    ['is waited for where the node holds it for a shorter time', claim(ANN, 10, 100), 5_000],
    ['is waited for where the node keeps a claim of another owner', claim(BOB, 20, 9_000), 5_000],
    ['is waited for where a larger token was given back', released(20), 5_000],
    ['is waited for where the node has no record', undefined, 5_000],
    ['is waited for where only an earlier outcome stands', completed(5), 5_000],
    ['is over where its outcome stands', completed(10), 0],
  ])('%s', async ([, own, expected]) => {
    expect(await owedMs(own, running)).toBe(expected)
  })

  test('a lease runs on during the copy, and only the rest of it is waited for', async () => {
    expect(await owedMs(claim(ANN, 10, 4_600), running, 400)).toBe(0)
    expect(await owedMs(claim(ANN, 10, 4_000), running, 400)).toBe(5_000)
  })
})

test('a claim that too few nodes can have granted is not waited for', async () => {
  expect(await owedMs(claim(BOB, 20, 9_000), [claim(ANN, 10, 5_000), claim(BOB, 20, 9_000)])).toBe(0)
})

test('no lease is waited for longer than the longest lease', async () => {
  expect(await owedMs(released(20), [claim(ANN, 10, 900_000), claim(ANN, 10, 900_000)])).toBe(60_000)
})
