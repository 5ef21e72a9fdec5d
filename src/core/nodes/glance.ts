/**
 * A glance at a node that votes: its time, its epoch, its cluster's longest quarantine, and the time of its pulse,
 * instead of all that a look reads.
 *
 * Whoever looks in the half second after a pulse was written need not look at everything: the process that wrote it has
 * just done so, and writes none where it finds a node unfit. So of all processes that watch a node at most two a second
 * look at everything, and where they find a reason not to write, the others see the pulse grow old and look themselves.
 *
 * Owns when a glance suffices, and when the next look is due. What a look does is elsewhere.
 */

import { PULSE_EVERY_MS } from './continuity.ts'
import type { Membership } from './enrolment-rules.ts'

export type Glance = {
  readonly nodeMs: number
  readonly epoch: string | undefined
  /** The longest of the cluster: votes are suspended for as long, so a longer one must be known in time. */
  readonly quarantineMs: number | undefined
  readonly pulse: { readonly runId: string; readonly nodeMs: number } | undefined
}

/** Of so many looks in a row at least one is at everything, whatever the pulse says. */
export const LOOKS_PER_WHOLE_ONE = 10

/** Where glances are enough, looks are so much further apart: each wakes the node up. The watch over clocks allows gaps of 3 s (`node-clocks.ts`). */
const GLANCES_APART = 1.75

/**
 * Until the next look, jittered, so that sidecars that started together do not look together.
 *
 * @param everyMs mean time between looks where glances are not enough
 * @param fraction uniform in [0, 1)
 */
export function nextLookMs(everyMs: number, glancesAreEnough: boolean, fraction: number): number {
  return everyMs * (glancesAreEnough ? GLANCES_APART : 1) * (0.75 + fraction / 2)
}

/** @param known what the last look at everything found, on the same connection */
export function suffices(
  { nodeMs, epoch, quarantineMs, pulse }: Glance,
  known: Pick<Membership, 'runId' | 'epoch' | 'cluster'>,
  pulseEveryMs = PULSE_EVERY_MS,
): boolean {
  if (epoch === undefined || epoch !== known.epoch || quarantineMs !== known.cluster?.quarantineMs)
    return false
  return pulse?.runId === known.runId && Math.abs(nodeMs - pulse.nodeMs) < pulseEveryMs
}
