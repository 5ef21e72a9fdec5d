/**
 * What is known of a node that is to wait for its vote: whether it forgot or is new, and whether its quarantine goes on.
 *
 * Owns these judgements over what one look and one process know of it. What follows is `nodes.ts` and `enroller.ts`.
 */

import { isQuarantined, type Quarantine, wasReplicaSince } from '../core/nodes/enrolment-rules.ts'
import { hasEvictedSince } from '../core/nodes/epoch-watch.ts'
import type { NodeFacts } from './inspection.ts'
import type { Member } from './member.ts'

export type Wait = {
  readonly forgot: boolean
  /** Of this run of its process. */
  readonly quarantine: Quarantine | undefined
  /** What was copied to it may be gone. */
  readonly emptied: boolean
  /** Its quarantine stands, and goes on. */
  readonly begun: boolean
}

/** @param clusterIsKnown other nodes have an epoch, or this process knows their cluster: then it is not new, whatever it looks like by itself */
export function waitOf(
  { wasVoting, told }: Pick<Member, 'wasVoting' | 'told'>,
  facts: NodeFacts,
  clusterIsKnown: boolean,
): Wait {
  // Nor is one that knows its cluster: its epoch was taken away, perhaps by a sidecar that is gone.
  const knows = facts.epoch !== undefined || facts.cluster !== undefined
  const forgot = wasVoting || clusterIsKnown || knows || facts.quarantine?.origin === 'forgot'
  const quarantine = isQuarantined(facts) ? facts.quarantine : undefined
  const emptied =
    quarantine !== undefined &&
    (told.isLacking(quarantine.nonce) ||
      wasReplicaSince(quarantine.lineage, facts.lineage) ||
      hasEvictedSince(quarantine.evictedKeys ?? facts.evictedKeys, facts.evictedKeys))
  const begun = quarantine !== undefined && !emptied && (!forgot || quarantine.origin === 'forgot')
  return { forgot, quarantine, emptied, begun }
}

/** An epoch of an earlier run says as well that its cluster lives. */
export function hasEpoch({ state }: Pick<Member, 'state'>): boolean {
  return 'facts' in state && state.facts.epoch !== undefined
}
