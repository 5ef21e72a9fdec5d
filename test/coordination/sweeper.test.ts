/** What the sweeper says of dead letters that no majority takes. */
import { expect, test } from 'vitest'
import { createSweeper } from '../../src/coordination/sweeper.ts'
import { reportingUntaken } from '../../src/core/coordination/audit-log.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import type { Leases } from '../../src/core/ports.ts'
import { systemClock } from '../../src/system/clock.ts'

const KEYS = ['a', 'b', 'c'].map((digit) => `dedup:default:prod:v1:${digit.repeat(64)}`)

test('a sweep whose dead letters no majority takes says so once, and the next one writes them', async () => {
  let taken = false
  const written: string[] = []
  const told: CoreEvent[] = []
  const read = async () =>
    ({
      kind: 'claimed',
      token: 7,
      attempt: 1,
      fingerprint: 'f',
      remainingMs: 0,
      majorityReached: true,
    }) as const
  const sweeper = createSweeper({
    sources: [
      {
        expired: async () => ({ found: KEYS.map((recordKey) => ({ recordKey, token: 7 })), cursor: '0' }),
      },
    ],
    leases: { read } as unknown as Leases,
    auditLog: {
      append: async (_stream, { id }) => {
        if (taken) written.push(id)
        return taken
      },
      read: async () => ({ kind: 'entries', entries: [] }),
      remove: async () => true,
    },
    clock: systemClock,
    terms: {} as never,
    ask: undefined,
    untaken: reportingUntaken(systemClock, { publish: (event) => told.push(event) }),
    onFailure: (cause) => {
      throw cause
    },
  })
  const { signal } = new AbortController()
  expect(await sweeper.sweepOnce(signal)).toBe(3)
  expect(told).toEqual([
    {
      kind: 'entries_untaken',
      of: 'dead-letters',
      entries: 3,
      why: expect.stringMatching(/^orphan:a{16}:7 /),
    },
  ])
  taken = true
  await sweeper.sweepOnce(signal)
  expect([told.length, written.length]).toEqual([1, 3])
})
