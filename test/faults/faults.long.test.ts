// A fault run of one or two faults of each kind, and every combination of nodes that are up, refused and hung.
import { expect, test } from 'vitest'
import { breaksNoPromise } from './checked-run.ts'
import { runCombinations } from './combinations.ts'
import { unanswered } from './experiments.ts'

/** One or two of each kind: nodes, their memory, clocks and data; network; sidecars; application and clients. */
const SHORT = [
  'F1',
  'F3',
  'F5',
  'F11b',
  'F11c',
  'F14a',
  'F16a',
  'F18',
  'F22e',
  'F23',
  'F30',
  'F31',
  'F32',
  'F35',
  'F39b',
  'F41',
  'F42',
  'F45',
  // F46a is the same without a restart of the sidecars.
  'F46b',
] as const

test('no promise is broken, and every fault bites', { timeout: 400_000 }, () => breaksNoPromise(SHORT))

test('each of the 243 combinations of nodes that are up, refused and hung is answered', {
  timeout: 400_000,
}, async () => {
  const combinations = await runCombinations()
  expect(combinations).toHaveLength(243)
  expect(unanswered(combinations)).toEqual([])
})
