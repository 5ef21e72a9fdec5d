/**
 * Circuit breakers: of the quorum, and of a node.
 *
 * While the quorum stays lost claims are answered `unavailable` at once, and one at a time probes for its return: or every request would
 * wait for its whole budget, and all of them reach all nodes the moment one returns. A holder's calls and reads pass through.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Leases, NodeAnswer, RecordNode } from '../ports.ts'
import { isQuorumLost } from '../quorum/tally.ts'

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

/*
 * A circuit breaker, as pure functions of the monotonic time:
 *
 *   closed → open (failed too often in a row) → half-open (its time is up: one probe) → closed | open, for longer
 */

export type Breaker =
  | { readonly kind: 'closed'; readonly failures: number; readonly failingSinceMonoMs: number }
  | { readonly kind: 'open'; readonly untilMonoMs: number; readonly trips: number }
  /** One probe is under way. */
  | { readonly kind: 'half_open'; readonly trips: number }

export type BreakerRules = {
  /** Failures in a row that open it… */
  readonly failures: number
  /** …where they go on for this long. */
  readonly failingForMs: number
  /** How long it stays open the first time; twice as long each further time. */
  readonly openMs: number
  readonly openMaxMs: number
}

export const CLOSED: Breaker = { kind: 'closed', failures: 0, failingSinceMonoMs: 0 }

/** Whether to send a request now; the first one after the open time is the probe. */
export function admit(
  breaker: Breaker,
  monoMs: number,
): { readonly breaker: Breaker; readonly admitted: 'yes' | 'probe' | 'no' } {
  switch (breaker.kind) {
    case 'closed':
      return { breaker, admitted: 'yes' }
    case 'half_open':
      return { breaker, admitted: 'no' }
    case 'open':
      return monoMs < breaker.untilMonoMs
        ? { breaker, admitted: 'no' }
        : { breaker: { kind: 'half_open', trips: breaker.trips }, admitted: 'probe' }
  }
}

/**
 * What follows from an answer, or from its absence.
 *
 * @param admitted how the request was admitted: one from before the breaker opened decides nothing any more
 * @param fraction uniform in [0, 1): breakers that opened together must not probe together
 */
export function report(
  breaker: Breaker,
  admitted: 'yes' | 'probe',
  answered: boolean,
  monoMs: number,
  fraction: number,
  rules: BreakerRules,
): Breaker {
  switch (breaker.kind) {
    case 'open':
      return breaker
    case 'half_open':
      if (admitted !== 'probe') return breaker
      return answered ? CLOSED : opened(breaker.trips + 1, monoMs, fraction, rules)
    case 'closed': {
      if (answered) return breaker.failures === 0 ? breaker : CLOSED
      const failures = breaker.failures + 1
      const failingSinceMonoMs = breaker.failures === 0 ? monoMs : breaker.failingSinceMonoMs
      const enough = failures >= rules.failures && monoMs - failingSinceMonoMs >= rules.failingForMs
      return enough ? opened(0, monoMs, fraction, rules) : { kind: 'closed', failures, failingSinceMonoMs }
    }
  }
}

/** The upper half of the time is jitter. */
function opened(trips: number, monoMs: number, fraction: number, rules: BreakerRules): Breaker {
  const ceilingMs = Math.min(rules.openMaxMs, rules.openMs * 2 ** Math.min(trips, 20))
  return { kind: 'open', untilMonoMs: monoMs + (ceilingMs * (1 + fraction)) / 2, trips }
}

/*
 * One hung node costs no request its deadline. Silence and errors count; a connection that is down does not (trying it costs nothing), nor
 * a record that the node can't use: it answered.
 */

/**
 * A lost answer or two is a lossy network, and many at one moment are one late call: a node is given up after three
 * failures in a row that are a tenth of a second apart. Its return is found within a second.
 */
export const NODE_BREAKER: BreakerRules = { failures: 3, failingForMs: 100, openMs: 100, openMaxMs: 1_000 }

export type NodeBreakerOptions = {
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly rules?: BreakerRules
}

export function withBreaker(node: RecordNode, options: NodeBreakerOptions): RecordNode {
  const { clock, random, events, rules = NODE_BREAKER } = options
  let breaker: Breaker = CLOSED

  function become(next: Breaker): void {
    const from = breaker.kind
    breaker = next
    if (from !== next.kind) events.publish({ kind: 'breaker_changed', node: node.name, from, to: next.kind })
  }

  return {
    name: node.name,
    execute: (command) => {
      let admitted: 'yes' | 'probe' = 'yes'
      // A closed breaker reads no clock.
      if (breaker.kind !== 'closed') {
        const judged = admit(breaker, clock.monoMs())
        become(judged.breaker)
        if (judged.admitted === 'no') return NOT_ASKED
        admitted = judged.admitted
      }
      return node.execute(command).then((answer) => {
        if (breaker === CLOSED && isBack(answer)) return answer
        // Down is known without a probe; a probe that fails like that proves no return.
        if (!notEvenSent(answer) || admitted === 'probe') {
          become(report(breaker, admitted, isBack(answer), clock.monoMs(), random.fraction(), rules))
        }
        return answer
      })
    },
  }
}

const NOT_ASKED: Promise<NodeAnswer> = Promise.resolve({
  kind: 'unreachable',
  reason: 'refused',
  detail: 'not asked: it has not answered the last times (breaker open)',
})

function notEvenSent(answer: NodeAnswer): boolean {
  return answer.kind === 'unreachable' && answer.reason === 'refused' && answer.silent === undefined
}

function isBack(answer: NodeAnswer): boolean {
  return answer.kind !== 'unreachable' || answer.answered === true
}
