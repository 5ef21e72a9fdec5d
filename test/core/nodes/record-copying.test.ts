/** What a node that forgot is told of outcomes that say when they end. */

import { expect, test } from 'vitest'
import { parseKeyRing, seal } from '../../../src/core/nodes/key-ring.ts'
import { copyPages, type Source } from '../../../src/core/nodes/record-copying.ts'
import {
  type Adoption,
  FIRST_CURSOR,
  NOTHING_COPIED,
  type RejoiningNode,
} from '../../../src/core/nodes/rejoin-rules.ts'
import type { NodeRecord } from '../../../src/core/record/record.ts'
import { encodeOutcome, SHOWN_BYTES } from '../../../src/core/record/stored-outcome.ts'

const END_MS = 1_000_000
const TOLERATED_MS = 500
/** Somebody wrote the record back, to be kept for much longer than it may answer. */
const TTL_MS = 3_600_000
const TOKEN = 7

const plain = encodeOutcome({ kind: 'result', result: 'paid', completedAtWallMs: 0 }, TOKEN, {
  atMs: END_MS,
  toleratedMs: TOLERATED_MS,
})
const parsed = parseKeyRing(`a-key-of-the-ring ${Buffer.alloc(32, 1).toString('base64')}`)
if (parsed.kind === 'refused') throw new Error(parsed.reason)
const sealed = seal(parsed.ring, { key: 'key', acceptedToken: TOKEN }, plain)

const completed = (outcome: Buffer, fence = TOKEN): NodeRecord => ({
  state: 'completed',
  fence,
  owner: 'a'.repeat(32),
  acceptedToken: TOKEN,
  attempt: 1,
  fingerprint: 'f'.repeat(64),
  claimedAtNodeMs: 0,
  outcome,
})
const claimed: NodeRecord = {
  state: 'claimed',
  fence: 9,
  owner: 'b'.repeat(32),
  leaseUntilNodeMs: END_MS + 60_000,
  attempt: 1,
  fingerprint: 'e'.repeat(64),
  claimedAtNodeMs: END_MS,
}

type Shown = { readonly nodeMs: number; readonly record?: NodeRecord }

function voter(name: string, { nodeMs, record }: Shown): Source {
  const node: Source['node'] = {
    name,
    keys: async () => ({ keys: record === undefined ? [] : ['key'], cursor: FIRST_CURSOR }),
    inspect: async (keys, whole) => ({
      voting: true,
      nodeMs,
      snapshots: keys.map(() => {
        if (record?.state !== 'completed') return record && { record, nodeMs, ttlMs: TTL_MS }
        const outcome = whole ? record.outcome : record.outcome.subarray(0, SHOWN_BYTES)
        return { record: { ...record, outcome }, nodeMs, ttlMs: TTL_MS }
      }),
    }),
  }
  return { node, runId: name, voting: true }
}

/** What the third of three nodes is told, whose own memory is empty; the first is gone through. */
async function told(first: Shown, second: Shown) {
  const adopted: Adoption[] = []
  const target = {
    name: 'c',
    inspect: async (keys: readonly string[]) => ({
      voting: false,
      nodeMs: END_MS,
      snapshots: keys.map(() => undefined),
    }),
    adopt: async (_nonce: string, adoptions: readonly Adoption[]) => void adopted.push(...adoptions),
  } as unknown as RejoiningNode
  const quarantine = {
    runId: 'c',
    nonce: 'n',
    sinceNodeMs: 0,
    origin: 'forgot',
    progress: NOTHING_COPIED,
  } as const
  await copyPages(
    target,
    [voter('a', first), voter('b', second)],
    { quarantine, quarantineMs: 60_000, required: 2 },
    { kind: 'copy', sourceRunId: 'a', cursor: FIRST_CURSOR },
    { events: { publish: () => {} } },
  )
  return adopted.map(({ merged }) => merged.record)
}

const OVER = END_MS + TOLERATED_MS

test.each([
  ['in the clear', plain],
  ['encrypted, by a sidecar without the key', sealed],
])('an outcome past its end is not copied, only its promise: %s', async (_, outcome) => {
  const record = completed(outcome, 8)
  expect(await told({ nodeMs: OVER, record }, { nodeMs: OVER })).toEqual([{ state: 'released', fence: 8 }])
  // Also where a majority shows it.
  expect(await told({ nodeMs: OVER, record }, { nodeMs: OVER, record })).toEqual([
    { state: 'released', fence: 8 },
  ])
})

test('a later claim is copied as if the outcome were not there', async () => {
  const leaseUntilNodeMs = claimed.state === 'claimed' ? claimed.leaseUntilNodeMs - OVER : 0
  expect(
    await told({ nodeMs: OVER, record: completed(plain) }, { nodeMs: OVER, record: claimed }),
  ).toMatchObject([{ state: 'claimed', fence: 9, leaseUntilNodeMs: Math.min(60_000, leaseUntilNodeMs) }])
})

test.each([
  ['in the clear', plain],
  ['encrypted', sealed],
])('one that has not ended is copied whole, and only until its end: %s', async (_, outcome) => {
  const record = completed(outcome)
  expect(await told({ nodeMs: OVER - 1, record }, { nodeMs: OVER - 1 })).toMatchObject([
    { state: 'completed', outcome, overAtNodeMs: 1 },
  ])
})

test('a clock that is ahead ends no outcome of the others', async () => {
  const record = completed(plain)
  expect(await told({ nodeMs: OVER + TTL_MS, record }, { nodeMs: END_MS })).toMatchObject([
    { state: 'completed', overAtNodeMs: TOLERATED_MS },
  ])
})
