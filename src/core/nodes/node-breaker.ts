/**
 * Stops asking a node that does not answer, so that one hung node costs nobody its deadline.
 *
 * Owns what counts as a failure of a node: silence and errors. That the connection is down does not (asking then costs
 * nothing), and neither does a single record that the node can't use: it answered.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { NodeAnswer, RecordNode } from '../ports.ts'
import { admit, type Breaker, type BreakerRules, CLOSED, report } from './breaker.ts'

/**
 * A lost answer or two is a lossy network, and many at one moment are one call that was late: a node is given up after three
 * in a row that are a tenth of a second apart. It is found back within a second of its return.
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
      // While it is closed nobody has to look at the clock.
      if (breaker.kind !== 'closed') {
        const judged = admit(breaker, clock.monoMs())
        become(judged.breaker)
        if (judged.admitted === 'no') return NOT_ASKED
        admitted = judged.admitted
      }
      return node.execute(command).then((answer) => {
        if (breaker === CLOSED && answersAgain(answer)) return answer
        // Down is known without asking; a probe that found it so has not found it back.
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
