/**
 * Skips a node that does not answer, so that one hung node costs no request its deadline.
 *
 * Owns what counts as a failure of a node: silence and errors. A connection that is down does not count (trying it
 * costs nothing), nor does a single record that the node can't use: it answered.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { NodeAnswer, RecordNode } from '../ports.ts'
import { admit, type Breaker, type BreakerRules, CLOSED, report } from './breaker.ts'

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
        if (breaker === CLOSED && answersAgain(answer)) return answer
        // Down is known without a probe; a probe that fails like that proves no return.
        if (!notEvenSent(answer) || admitted === 'probe') {
          become(report(breaker, admitted, answersAgain(answer), clock.monoMs(), random.fraction(), rules))
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

function answersAgain(answer: NodeAnswer): boolean {
  return answer.kind !== 'unreachable' || answer.answered === true
}
