/**
 * What every `RecordNode` must do, as one table: each state of a record, each command, the answer, and the record
 * afterwards. Run against nodes inside the process and against real servers; the time machine is a parameter.
 *
 * A, B and C are owners; `t` counts tokens; F and G are fingerprints. The record of every row but `absent` was made by
 * A at t 10.
 */
import { describe, expect, test } from 'vitest'
import type { NodeAnswer, RecordNode } from '../../src/core/ports.ts'
import { NO_OWNER, type NodeRecord, type RecordCommand } from '../../src/core/record/record.ts'
import { NO_TOKEN, type Token, tokenAt } from '../../src/core/record/token.ts'

export type NodeUnderTest = AsyncDisposable & {
  readonly node: RecordNode
  /** False: as if it had little memory left. */
  takeNewClaims(take: boolean): void
  /** Returns when the node's own clock shows `nodeMs` or later. */
  reach(nodeMs: number): Promise<void>
}

/** What {@link recordNodeContract} expects of the node that it is given. */
export const CONTRACT_MAX_TOKEN_AHEAD_MS = 60_000

const OWNERS = { A: 'a'.repeat(32), B: 'b'.repeat(32), C: 'c'.repeat(32) }
const FINGERPRINTS = { F: 'f'.repeat(64), G: '9'.repeat(64) }
const OUTCOMES = { x: Buffer.from('outcome \0 x'), y: Buffer.from('outcome y') }

type Who = keyof typeof OWNERS
type Print = keyof typeof FINGERPRINTS

const LONG_MS = 60_000
const LONGER_THAN_PROMISES_MS = 10 * (LONG_MS + CONTRACT_MAX_TOKEN_AHEAD_MS)
/** Attempts are counted in four digits. */
const ATTEMPT_MAX = 9_999

type Row = readonly [command: string, answer: string, after: string]

/** However long the outcome is kept. */
const CLAIMS_OF_COMPLETED: readonly Row[] = [
  ['claim A5F', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
  ['claim A10F', 'completed t10 promised, accepted t10, attempt 1, F, x', '='],
  ['claim B10F', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
  [
    'claim B20F',
    'completed t20 promised, accepted t10, attempt 1, F, x',
    'completed t20 B, accepted t10, attempt 1, F, x',
  ],
  [
    'claim B20G',
    'completed t20 promised, accepted t10, attempt 1, F, x',
    'completed t20 B, accepted t10, attempt 1, F, x',
  ],
]

/**
 * Commands: `claim A20F`, `renew A20` and `raise A20` (of F, as attempt 1), `complete A10x`, `complete A10x of 5` (another
 * holder's: a majority accepted it at t 5; or, of 10 itself, it is adopted), `release A10`, `withdraw A10`, `forget B20`.
 * Answers and records are written as {@link sayAnswer} and {@link sayRecord} write them; `=` is "as before".
 */
const TABLE: Record<string, readonly Row[]> = {
  absent: [
    ['claim B20F', 'granted 1', 'claimed t20 B live, attempt 1, F'],
    ['renew B20', 'renewed', 'claimed t20 B live, kept, attempt 1, F'],
    ['complete B20x', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, x'],
    ['complete B20x of 5', 'fenced, no fence', 'absent'],
    // An adoption whose promise expired with the record: another claimant may hold the key by now, under any token.
    ['complete B20x of 20', 'fenced, no fence', 'absent'],
    ['raise B20', 'renewed', 'claimed t20 B live, attempt 1, F'],
    ['release B20', 'released', 'released t20'],
    ['withdraw B20', 'released', 'released t20'],
    ['forget B20', 'released', 'released t20'],
    ['read', 'absent', 'absent'],
  ],
  'claimed, live': [
    ['claim A10F', 'granted 1', 'claimed t10 A live, attempt 1, F'],
    ['claim A20F', 'granted 1', 'claimed t20 A live, attempt 1, F'],
    ['claim A5F', 'stale t10', '='],
    ['claim B5F', 'held t10 live, F, attempt 1', '='],
    ['claim B20F', 'held t10 live, F, attempt 1', '='],
    ['claim B20G', 'mismatch t10 live, F', '='],
    ['claim A20G', 'mismatch t10 live, F', '='],
    ['renew A10', 'renewed', 'claimed t10 A live, kept, attempt 1, F'],
    ['renew A20', 'renewed', 'claimed t20 A live, kept, attempt 1, F'],
    ['renew A5', 'lost t10', '='],
    ['renew B10', 'lost t10', '='],
    ['renew B20', 'lost t10', '='],
    ['complete A10x', 'recorded', 'completed t10 A, accepted t10, attempt 1, F, x'],
    ['complete A20x', 'recorded', 'completed t20 A, accepted t20, attempt 1, F, x'],
    // A larger token than the promised one has a majority's promise, although this node does not know it.
    ['complete B20x', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, x'],
    ['complete A5x', 'fenced t10', '='],
    ['complete B10x', 'fenced t10', '='],
    // A copy of what a majority accepted at another ballot replaces our own promise only.
    ['complete A10x of 5', 'recorded', 'completed t10 A, accepted t5, attempt 1, F, x'],
    ['complete A10x of 10', 'recorded', 'completed t10 A, accepted t10, attempt 1, F, x'],
    ['complete B20x of 20', 'fenced t10', '='],
    ['complete A20x of 5', 'fenced t10', '='],
    ['complete B10x of 5', 'fenced t10', '='],
    ['complete B20x of 5', 'fenced t10', '='],
    ['release A10', 'released', 'released t10'],
    ['release A5', 'not_owner t10', '='],
    ['release A20', 'not_owner t10', '='],
    ['release B10', 'not_owner t10', '='],
    ['raise A10', 'renewed', 'claimed t10 A live, attempt 1, F'],
    ['raise A20', 'renewed', 'claimed t20 A live, attempt 1, F'],
    ['raise A5', 'lost t10', '='],
    ['raise B20', 'lost t10', '='],
    ['withdraw A10', 'released', 'released t10'],
    ['withdraw A5', 'not_owner t10', '='],
    ['withdraw A20', 'not_owner t10', '='],
    ['withdraw B10', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget C10', 'not_owner t10', '='],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'claimed t10 A live, attempt 1, F', '='],
  ],
  // Renewed: somebody works under it, and what still belongs to the claiming of it changes nothing.
  'claimed, live, kept': [
    ['claim A10F', 'held t10 live, F, attempt 1', '='],
    ['claim A20F', 'held t10 live, F, attempt 1', '='],
    ['claim A5F', 'held t10 live, F, attempt 1', '='],
    ['claim B20F', 'held t10 live, F, attempt 1', '='],
    ['claim A20G', 'mismatch t10 live, F', '='],
    ['renew A10', 'renewed', 'claimed t10 A live, kept, attempt 1, F'],
    ['renew A20', 'renewed', 'claimed t20 A live, kept, attempt 1, F'],
    ['renew A5', 'lost t10', '='],
    ['renew B20', 'lost t10', '='],
    ['raise A10', 'renewed', 'claimed t10 A live, kept, attempt 1, F'],
    ['raise A20', 'lost t10', '='],
    ['raise B20', 'lost t10', '='],
    ['complete A10x', 'recorded', 'completed t10 A, accepted t10, attempt 1, F, x'],
    ['complete B20x', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, x'],
    ['complete B10x', 'fenced t10', '='],
    ['complete A10x of 5', 'recorded', 'completed t10 A, accepted t5, attempt 1, F, x'],
    ['withdraw A10', 'not_owner t10', '='],
    ['withdraw A5', 'not_owner t10', '='],
    ['withdraw B10', 'not_owner t10', '='],
    ['release A10', 'released', 'released t10'],
    ['release B10', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget C10', 'not_owner t10', '='],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'claimed t10 A live, kept, attempt 1, F', '='],
  ],
  'claimed, expired, kept': [
    ['claim A10F', 'stale t10', '='],
    ['claim A20F', 'granted 2', 'claimed t20 A live, attempt 2, F'],
    ['claim B20F', 'granted 2', 'claimed t20 B live, attempt 2, F'],
    ['renew A10', 'renewed', 'claimed t10 A live, kept, attempt 1, F'],
    ['renew B20', 'renewed', 'claimed t20 B live, kept, attempt 1, F'],
    ['raise A20', 'lost t10', '='],
    ['raise B20', 'renewed', 'claimed t20 B live, attempt 1, F'],
    ['withdraw A10', 'not_owner t10', '='],
    ['release A10', 'released', 'released t10'],
  ],
  'claimed, expired': [
    ['claim A10F', 'stale t10', '='],
    ['claim B10F', 'stale t10', '='],
    ['claim A20F', 'granted 2', 'claimed t20 A live, attempt 2, F'],
    ['claim B20F', 'granted 2', 'claimed t20 B live, attempt 2, F'],
    ['claim B20G', 'mismatch t10 expired, F', '='],
    ['renew A10', 'renewed', 'claimed t10 A live, kept, attempt 1, F'],
    ['renew A5', 'lost t10', '='],
    ['renew B10', 'lost t10', '='],
    ['renew B20', 'renewed', 'claimed t20 B live, kept, attempt 1, F'],
    ['complete A10x', 'recorded', 'completed t10 A, accepted t10, attempt 1, F, x'],
    ['complete B20x', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, x'],
    ['complete B10x', 'fenced t10', '='],
    ['complete A10x of 5', 'recorded', 'completed t10 A, accepted t5, attempt 1, F, x'],
    ['complete B20x of 5', 'fenced t10', '='],
    ['release A10', 'released', 'released t10'],
    ['release B20', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget C10', 'not_owner t10', '='],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'claimed t10 A expired, attempt 1, F', '='],
  ],
  'taken over': [
    ['claim A20F', 'granted 2', 'claimed t20 A live, attempt 2, F'],
    ['claim B20F', 'held t10 live, F, attempt 2', '='],
    ['withdraw A10', 'released', 'claimed t10 no owner expired, attempt 1, F'],
    ['release A10', 'released', 'claimed t10 no owner expired, attempt 1, F'],
    ['release B10', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'claimed t10 A live, attempt 2, F', '='],
  ],
  'taken over, kept': [
    ['claim A20F', 'held t10 live, F, attempt 2', '='],
    ['withdraw A10', 'not_owner t10', '='],
    ['release A10', 'released', 'claimed t10 no owner expired, attempt 1, F'],
    ['forget B20', 'released', 'released t20'],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'claimed t10 A live, kept, attempt 2, F', '='],
  ],
  'taken over, released': [
    ['claim A10F', 'stale t10', '='],
    ['claim B20F', 'granted 2', 'claimed t20 B live, attempt 2, F'],
    ['claim B20G', 'mismatch t10 expired, F', '='],
    ['renew A10', 'lost t10', '='],
    ['renew B20', 'renewed', 'claimed t20 B live, kept, attempt 1, F'],
    ['complete A10x', 'fenced t10', '='],
    ['complete A10x of 5', 'fenced t10', '='],
    ['complete B20x', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, x'],
    ['release A10', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'claimed t10 no owner expired, attempt 1, F', '='],
  ],
  released: [
    ['claim A10F', 'stale t10', '='],
    ['claim B10F', 'stale t10', '='],
    ['claim B20F', 'granted 1', 'claimed t20 B live, attempt 1, F'],
    ['claim B20G', 'granted 1', 'claimed t20 B live, attempt 1, G'],
    ['renew A10', 'lost t10', '='],
    ['renew A5', 'lost t10', '='],
    ['renew B20', 'renewed', 'claimed t20 B live, kept, attempt 1, F'],
    ['complete A10x', 'fenced t10', '='],
    ['complete A10x of 5', 'fenced t10', '='],
    ['complete B20x', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, x'],
    ['complete B20x of 5', 'fenced t10', '='],
    ['release A10', 'released', '='],
    ['release B10', 'released', '='],
    ['release B20', 'released', 'released t20'],
    ['release A5', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget B10', 'released', '='],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'released t10', '='],
  ],
  completed: [
    ...CLAIMS_OF_COMPLETED,
    ['renew A10', 'renewed', '='],
    ['renew A5', 'lost t10', '='],
    ['renew A20', 'lost t10', '='],
    ['renew B10', 'lost t10', '='],
    ['renew B20', 'lost t10', '='],
    ['complete A10x', 'recorded', '='],
    ['complete A5x', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
    // The same outcome at the same ballot is the same message, whichever owner sends it.
    ['complete B10x', 'recorded', '='],
    ['complete B10y', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
    // One ballot has one value: a holder that changes its mind is told what stands.
    ['complete A10y', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
    ['complete B20y', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, y'],
    // It has the outcome already, or accepted it at another ballot: it keeps what it has.
    ['complete B20x of 10', 'recorded', '='],
    ['complete A10x of 5', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
    ['complete B20y of 5', 'completed t10 not promised, accepted t10, attempt 1, F, x', '='],
    ['release A10', 'not_owner t10', '='],
    ['release B20', 'not_owner t10', '='],
    ['forget B20', 'released', 'released t20'],
    ['forget C10', 'not_owner t10', '='],
    ['forget B5', 'not_owner t10', '='],
    ['read', 'completed t10 A, accepted t10, attempt 1, F, x', '='],
  ],
  // The promise needs no longer life than the outcome has: the usual replay, which Redis executes in fewer steps.
  'completed, kept for longer than a promise': [...CLAIMS_OF_COMPLETED],
  'completed at attempt 2, kept for longer than a promise': [
    [
      'claim B20F',
      'completed t20 promised, accepted t10, attempt 2, F, x',
      'completed t20 B, accepted t10, attempt 2, F, x',
    ],
  ],
  'completed, promised to B at t 20': [
    ['claim A10F', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    ['claim B20F', 'completed t20 promised, accepted t10, attempt 1, F, x', '='],
    ['claim C20F', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    [
      'claim C30F',
      'completed t30 promised, accepted t10, attempt 1, F, x',
      'completed t30 C, accepted t10, attempt 1, F, x',
    ],
    ['renew A10', 'lost t20', '='],
    ['renew B20', 'lost t20', '='],
    // It has accepted this very outcome at this very ballot, whatever it promised since.
    ['complete A10x', 'recorded', '='],
    ['complete A10y', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    ['complete B20y', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, y'],
    ['complete C20y', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    ['complete B20x of 10', 'recorded', '='],
    ['complete B20y of 20', 'recorded', 'completed t20 B, accepted t20, attempt 1, F, y'],
    ['complete C20y of 20', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    ['complete B30y of 30', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    ['complete B20x of 5', 'completed t20 not promised, accepted t10, attempt 1, F, x', '='],
    ['release B20', 'not_owner t20', '='],
    ['forget B30', 'released', 'released t30'],
    ['forget C20', 'not_owner t20', '='],
    ['forget B5', 'not_owner t20', '='],
    ['read', 'completed t20 B, accepted t10, attempt 1, F, x', '='],
  ],
}

/** Registers the suite. `open` is called once for the whole of it. */
export function recordNodeContract(
  name: string,
  open: () => Promise<NodeUnderTest>,
): { readonly answersSeen: ReadonlySet<string> } {
  const answersSeen = new Set<string>()
  let opened: Promise<NodeUnderTest> | undefined
  let keyCount = 0

  async function start() {
    opened ??= open()
    const { node, reach, takeNewClaims } = await opened
    keyCount += 1
    const key = `dedup:contract:${name}:${keyCount}`
    const first = await node.execute({ kind: 'read', key })
    if (!('nodeMs' in first)) throw new Error(`the node does not answer: ${JSON.stringify(first)}`)
    const base = tokenAt(first.nodeMs)
    const execute = async (command: RecordCommand): Promise<NodeAnswer> => {
      const answer = await node.execute(command)
      answersSeen.add(nameOf(answer))
      return answer
    }
    const parse = commandParser(key, base)
    const run = (
      text: string,
      change: Partial<{ leaseMs: number; keyTtlMs: number; attempt: number }> = {},
    ) => execute({ ...parse(text), ...change } as RecordCommand)
    const expire = async () => {
      const record = recordOf(await run('read'))
      if (record?.state === 'claimed') await reach(record.leaseUntilNodeMs)
    }
    return { key, base, run, expire, reach, execute, takeNewClaims }
  }
  type Started = Awaited<ReturnType<typeof start>>

  const bring: Record<keyof typeof TABLE, (on: Started) => Promise<void>> = {
    absent: async () => {},
    'claimed, live': async ({ run }) => void (await run('claim A10F')),
    'claimed, expired': async ({ run, expire }) => {
      await run('claim A10F', { leaseMs: 1 })
      await expire()
    },
    'claimed, live, kept': async ({ run }) => {
      await run('claim A10F')
      await run('renew A10')
    },
    'claimed, expired, kept': async ({ run, expire }) => {
      await run('claim A10F')
      await run('renew A10', { leaseMs: 1 })
      await expire()
    },
    'taken over, kept': async (on) => {
      await bring['taken over']?.(on)
      await on.run('renew A10', { attempt: 2 })
    },
    'taken over': async ({ run, expire }) => {
      await run('claim C5F', { leaseMs: 1 })
      await expire()
      await run('claim A10F')
    },
    'taken over, released': async (on) => {
      await bring['taken over']?.(on)
      await on.run('release A10')
    },
    released: async ({ run }) => {
      await run('claim A10F')
      await run('release A10')
    },
    completed: async ({ run }) => {
      await run('claim A10F')
      await run('complete A10x')
    },
    'completed, kept for longer than a promise': async ({ run }) => {
      await run('claim A10F')
      await run('complete A10x', { keyTtlMs: LONGER_THAN_PROMISES_MS })
    },
    'completed at attempt 2, kept for longer than a promise': async (on) => {
      await bring['taken over']?.(on)
      await on.run('complete A10x', { attempt: 2, keyTtlMs: LONGER_THAN_PROMISES_MS })
    },
    'completed, promised to B at t 20': async (on) => {
      await bring.completed?.(on)
      await on.run('claim B20F')
    },
  }

  describe(`${name}: a record in state`, () => {
    for (const [state, rows] of Object.entries(TABLE)) {
      describe(state, () => {
        test.each(rows)('%s: %s', async (command, answer, after) => {
          const on = await start()
          await bring[state]?.(on)
          const before = sayRecord(recordOf(await on.run('read')), on.base, await nodeMsOf(on))
          const said = await on.run(command)
          expect(sayAnswer(said, on.base)).toBe(answer)
          expect(sayRecord(recordOf(await on.run('read')), on.base, await nodeMsOf(on))).toBe(
            after === '=' ? before : after,
          )
        })

        test('a claim with a token too far ahead of the node is skewed and leaves the record as it was', async () => {
          const on = await start()
          await bring[state]?.(on)
          const before = recordOf(await on.run('read'))
          const claim = commandParser(on.key, on.base)('claim B20F')
          const token = tokenAt((await nodeMsOf(on)) + CONTRACT_MAX_TOKEN_AHEAD_MS + 10_000)
          expect(await on.execute({ ...claim, token } as RecordCommand)).toMatchObject({ kind: 'skewed' })
          expect(recordOf(await on.run('read'))).toEqual(before)
          // Nor does the release of that claim raise the fence.
          await on.execute({ ...commandParser(on.key, on.base)('release B20'), token } as RecordCommand)
          expect(recordOf(await on.run('read'))).toEqual(before)
        })

        test('a renewal with a token too far ahead of the node is skewed and leaves the record as it was', async () => {
          const on = await start()
          await bring[state]?.(on)
          const before = recordOf(await on.run('read'))
          const token = tokenAt((await nodeMsOf(on)) + CONTRACT_MAX_TOKEN_AHEAD_MS + 10_000)
          for (const owner of ['A', 'B']) {
            const renewal = { ...commandParser(on.key, on.base)(`renew ${owner}20`), token } as RecordCommand
            expect(await on.execute(renewal)).toMatchObject({ kind: 'skewed' })
          }
          expect(recordOf(await on.run('read'))).toEqual(before)
        })

        test('a release of a token too far ahead of the node leaves no fence that no claimant could pass', async () => {
          const on = await start()
          await bring[state]?.(on)
          const before = recordOf(await on.run('read'))
          const release = commandParser(on.key, on.base)('release B20')
          const token = tokenAt((await nodeMsOf(on)) + CONTRACT_MAX_TOKEN_AHEAD_MS + 10_000)
          await on.execute({ ...release, token } as RecordCommand)
          expect(recordOf(await on.run('read'))).toEqual(before)
          expect(await on.execute({ ...release, token, forgets: true } as RecordCommand)).toMatchObject({
            kind: 'skewed',
          })
          expect(recordOf(await on.run('read'))).toEqual(before)
        })
      })
    }
  })

  describe(`${name}, which takes no new claims: a record in state`, () => {
    for (const [state, rows] of Object.entries(TABLE)) {
      // Absent and released records. It answers all else as before, and records the outcomes of granted claims.
      const isNew = (answer: string) => ['absent', 'released'].includes(state) && answer.startsWith('granted')
      const asFull = rows.map(
        ([command, answer, after]): Row =>
          isNew(answer) ? [command, 'full', '='] : [command, answer, after],
      )
      test.each(asFull)(`${state}: %s: %s`, async (command, answer, after) => {
        const on = await start()
        await bring[state]?.(on)
        const before = sayRecord(recordOf(await on.run('read')), on.base, await nodeMsOf(on))
        on.takeNewClaims(false)
        try {
          expect(sayAnswer(await on.run(command), on.base)).toBe(answer)
        } finally {
          on.takeNewClaims(true)
        }
        const now = sayRecord(recordOf(await on.run('read')), on.base, await nodeMsOf(on))
        expect(now).toBe(after === '=' ? before : after)
      })
    }
  })

  describe(`${name}: besides the table`, () => {
    test('a renewal carries the attempt that it was granted', async () => {
      const { run } = await start()
      await run('renew B20', { attempt: 7 })
      expect(recordOf(await run('read'))).toMatchObject({ attempt: 7 })
    })

    test('a renewal at the token that was promised is not refused for how far ahead it is', async () => {
      const on = await start()
      const token = tokenAt((await nodeMsOf(on)) + CONTRACT_MAX_TOKEN_AHEAD_MS + 10_000)
      const as = (text: string) => ({ ...commandParser(on.key, on.base)(text), token }) as RecordCommand
      await on.execute(as('complete A20x'))
      expect(await on.execute(as('renew A20'))).toMatchObject({ kind: 'renewed' })
    })

    test('renewing keeps the time of the claim, taking over sets it', async () => {
      const { run, expire, reach } = await start()
      await run('claim A10F', { leaseMs: 1 })
      const first = claimedAt(await run('read'))
      await reach(first + 2)
      await run('renew A10', { leaseMs: 1 })
      expect(claimedAt(await run('read'))).toBe(first)
      await expire()
      await run('claim B20F')
      expect(claimedAt(await run('read'))).toBeGreaterThan(first)
    })

    test('attempts are counted to 9999 and stay there, and the record stays readable', async () => {
      const { run, expire } = await start()
      await run('renew A10', { attempt: ATTEMPT_MAX, leaseMs: 1 })
      await expire()
      expect(await run('claim B20F')).toMatchObject({ kind: 'granted', attempt: ATTEMPT_MAX })
      expect(recordOf(await run('read'))).toMatchObject({ attempt: ATTEMPT_MAX, fingerprint: FINGERPRINTS.F })
    })

    test('after its lifetime the record is forgotten, and its fence with it', async () => {
      const { run, reach } = await start()
      const granted = await run('claim A10F', { leaseMs: 1, keyTtlMs: 5 })
      if (!('nodeMs' in granted)) throw new Error('no time')
      await reach(granted.nodeMs + 20)
      expect(await run('claim B5F')).toMatchObject({ kind: 'granted', attempt: 1 })
    })

    test('a read says how long the record is kept, and gives no time for an absent one', async () => {
      const { run } = await start()
      expect(await run('read')).not.toHaveProperty('ttlMs')
      const [granted, read] = await Promise.all([run('claim A10F', { keyTtlMs: LONG_MS }), run('read')])
      if (granted.kind !== 'granted' || read.kind !== 'record') throw new Error('not granted and read')
      // Redis reads its clock once for a call and anew for TIME.
      expect(Math.abs((read.ttlMs ?? 0) - LONG_MS)).toBeLessThan(1_000)
    })

    test('a promise on a completed record does not prolong the time of its outcome, and outlives it', async () => {
      const { run, reach, base } = await start()
      await run('claim A10F')
      // In one turn: they travel together, without a delay between them.
      const [recorded, promised, again] = await Promise.all([
        run('complete A10x', { keyTtlMs: 200 }),
        run('claim B20F', { keyTtlMs: LONG_MS }),
        run('claim C30F', { keyTtlMs: LONG_MS }),
      ])
      if (!('nodeMs' in recorded)) throw new Error('no time')
      expect(promised).toMatchObject({ kind: 'completed', promised: true })
      expect(again).toMatchObject({ kind: 'completed', promised: true })
      await reach(recorded.nodeMs + 220)
      const read = await run('read')
      expect(sayAnswer(read, base)).toBe('released t30')
      expect(lifetimeOf(read)).toBeGreaterThan(CONTRACT_MAX_TOKEN_AHEAD_MS)
      // An adoption of what is over finds nothing to replace; nor may a smaller token claim.
      expect(sayAnswer(await run('complete C30x of 30'), base)).toBe('fenced t30')
      expect(sayAnswer(await run('claim B20F'), base)).toBe('stale t30')
      expect(sayAnswer(await run('claim B40G'), base)).toBe('granted 1')
    })

    test('a promise that ends before its outcome leaves the lifetime of the record as it is', async () => {
      const { run } = await start()
      await run('claim A10F')
      const ttlMs = LONGER_THAN_PROMISES_MS
      const [, , read] = await Promise.all([
        run('complete A10x', { keyTtlMs: ttlMs }),
        run('claim B20F', { keyTtlMs: LONG_MS }),
        run('read'),
      ])
      expect(recordOf(read)).not.toHaveProperty('overAtNodeMs')
      expect(lifetimeOf(read)).toBeGreaterThan(ttlMs - 1_000)
    })

    test('an outcome comes back byte for byte: empty, large, and with every byte there is', async () => {
      const outcomes = [Buffer.alloc(0), Buffer.alloc(300_000, 'ü'), Buffer.from([...Array(256).keys()])]
      for (const outcome of outcomes) {
        const { run, key, base, execute } = await start()
        await run('claim A10F')
        const complete = commandParser(key, base)('complete A10x')
        await execute({ ...complete, outcome } as RecordCommand)
        const read = recordOf(await run('read'))
        expect(read?.state === 'completed' && read.outcome.equals(outcome)).toBe(true)
      }
    })

    test.each([
      ['an owner', { owner: 'short' }],
      ['a fingerprint', { fingerprint: 'synthetic' }],
    ])('%s of a wrong length is refused, and leaves no record', async (_, change) => {
      const { key, base, run } = await start()
      const command = { ...commandParser(key, base)('claim B20F'), ...change } as RecordCommand
      const { node } = await opened!
      expect(await node.execute(command)).toMatchObject({
        kind: 'unreachable',
        answered: true,
        detail: expect.stringContaining('does not fit the record'),
      })
      expect(await run('read')).toMatchObject({ kind: 'record', record: undefined })
    })

    test('commands given in one order are executed in that order', async () => {
      const { run } = await start()
      const answers = await Promise.all([
        run('claim A10F'),
        run('claim B20F'),
        run('release A10'),
        run('claim B20F'),
      ])
      expect(answers.map((answer) => answer.kind)).toEqual(['granted', 'held', 'released', 'granted'])
    })
  })

  return { answersSeen }
}

function lifetimeOf(answer: NodeAnswer): number {
  return answer.kind === 'record' ? (answer.ttlMs ?? 0) : 0
}

function nameOf(answer: NodeAnswer): string {
  if (answer.kind === 'record' && answer.record === undefined) return 'absent'
  return answer.kind === 'unreachable' && answer.full === true ? 'full' : answer.kind
}

function commandParser(key: string, base: Token): (text: string) => RecordCommand {
  return (text) => {
    const parts = /^(?<kind>\w+)(?: (?<who>[ABC])(?<count>\d+)(?<what>[FGxy])?(?: of (?<of>\d+))?)?$/.exec(
      text,
    )?.groups
    if (parts === undefined) throw new Error(`not a command of the table: ${text}`)
    const { kind, who, count, what, of } = parts
    if (kind === 'read') return { kind, key }
    const claimant = {
      key,
      token: base + Number(count),
      owner: OWNERS[who as Who],
      keyTtlMs: LONG_MS,
    }
    const fingerprint = FINGERPRINTS.F
    switch (kind) {
      case 'claim':
        return { kind, ...claimant, leaseMs: LONG_MS, fingerprint: FINGERPRINTS[what as Print] }
      case 'renew':
        return { kind, ...claimant, leaseMs: LONG_MS, fingerprint, attempt: 1 }
      case 'raise':
        return { kind: 'renew', ...claimant, leaseMs: LONG_MS, fingerprint, attempt: 1, raises: true }
      case 'complete':
        return {
          kind,
          ...claimant,
          fingerprint,
          attempt: 1,
          outcome: OUTCOMES[what as 'x' | 'y'],
          ...(of === undefined ? {} : { acceptedToken: base + Number(of) }),
        }
      case 'release':
        return { kind, ...claimant }
      case 'withdraw':
        return { kind: 'release', ...claimant, withdraws: true }
      case 'forget':
        return { kind: 'release', ...claimant, forgets: true }
      default:
        throw new Error(`not a command: ${kind}`)
    }
  }
}

async function nodeMsOf(on: { run(text: string): Promise<NodeAnswer> }): Promise<number> {
  const answer = await on.run('read')
  return 'nodeMs' in answer ? answer.nodeMs : Number.NaN
}

function recordOf(answer: NodeAnswer): NodeRecord | undefined {
  if (answer.kind !== 'record') throw new Error(`not the answer to a read: ${JSON.stringify(answer)}`)
  return answer.record
}

function claimedAt(answer: NodeAnswer): number {
  const record = recordOf(answer)
  return record?.state === 'claimed' ? record.claimedAtNodeMs : Number.NaN
}

const nameIn = (names: Record<string, unknown>, value: unknown) =>
  Object.entries(names).find(([, known]) =>
    Buffer.isBuffer(known) && Buffer.isBuffer(value) ? known.equals(value) : known === value,
  )?.[0] ?? String(value)
const who = (owner: string) => (owner === NO_OWNER ? 'no owner' : nameIn(OWNERS, owner))
const print = (fingerprint: string) => nameIn(FINGERPRINTS, fingerprint)

function sayRecord(record: NodeRecord | undefined, base: Token, nodeMs: number): string {
  switch (record?.state) {
    case undefined:
      return 'absent'
    case 'released':
      return `released t${record.fence - base}`
    case 'claimed': {
      const lease = record.leaseUntilNodeMs > nodeMs ? 'live' : 'expired'
      const kept = record.kept ? 'kept, ' : ''
      return `claimed t${record.fence - base} ${who(record.owner)} ${lease}, ${kept}attempt ${record.attempt}, ${print(record.fingerprint)}`
    }
    case 'completed':
      return `completed t${record.fence - base} ${who(record.owner)}, accepted t${record.acceptedToken - base}, attempt ${record.attempt}, ${print(record.fingerprint)}, ${nameIn(OUTCOMES, record.outcome)}`
  }
}

function sayAnswer(answer: NodeAnswer, base: Token): string {
  switch (answer.kind) {
    case 'granted':
      return `granted ${answer.attempt}`
    case 'held':
      return `held t${answer.fence - base} ${answer.remainingMs > 0 ? 'live' : 'expired'}, ${print(answer.fingerprint)}, attempt ${answer.attempt}`
    case 'mismatch':
      return `mismatch t${answer.fence - base} ${answer.remainingMs > 0 ? 'live' : 'expired'}, ${print(answer.fingerprint)}`
    case 'stale':
    case 'lost':
    case 'fenced':
    case 'not_owner':
      return answer.fence === NO_TOKEN ? `${answer.kind}, no fence` : `${answer.kind} t${answer.fence - base}`
    case 'completed':
      return `completed t${answer.fence - base} ${answer.promised ? 'promised' : 'not promised'}, accepted t${answer.acceptedToken - base}, attempt ${answer.attempt}, ${print(answer.fingerprint)}, ${nameIn(OUTCOMES, answer.outcome)}`
    case 'record':
      return sayRecord(answer.record, base, answer.nodeMs)
    case 'skewed':
    case 'renewed':
    case 'recorded':
    case 'released':
      return answer.kind
    case 'unreachable':
      return answer.full ? nameOf(answer) : JSON.stringify(answer)
    case 'quarantined':
      return JSON.stringify(answer)
  }
}
