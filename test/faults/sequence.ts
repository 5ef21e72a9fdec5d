/**
 * The sequence of the faults of a run, and the dice of each: from the seed alone.
 *
 * Owns the order. Every fault has its own dice, distinguished by its place in the order, so neither the traffic nor the
 * throws of an earlier fault change a later one; a longer run goes on where a shorter one ended.
 */

import { seededRandom } from '../support/seeded-random.ts'
import { choose, type Fault } from './fault.ts'

export type Turn = { readonly fault: Fault; readonly fraction: () => number }

/** Far apart, so that no two streams of one seed coincide. */
const STREAM = 0x9e3779b1

/** Dice of one seed for one purpose. */
export function streamOf(seed: number, purpose: number): () => number {
  return seededRandom((Math.imul(purpose + 1, STREAM) ^ seed) >>> 0).fraction
}

/** Other purposes with their own dice; the faults have the numbers from 0 on. */
export const PURPOSE = { order: -10, links: -20, load: -30, last: -40 } as const

export function loadSeedOf(seed: number): number {
  return (Math.imul(PURPOSE.load, STREAM) ^ seed) >>> 0
}

/** The faults in the order of the seed, repeated. */
export function* turnsOf(seed: number, faults: readonly Fault[]): Generator<Turn> {
  const order = choose(streamOf(seed, PURPOSE.order), faults.length, faults.length)
  for (let at = 0; faults.length > 0; at += 1) {
    const fault = faults[order[at % order.length] ?? -1]
    if (fault !== undefined) yield { fault, fraction: streamOf(seed, at) }
  }
}
