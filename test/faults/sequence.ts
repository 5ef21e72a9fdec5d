/**
 * Which faults a run does, one after the other, and the dice of each: from the seed alone.
 *
 * Owns the order. Every fault has dice of its own, told apart by its place in the order, so that neither the traffic nor what an
 * earlier fault asked of its dice changes a later one; a run that is longer goes on where a shorter one ended.
 */

import { seededRandom } from '../support/seeded-random.ts'
import { choose, type Fault } from './fault.ts'

export type Turn = { readonly fault: Fault; readonly fraction: () => number }

/** Far apart, so that no two streams of one seed are one. */
const STREAM = 0x9e3779b1

/** Dice of one seed for one purpose. */
export function streamOf(seed: number, purpose: number): () => number {
  return seededRandom((Math.imul(purpose + 1, STREAM) ^ seed) >>> 0).fraction
}

/** What has dice of its own beside the faults, which have the numbers from 0 on. */
export const PURPOSE = { order: -10, links: -20, load: -30, last: -40 } as const

export function loadSeedOf(seed: number): number {
  return (Math.imul(PURPOSE.load, STREAM) ^ seed) >>> 0
}

/** The faults in the order of the seed, and then again in the same. */
export function* turnsOf(seed: number, faults: readonly Fault[]): Generator<Turn> {
  const order = choose(streamOf(seed, PURPOSE.order), faults.length, faults.length)
  for (let at = 0; faults.length > 0; at += 1) {
    const fault = faults[order[at % order.length] ?? -1]
    if (fault !== undefined) yield { fault, fraction: streamOf(seed, at) }
  }
}
