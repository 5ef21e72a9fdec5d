/**
 * Answers `unavailable` at once while the quorum stays lost, and probes for its return with one claim at a time: of a request, or of our own,
 * as an unready pod gets no requests.
 *
 * Without it every request waits for its whole budget, and all of them reach all nodes the moment one returns. A
 * holder's calls (renew, complete, release) and reads pass through: only the holder can make them.
 *
 * Owns the decision whether to claim at all.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Leases } from '../ports.ts'
import { isQuorumLost } from '../quorum/tally.ts'
import { admit, type Breaker, type BreakerRules, CLOSED, report } from './breaker.ts'

/**
 * A second without a single majority is an outage, not a hiccup. Probes stay frequent: with the nodes' own breakers and
 * reconnections (a second each, side by side) a quorum that is back is used within two seconds.
 */
export const QUORUM_BREAKER: BreakerRules = { failures: 3, failingForMs: 1_000, openMs: 250, openMaxMs: 500 }

export type QuorumBreakerOptions = {
  /** Of several groups: whose quorum this is. */
  readonly group?: string
  /** A majority, for the answer. */
  readonly required: number
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly rules?: BreakerRules
}

/** @returns puts any leases of this quorum behind the one breaker */
export function quorumBreaker(options: QuorumBreakerOptions): (leases: Leases) => Leases {
  const { group, required, clock, random, events, rules = QUORUM_BREAKER } = options
  let breaker: Breaker = CLOSED

  /** @param heard nodes whose answer counted in the claim that decides it */
  function become(next: Breaker, heard?: number): void {
    const from = breaker.kind
    breaker = next
    if (from === next.kind) return
    const of = group === undefined ? {} : { group }
    const found = heard === undefined ? {} : { answered: heard }
    events.publish({ kind: 'quorum_breaker_changed', ...of, from, to: next.kind, ...found })
  }

  return (leases) => ({
    ...leases,
    claim: async (request) => {
      const { breaker: next, admitted } = admit(breaker, clock.monoMs())
      become(next)
      if (admitted === 'no') return { kind: 'unavailable', answered: 0, required, notAsked: 'no_majority' }
      // Where the claim itself is refused (a rule broken by the caller), it says nothing of the quorum.
      let answered = true
      let heard: number | undefined
      try {
        const result = await leases.claim(request)
        if (result.kind !== 'granted') heard = result.answered
        // Nodes without room for new claims, or whose answer does not count for this one, are well: claims still go to them.
        answered = result.kind !== 'unavailable' || !isQuorumLost(result)
        return result
      } finally {
        become(report(breaker, admitted, answered, clock.monoMs(), random.fraction(), rules), heard)
      }
    },
  })
}
