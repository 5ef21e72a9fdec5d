import { expect, test } from 'vitest'
import type { ObservedEvent } from '../../../src/core/decision.ts'
import { createObservations, observedSays } from '../../../src/core/health/observations.ts'

const event = (would: ObservedEvent['would'], because: string, ageMs?: number): ObservedEvent => ({
  kind: 'observed',
  route: 'payments',
  by: 'key',
  would,
  because,
  ...(ageMs === undefined ? {} : { ageMs }),
})

test('what two sidecars have observed is summed, and said in words', () => {
  const [one, other] = [createObservations(), createObservations()]
  for (const ageMs of [500, 900, 9_000]) one.add(event('replayed', 'replayed', ageMs))
  other.add(event('replayed', 'replayed', 700))
  other.add(event('replayed_other', 'replayed', 90_000_000))
  for (const seen of [one, other]) {
    seen.add(event('refused', 'mismatch'))
    seen.add({ kind: 'near_miss', route: 'payments', names: ['x-turn'] })
  }
  one.include(JSON.parse(JSON.stringify(other.view())))
  const { observed, near_misses: misses } = one.view()
  expect(observedSays(observed)).toEqual([
    [
      'payments, by key: 7 requests would have been',
      '          4  answered from the record, with the answer that the application gave again',
      expect.stringMatching(/^ {10}1 {2}answered from the record, with another answer/),
      '          2  refused',
      '  of those refused or unknown: 2 mismatch',
      '  ages of what would have been replayed: 60 % at most 1 s, 80 % at most 10 s, 1 older',
    ],
  ])
  expect(misses).toMatchObject([{ count: 2, says: expect.stringMatching(/^2 pairs on `payments` differed/) }])
})
