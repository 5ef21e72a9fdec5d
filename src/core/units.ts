/**
 * Units as types, so that a millisecond is never taken for a second.
 *
 * Owns only names: every duration in the code is a number of milliseconds and says so in its own name
 * (`leaseMs`); every instant says on which clock it was read (`…MonoMs`, `…WallMs`, `…NodeMs`).
 */

/** Smallest strict majority of `nodeCount` nodes: ⌊N/2⌋ + 1. */
export function majorityOf(nodeCount: number): number {
  return Math.floor(nodeCount / 2) + 1
}
