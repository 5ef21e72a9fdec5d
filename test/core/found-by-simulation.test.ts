/** Violations that the simulation found, each as the smallest case that shows it. */

import { describe, expect, test } from 'vitest'
import { createSweeper } from '../../src/coordination/sweeper.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import { reportingUntaken } from '../../src/core/coordination/audit-log.ts'
import { forgetOrphan } from '../../src/core/coordination/settle-orphan.ts'
import { SILENT } from '../../src/core/events.ts'
import { NOTHING_COPIED, nextRejoinStep } from '../../src/core/nodes/rejoin-rules.ts'
import type { NodeAnswer, Quorum, Round } from '../../src/core/ports.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { encodeOutcome } from '../../src/core/record/stored-outcome.ts'
import { type Token, tokenAt } from '../../src/core/record/token.ts'
import { createEmbeddedNodes } from '../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** Of two contents. */
const [ITS, OTHER] = ['1'.repeat(64), '2'.repeat(64)] as const

const HOUR_MS = 3_600_000

describe('found by simulation', () => {
  test.each([
    ['long before', -HOUR_MS, 60_000],
    ['past its end', HOUR_MS, 1],
    ['right', 10_000, 50_000],
  ])(
    'an outcome copied to a node that missed it outlives neither its end nor the requested retention: a time %s',
    async (_, wallMs, keyTtlMs) => {
      const end = { atMs: 60_000, toleratedMs: 0 }
      const outcome = encodeOutcome({ kind: 'result', result: 1, completedAtWallMs: 0 }, undefined, end)
      const held = { fingerprint: 'f', acceptedToken: 1, attempt: 1, outcome, nodeMs: 0 }
      const completed: NodeAnswer = { kind: 'completed', fence: 1, promised: true, ...held }
      const answers: NodeAnswer[] = [completed, completed, { kind: 'granted', attempt: 1, nodeMs: 0 }]
      const sent: RecordCommand[] = []
      const quorum: Quorum = {
        nodeCount: 3,
        run: async (command): Promise<Round> => {
          sent.push(command)
          return { majorityReached: false, answers, settled: Promise.resolve() }
        },
      }
      const clock = { monoMs: () => 0, wallMs: () => wallMs, timer: () => ({ cancel: () => {} }) }
      const random = { fraction: () => 0, hex: () => 'a' }
      const leases = createLeases({ quorum, clock, random, events: SILENT })
      await leases.claim({
        key: 'k',
        fingerprint: 'f'.repeat(64),
        leaseMs: 1_000,
        retentionMs: 60_000,
        budgetMs: 0,
      })
      expect(sent[1]).toMatchObject({ kind: 'complete', keyTtlMs })
    },
  )

  test.each([
    [
      'the next round has another owner, so that late messages of the first are not mistaken for its own',
      undefined,
    ],
    ['a claimant whose owner was given stops', 'b'.repeat(32)],
  ])('where the next token must be smaller, %s', async (_, owner) => {
    const rounds: Extract<RecordCommand, { kind: 'claim' }>[] = []
    const quorum: Quorum = {
      nodeCount: 3,
      run: async (command): Promise<Round> => {
        if (command.kind === 'claim') rounds.push(command)
        const answers: NodeAnswer[] =
          rounds.length === 1
            ? [...Array(3)].map(() => ({ kind: 'skewed', nodeMs: 1_000 }))
            : [...Array(3)].map(() => ({ kind: 'granted', attempt: 1, nodeMs: 1_000 }))
        return { majorityReached: rounds.length > 1, answers, settled: Promise.resolve() }
      },
    }
    const clock = { monoMs: () => 0, wallMs: () => HOUR_MS, timer: () => ({ cancel: () => {} }) }
    const owners = ['1', '2'].map((digit) => digit.repeat(32))
    const random = { fraction: () => 0, hex: () => owners.shift() ?? '' }
    const leases = createLeases({ quorum, clock, random, events: SILENT })
    const request = {
      key: 'k',
      fingerprint: 'f'.repeat(64),
      leaseMs: 1_000,
      retentionMs: 60_000,
      budgetMs: 100,
    }
    const result = await leases.claim(owner === undefined ? request : { ...request, owner })
    const [first, second] = rounds
    expect(result.kind).toBe(owner === undefined ? 'granted' : 'unavailable')
    if (owner !== undefined) return expect(second).toBeUndefined()
    expect(second?.token).toBeLessThan(first?.token ?? 0)
    expect(second?.owner).not.toBe(first?.owner)
  })

  test('a node whose clock was set back in quarantine waits anew, not until its old time comes again', () => {
    const view = {
      quarantine: {
        runId: '1',
        nonce: 'n',
        sinceNodeMs: HOUR_MS,
        origin: 'forgot' as const,
        progress: NOTHING_COPIED,
      },
      nodeMs: 0,
      firstSeenNodeMs: 0,
      observedForMs: 0,
      quarantineMs: 1_000,
      toleratedStepMs: 50,
      voting: ['2', '3'],
      others: [],
      required: 2,
    }
    expect(nextRejoinStep(view)).toEqual({ kind: 'wait_anew' })
  })

  test.each([HOUR_MS, -HOUR_MS])(
    'a process still knows what it executed by itself after its wall clock steps by %i ms',
    async (stepMs) => {
      const clock = new VirtualClock()
      const quorum = createRedlockQuorum({
        nodes: createEmbeddedNodes(1, clock, 50, SILENT),
        clock,
        events: SILENT,
      })
      const leases = createLeases({ quorum, clock, random: seededRandom(1), events: SILENT })
      const ask = () =>
        leases.claim({
          key: 'k',
          fingerprint: 'f'.repeat(64),
          leaseMs: 1_000,
          retentionMs: 60_000,
          budgetMs: 100,
        })
      const claimed = await ask()
      if (claimed.kind !== 'granted') throw new Error(claimed.kind)
      await leases.complete(claimed.lease, { kind: 'result', result: 1, completedAtWallMs: 0 })
      clock.stepWall(stepMs)
      expect((await ask()).kind).toBe('duplicate')
    },
  )

  test.each([
    ['the claim that the other three nodes granted is asked about', [2, 3, 4], ['its own'], 0],
    ['no claim is asked about, and no entry is written', [], [], 0],
  ] as const)(
    'the application is not asked about an expired, never granted claim that is larger than a granted one: %s',
    async (_, nodesOfIts, asked, entries) => {
      const clock = new VirtualClock()
      const nodes = createEmbeddedNodes(5, clock, 50, SILENT)
      const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
      const leases = createLeases({ quorum, clock, random: seededRandom(1), events: SILENT })
      const [its, other] = [tokenAt(clock.wallMs()), tokenAt(clock.wallMs()) + 7]
      const names = new Map<Token, string>([[its, 'its own']])
      const key = `dedup:t:e:v:${'0'.repeat(64)}`
      const claim = { kind: 'claim', key, owner: 'a'.repeat(32), leaseMs: 1_000, keyTtlMs: 60_000 } as const
      for (const at of [0, 1]) await nodes[at]?.execute({ ...claim, token: other, fingerprint: OTHER })
      for (const at of nodesOfIts) await nodes[at]?.execute({ ...claim, token: its, fingerprint: ITS })
      await clock.advance(2_000)

      const questions: (string | undefined)[] = []
      const appended: string[] = []
      const sweeper = createSweeper({
        sources: nodes.map(() => ({
          expired: async () => ({ found: [{ recordKey: key, token: other }], cursor: '0' }),
        })),
        leases,
        auditLog: {
          append: async (_stream, { id }) => appended.push(id) > 0,
          read: async () => ({ kind: 'entries', entries: [] }),
          remove: async () => true,
        },
        clock,
        terms: { leaseMs: 1_000, retentionMs: 60_000 },
        ask: async ({ token }) => {
          questions.push(names.get(token))
          return 'released'
        },
        untaken: reportingUntaken(clock, SILENT),
        onFailure: (cause) => {
          throw cause
        },
      })
      for (let round = 0; round < 3; round += 1) {
        const swept = sweeper.sweepOnce(new AbortController().signal)
        await clock.advance(1_000)
        await swept
      }
      expect(questions).toEqual(asked)
      expect(appended.length).toBe(entries)
    },
  )

  test.each([
    ['the outcome of the winner', ITS, ITS],
    ['no outcome of another content that used the key after its own claim was forgotten', OTHER, undefined],
  ])('a late holder is told %s', async (_, fingerprint, shown) => {
    const clock = new VirtualClock()
    const nodes = createEmbeddedNodes(3, clock, 50, SILENT)
    const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
    const leases = createLeases({ quorum, clock, random: seededRandom(1), events: SILENT })
    const terms = { leaseMs: 1_000, retentionMs: 60_000 }
    const ask = async (of: string) => {
      const claimed = await leases.claim({ key: 'k', fingerprint: of, ...terms, budgetMs: 100 })
      if (claimed.kind !== 'granted') throw new Error(claimed.kind)
      return claimed.lease
    }
    const outcomeOf = (of: string) => ({ kind: 'result', result: of, completedAtWallMs: 0 }) as const
    const late = await ask(ITS)
    await clock.advance(2_000)
    await forgetOrphan({ recordKey: 'k', fingerprint: ITS, attempt: 1, token: late.token }, terms, leases)
    await leases.complete(await ask(fingerprint), outcomeOf(fingerprint))
    const told = await leases.complete(late, outcomeOf('late'))
    expect(told).toEqual({
      kind: 'fenced',
      answered: 3,
      ...(shown === undefined ? {} : { winner: { outcome: outcomeOf(shown), token: expect.any(Number) } }),
    })
  })
})
