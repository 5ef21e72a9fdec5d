/**
 * When a brand-new cluster may be founded.
 *
 *   all N nodes wait as new ones → proposed → no objection for the founding window → claimed → founded
 *                                     └→ a node forgot again, or a sidecar knows that it is not new: no proposal
 *
 * Nodes that all forgot at once look like new ones to a new sidecar. A sidecar that knew their cluster dials again,
 * finds a node empty, and writes on it that it forgot. So a founder waits until all of those have had their turn.
 *
 * Owns this judgement as pure functions. A sidecar that was cut off from every node for the whole window has not
 * objected, and finds its nodes in another cluster than its own, which it refuses (`fitness.ts`).
 */

import { isQuarantined, type Membership, type Quarantine } from './enrolment-rules.ts'

/**
 * Longer than a running sidecar takes to notice and object: a second between two attempts to dial, one for an
 * inspection, and one for a busy machine. A dial under way is added by {@link foundingWindowMs}.
 */
export const FOUNDING_WINDOW_MS = 3_000

/** The parts of it besides the dial. */
const BESIDE_DIALLING_MS = 2_000

/** @param connectTimeoutMs how long an attempt to dial may last: one that began too early must not use up the window */
export function foundingWindowMs(connectTimeoutMs: number): number {
  return Math.max(FOUNDING_WINDOW_MS, connectTimeoutMs + BESIDE_DIALLING_MS)
}

/** The proposals on all N nodes, and since when this process has seen them without a gap. */
export type Proposal = { readonly nonces: readonly string[]; readonly sinceMonoMs: number }

/**
 * If none of all N nodes has ever had an epoch, and each waits as a new one, none is known to have forgotten one.
 *
 * @param members one entry per configured node; undefined where it does not answer
 */
export function mayBeFounded(members: readonly (Membership | undefined)[]): boolean {
  return noncesOfNew(members) !== undefined
}

/** Whether nothing on a node says that it was ever enrolled; also before a sidecar has proposed anything there. */
export function looksNew({ epoch, cluster, quarantine }: Membership): boolean {
  return epoch === undefined && cluster === undefined && quarantine?.origin !== 'forgot'
}

/** The proposal after one more look; undefined where there is none. A node that forgot again starts another one. */
export function proposedBy(
  members: readonly (Membership | undefined)[],
  before: Proposal | undefined,
  nowMonoMs: number,
): Proposal | undefined {
  const nonces = noncesOfNew(members)
  if (nonces === undefined) return undefined
  const same = before !== undefined && before.nonces.join() === nonces.join()
  return same ? before : { nonces, sinceMonoMs: nowMonoMs }
}

function noncesOfNew(members: readonly (Membership | undefined)[]): readonly string[] | undefined {
  const nonces = members.flatMap((member) =>
    member !== undefined && isNew(member) ? [member.quarantine.nonce] : [],
  )
  return nonces.length === members.length ? nonces : undefined
}

function isNew(member: Membership): member is Membership & { readonly quarantine: Quarantine } {
  return (
    member.epoch === undefined &&
    member.cluster === undefined &&
    isQuarantined(member) &&
    member.quarantine.origin === 'new'
  )
}
