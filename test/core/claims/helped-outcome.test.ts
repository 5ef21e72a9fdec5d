/** A read that helps a minority outcome: which nodes it may count for it. */

import { expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import type { RecordCommand } from '../../../src/core/record/record.ts'
import { EmbeddedNode } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'
import { seededRandom } from '../../support/seeded-random.ts'

const NOW_MS = 1_000_000
const KEY = 'k'
const CALL = {
  key: KEY,
  token: 1_000,
  owner: 'a'.repeat(32),
  fingerprint: 'f'.repeat(64),
  keyTtlMs: 60_000,
} as const
const CLAIM = { kind: 'claim', leaseMs: 1_000, ...CALL } as const
const COMPLETE = {
  kind: 'complete',
  attempt: 1,
  outcome: encodeOutcome({ kind: 'result', result: 'paid', completedAtWallMs: 0 }),
  ...CALL,
} as const
const SILENCE: NodeAnswer = { kind: 'unreachable', reason: 'timeout', detail: 'away' }

/** Three nodes granted the claim and the first accepted the outcome. Then a read helps the outcome. */
async function readOf({ lost, reached }: { lost: boolean; reached: readonly number[] }) {
  let nowMs = NOW_MS
  const clock: Clock = { monoMs: () => nowMs, wallMs: () => nowMs, timer: () => ({ cancel: () => {} }) }
  const states = [0, 1, 2].map((at) => {
    const state = new EmbeddedNode(`${at}`, () => nowMs, 1e9)
    state.apply(CLAIM)
    return state
  })
  const [first, second] = states as [EmbeddedNode, EmbeddedNode, EmbeddedNode]
  first.apply(COMPLETE)
  const remembered = second.kept(KEY)
  nowMs += 5_000
  let forgot = false
  const execute = async (at: number, command: RecordCommand) => {
    if (command.kind === 'read') return states[at]!.apply(command)
    // Meanwhile it rejoined, with a copy of the records of the others.
    if (lost && !forgot && remembered !== undefined) first.put(KEY, remembered.record, remembered.ttlMs)
    forgot = true
    return reached.includes(at) ? states[at]!.apply(command) : SILENCE
  }
  const nodes = states.map(({ name }, at) => ({
    name,
    execute: (command: RecordCommand) => execute(at, command),
  }))
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const { read } = createLeases({ quorum, clock, random: seededRandom(1), events: SILENT })
  const said = await read(KEY)
  const having = states.filter((state) => state.kept(KEY)?.record.state === 'completed').length
  return { said: said.kind, having }
}

test('a node that showed an outcome and forgot it before the others accept it does not count for it', async () => {
  expect(await readOf({ lost: true, reached: [1] })).toEqual({ said: 'claimed', having: 1 })
})

test('a node that showed an outcome counts for it again once it answers that it has it', async () => {
  expect(await readOf({ lost: false, reached: [0, 1] })).toEqual({ said: 'completed', having: 2 })
})

test('a node that forgot an outcome accepts it again with the others', async () => {
  expect(await readOf({ lost: true, reached: [0, 1] })).toEqual({ said: 'completed', having: 2 })
})

test('an outcome that is helped lasts as long as it does, and not as long as the promise that outlives it', async () => {
  let nowMs = NOW_MS
  const clock: Clock = { monoMs: () => nowMs, wallMs: () => nowMs, timer: () => ({ cancel: () => {} }) }
  const states = [0, 1, 2].map((at) => new EmbeddedNode(`${at}`, () => nowMs, 30_000))
  const quorum = createRedlockQuorum({ nodes: states, clock, events: SILENT })
  const { read } = createLeases({ quorum, clock, random: seededRandom(1), events: SILENT })
  const [first, second] = states as [EmbeddedNode, EmbeddedNode]
  for (const state of states) state.apply(CLAIM)
  // The others missed the outcome, and the claim of a duplicate that comes shortly before it ends.
  first.apply(COMPLETE)
  nowMs += COMPLETE.keyTtlMs - 100
  first.apply({ ...CLAIM, token: 2_000, leaseMs: 30_000 })
  expect(first.kept(KEY)?.ttlMs).toBe(60_000)
  expect((await read(KEY)).kind).toBe('completed')
  expect(second.kept(KEY)?.ttlMs).toBe(100)
  nowMs += 101
  expect((await read(KEY)).kind).toBe('released')
})
