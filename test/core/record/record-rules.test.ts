/**
 * Every history of one record on one node, of a small world: two owners, three tokens, two contents, two outcomes, and a
 * lease that expires. The truth table row by row is `test/contract/record-node.ts`; here are the rules behind it.
 */
import { describe, expect, test } from 'vitest'
import type { NodeRecord, RecordAnswer, RecordCommand } from '../../../src/core/record/record.ts'
import { applyCommand } from '../../../src/core/record/record-rules.ts'
import { tokenAt } from '../../../src/core/record/token.ts'

const START_MS = 1_000_000
const LEASE_MS = 10
const TOKENS = [1, 2, 3].map((count) => tokenAt(START_MS) + count)
const OWNERS = ['a'.repeat(32), 'b'.repeat(32)]
const OUTCOMES = [Buffer.from('x'), Buffer.from('y')]
const KEY = 'k'

const claimants = TOKENS.flatMap((token) =>
  OWNERS.map((owner) => ({ key: KEY, token, owner, keyTtlMs: 1_000 })),
)
const COMMANDS: readonly RecordCommand[] = [
  ...claimants.flatMap((claimant): RecordCommand[] => [
    ...['f', 'g'].map(
      (fingerprint): RecordCommand => ({
        kind: 'claim',
        ...claimant,
        leaseMs: LEASE_MS,
        fingerprint,
      }),
    ),
    { kind: 'renew', ...claimant, leaseMs: LEASE_MS, fingerprint: 'f', attempt: 1 },
    ...OUTCOMES.map(
      (outcome): RecordCommand => ({
        kind: 'complete',
        ...claimant,
        fingerprint: 'f',
        attempt: 1,
        outcome,
      }),
    ),
    { kind: 'release', ...claimant },
  ]),
  { kind: 'read', key: KEY },
]

type State = { readonly record: NodeRecord | undefined; readonly nodeMs: number }
type Step = {
  readonly before: NodeRecord | undefined
  readonly command: RecordCommand
  readonly nodeMs: number
  readonly answer: RecordAnswer
  readonly after: NodeRecord | undefined
}

/** All steps from all states that any history reaches. Time matters only as "live" or "expired", so states are few. */
function allSteps(): readonly Step[] {
  const seen = new Map<string, State>()
  const open: State[] = [{ record: undefined, nodeMs: START_MS }]
  const steps: Step[] = []
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    const name = nameOf(state)
    if (seen.has(name)) continue
    seen.set(name, state)
    for (const nodeMs of [state.nodeMs, state.nodeMs + 2 * LEASE_MS]) {
      for (const command of COMMANDS) {
        const { answer, write } = applyCommand(state.record, command, nodeMs, 1_000)
        const after = write === undefined ? state.record : write.record
        steps.push({ before: state.record, command, nodeMs, answer, after })
        open.push({ record: after, nodeMs })
      }
    }
  }
  expect(seen.size).toBeGreaterThan(50)
  return steps
}

function nameOf({ record, nodeMs }: State): string {
  if (record?.state !== 'claimed') return JSON.stringify({ ...record, claimedAtNodeMs: 0 })
  const { leaseUntilNodeMs, attempt, claimedAtNodeMs: _, ...rest } = record
  return JSON.stringify({ ...rest, attempt: Math.min(attempt, 3), live: leaseUntilNodeMs > nodeMs })
}

const steps = allSteps()
const fenceOf = (record: NodeRecord | undefined) => record?.fence ?? 0
const isLive = (record: NodeRecord | undefined, nodeMs: number) =>
  record?.state === 'claimed' && record.leaseUntilNodeMs > nodeMs

function each(rule: (step: Step) => boolean): void {
  const broken = steps.find((step) => !rule(step))
  if (broken !== undefined) expect.fail(JSON.stringify(broken))
}

describe('in every history of one record', () => {
  test('the fence never goes back', () => {
    each(({ before, after }) => fenceOf(after) >= fenceOf(before))
  })

  test('a refused command or a read changes no record', () => {
    const refusals = ['held', 'mismatch', 'stale', 'skewed', 'lost', 'fenced', 'not_owner', 'record']
    each(({ answer, before, after }) => !refusals.includes(answer.kind) || before === after)
  })

  test('only a completion at a larger token ends the live lease of another owner', () => {
    each(({ before, command, nodeMs, after }) => {
      if (!isLive(before, nodeMs) || before?.state !== 'claimed' || command.kind === 'read') return true
      if (command.owner === before.owner || before === after) return true
      return command.kind === 'complete' && command.token > before.fence
    })
  })

  test('a grant is above every token promised before, except to the same owner again', () => {
    each(({ before, command, answer }) => {
      if (answer.kind !== 'granted' || command.kind !== 'claim') return true
      const again = before?.state === 'claimed' && before.owner === command.owner
      return again ? command.token >= before.fence : command.token > fenceOf(before)
    })
  })

  test('an attempt is counted exactly where an expired claim is taken over', () => {
    each(({ before, nodeMs, answer }) => {
      if (answer.kind !== 'granted') return true
      if (before?.state !== 'claimed') return answer.attempt === 1
      return answer.attempt === before.attempt + (isLive(before, nodeMs) ? 0 : 1)
    })
  })

  test('an outcome is never forgotten, and replaced only by a completion at a larger token', () => {
    each(({ before, command, after }) => {
      if (before?.state !== 'completed') return true
      if (after?.state !== 'completed') return false
      const same = after.acceptedToken === before.acceptedToken
      if (same) return after.outcome.equals(before.outcome)
      return (
        command.kind === 'complete' &&
        after.acceptedToken > before.fence - (command.token === before.fence ? 1 : 0)
      )
    })
  })

  test('a node answers recorded exactly where it then holds that outcome at that token', () => {
    each(({ command, answer, after }) => {
      if (command.kind !== 'complete') return true
      const holds =
        after?.state === 'completed' &&
        after.acceptedToken === command.token &&
        after.outcome.equals(command.outcome)
      return (answer.kind === 'recorded') === holds
    })
  })

  test('a node keeps its promise: it grants, renews and records no smaller token', () => {
    each(({ before, command, answer, after }) => {
      if (command.kind === 'read' || command.token >= fenceOf(before)) return true
      return !['granted', 'renewed'].includes(answer.kind) && before === after
    })
  })

  test('no claim replaces the content of another claim or of an outcome', () => {
    each(({ before, command, after }) => {
      if (command.kind !== 'claim' || before === undefined || before.state === 'released') return true
      return after !== undefined && after.state !== 'released' && after.fingerprint === before.fingerprint
    })
  })

  test('every answer occurs', () => {
    // `skewed` needs a token of another time; the contract suite has it.
    expect([...new Set(steps.map(({ answer }) => answer.kind))].sort()).toEqual(
      [
        'granted',
        'held',
        'mismatch',
        'stale',
        'completed',
        'renewed',
        'lost',
        'recorded',
        'fenced',
        'released',
        'not_owner',
        'record',
      ].sort(),
    )
  })
})

describe('a renewal with a token too far ahead of the clock of the node', () => {
  const nodeMs = Date.UTC(2026, 0, 1)
  const far = tokenAt(nodeMs + 3_600_000)
  const owner = 'a'.repeat(32)
  const fingerprint = 'f'.repeat(64)
  const renewal = {
    kind: 'renew',
    key: 'k',
    token: far,
    owner,
    leaseMs: 10_000,
    fingerprint,
    attempt: 1,
    keyTtlMs: 60_000,
  } as const
  const held = (fence: number): NodeRecord => ({
    state: 'claimed',
    fence,
    owner,
    leaseUntilNodeMs: nodeMs + 10_000,
    attempt: 1,
    fingerprint,
    claimedAtNodeMs: nodeMs,
  })

  test.each([
    ['an absent record', undefined],
    ['its own claim at a smaller token', held(tokenAt(nodeMs))],
    ['a released record', { state: 'released', fence: tokenAt(nodeMs) } as const],
  ])('a renewal too far ahead is refused for %s, and leaves it as it was', (_, record) => {
    expect(applyCommand(record, renewal, nodeMs, 10_000)).toEqual({ answer: { kind: 'skewed', nodeMs } })
  })

  test('a renewal is granted where the node has already promised that token: its clock was set back since', () => {
    expect(applyCommand(held(far), renewal, nodeMs, 10_000).answer).toEqual({ kind: 'renewed', nodeMs })
  })
})
