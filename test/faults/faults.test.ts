// A short fault run with every build: some of each kind of fault, in an order from a seed, on real processes.
import { test } from 'vitest'
import { breaksNoPromise } from './checked-run.ts'

/** A node's memory; the network; late calls; a stranger on a node. `faults.long.test.ts` has one or two of every kind. */
const SLICE = ['F5', 'F14a', 'F42', 'F47a'] as const

test('no promise is broken, and every fault bites', { timeout: 400_000 }, () => breaksNoPromise(SLICE))
