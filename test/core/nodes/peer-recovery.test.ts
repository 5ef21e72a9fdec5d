import { expect, test } from 'vitest'
import { type PeerSource, takePeerRecoveryTurn } from '../../../src/core/nodes/continuing.ts'
import { NOTHING_COPIED, type Quarantine, type RejoiningNode } from '../../../src/core/nodes/rejoin-rules.ts'
import type { NodeRecord } from '../../../src/core/record/record.ts'

const NODE_MS = 1_000_000
const LEASE_MS = 5_000

const claimed = (owner: string, fence: number): NodeRecord => ({
  state: 'claimed',
  fence,
  owner: owner.repeat(32),
  leaseUntilNodeMs: NODE_MS + LEASE_MS,
  attempt: 1,
  fingerprint: 'f'.repeat(64),
  claimedAtNodeMs: NODE_MS,
})

/** A voting node with these records. @param answers called before each read without a key, which ends a turn */
function voter(name: string, records: ReadonlyMap<string, NodeRecord>, answers = () => true): PeerSource {
  const node = {
    name,
    keys: async () => ({ keys: [...records.keys()], cursor: '0' }),
    inspect: async (keys: readonly string[]) => {
      if (keys.length === 0 && !answers()) throw new Error('no answer')
      const snapshots = keys.map((key) => {
        const record = records.get(key)
        return record && { record, nodeMs: NODE_MS, ttlMs: 60_000 }
      })
      return { voting: true, nodeMs: NODE_MS, snapshots }
    },
  }
  return { node, runId: name, voting: true }
}

test('the wait that a node owes for a copied key is remembered, also where the turn fails after the copy', async () => {
  const quarantine: Quarantine = {
    runId: 'c',
    nonce: 'n',
    sinceNodeMs: NODE_MS,
    origin: 'forgot',
    progress: NOTHING_COPIED,
  }
  const terms = { quarantine, quarantineMs: 10_000, required: 2, slackMs: 0 }
  const ports = { monoMs: () => 0, events: { publish: () => {} } }
  // It has granted another owner's claim meanwhile, and keeps that one.
  const target = {
    name: 'c',
    inspect: async (keys: readonly string[]) => ({
      voting: false,
      nodeMs: NODE_MS,
      snapshots: keys.map(() => ({ record: claimed('b', 20), nodeMs: NODE_MS, ttlMs: 60_000 })),
    }),
    adopt: async () => {},
  } as unknown as RejoiningNode
  let fails = 1
  const silentOnce = () => {
    fails -= 1
    return fails < 0
  }
  const sources = [voter('a', new Map()), voter('b', new Map([['key', claimed('a', 10)]]), silentOnce)]
  const first = await takePeerRecoveryTurn(target, sources, undefined, terms, ports)
  await expect(takePeerRecoveryTurn(target, sources, first, terms, ports)).rejects.toThrow('no answer')
  const last = await takePeerRecoveryTurn(target, sources, first, terms, ports)
  expect(last.copied.done).toEqual(['a', 'b'])
  expect(last.caughtUp.leasesUntilMonoMs).toBeGreaterThanOrEqual(LEASE_MS)
})
