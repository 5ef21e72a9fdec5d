/**
 * What is known of a node that is to wait for its vote: whether it forgot or is new, and whether what was copied to it is still there.
 *
 * A node whose data are set back while it waits (a virtual machine that is restored with its memory) has its nonce among the data, and
 * its progress, which is of the same moment. But the process that copies to it remembers what it has copied, and does not copy it
 * again. So the node counts the calls that tell it records, in the same step; one that shows fewer than were known before it was asked
 * lacks what later ones told it.
 *
 * Owns these judgements over what one look and one process know of one node.
 */

import {
  hasEvictedSince,
  isQuarantined,
  type Lineage,
  type Membership,
  type Quarantine,
  wasReplicaSince,
} from './enrolment-rules.ts'

/** The calls that have told a node records, as far as one process knows. */
export class CatchUpCounter {
  #nonce = ''
  #calls = 0
  #lacking: string | undefined

  known(nonce: string): number {
    return nonce === this.#nonce ? this.#calls : 0
  }

  learn(nonce: string, calls: number): void {
    this.#calls = Math.max(this.known(nonce), calls)
    this.#nonce = nonce
  }

  /** A look begins. @returns to be called with what it shows: a call that comes meanwhile is no sign */
  asked(): (shown: Quarantine | undefined) => void {
    const [nonce, calls] = [this.#nonce, this.#calls]
    return (shown) => {
      if (shown === undefined) return
      const { told = 0 } = shown
      if (shown.nonce === nonce && told < calls) this.#lacking = nonce
      else this.learn(shown.nonce, told)
    }
  }

  /** What was copied to the node under that nonce is gone. */
  isLacking(nonce: string | undefined): boolean {
    return nonce !== undefined && nonce === this.#lacking
  }
}

export type Wait = {
  readonly forgot: boolean
  /** Of this run of its process. */
  readonly quarantine: Quarantine | undefined
  /** What was copied to it may be gone. */
  readonly emptied: boolean
  /** Its quarantine stands, and goes on. */
  readonly begun: boolean
}

/**
 * @param wasVoting in the life of this process
 * @param clusterIsKnown other nodes have an epoch, or this process knows their cluster: then it is not new, whatever it looks like by itself
 */
export function waitOf(
  { wasVoting, told }: { readonly wasVoting: boolean; readonly told: CatchUpCounter },
  shown: Membership & { readonly lineage: Lineage; readonly evictedKeys: number },
  clusterIsKnown: boolean,
): Wait {
  // Nor is one that knows its cluster: its epoch was taken away, perhaps by a sidecar that is gone.
  const knows = shown.epoch !== undefined || shown.cluster !== undefined
  const forgot = wasVoting || clusterIsKnown || knows || shown.quarantine?.origin === 'forgot'
  const quarantine = isQuarantined(shown) ? shown.quarantine : undefined
  const emptied =
    quarantine !== undefined &&
    (told.isLacking(quarantine.nonce) ||
      wasReplicaSince(quarantine.lineage, shown.lineage) ||
      hasEvictedSince(quarantine.evictedKeys ?? shown.evictedKeys, shown.evictedKeys))
  const begun = quarantine !== undefined && !emptied && (!forgot || quarantine.origin === 'forgot')
  return { forgot, quarantine, emptied, begun }
}
