/**
 * What an operator's decision does to a record, for the models: in which steps, and which of them must have happened.
 *
 * Owns the promises (docs/operations/one-key.md). `done`: it took effect between call and answer. `unknown`, or no
 * answer: each step may have taken effect, then or later, or never; and an outcome that was perhaps forgotten on some
 * nodes alone may come back, once. A decision never concerns a claim with a larger token than the one that was seen,
 * unless it says that the work was executed. A larger claim that was given back is none: the one before it stands
 * again, so the decision is still about what the operator saw. What the application says once its books are open the
 * sweeper hears, too: so it may take effect although the operator was refused.
 */

import type { Decision, Operation } from '../history.ts'
import { isDecision } from '../history.ts'
import type { Timed } from './linearizability.ts'
import type { Violation } from './violation.ts'

export type Step = Timed & {
  /** The claim is ended, the record forgotten, or the outcome by hand written. */
  readonly what: 'ended' | 'forgotten' | 'by-hand'
  readonly decision: Decision
}

/** What it does to the record at last; undefined: nothing, whatever became of it. */
function lastStepOf({ f, said }: Decision): Step['what'] | undefined {
  switch (f) {
    case 'operator-end':
      return 'ended'
    case 'operator-forget':
    case 'operator-requeue':
      return 'forgotten'
    case 'operator-complete':
    case 'operator-discard':
      return 'by-hand'
    case 'operator-ask':
      if (said === 'completed') return 'by-hand'
      return said === 'released' ? 'forgotten' : undefined
  }
}

/** "It was executed" is true of every later attempt, too: who says so decides under no token. */
export function concernsLaterClaims({ f, said }: Decision): boolean {
  return f === 'operator-discard' || (f === 'operator-ask' && said === 'completed')
}

/** The operator says that what was executed does not count. An application that is asked says only what it knows. */
export function takesBackExecutions({ f }: Decision): boolean {
  return f === 'operator-forget' || f === 'operator-requeue'
}

export function decisionsOf(operations: readonly Operation[], of: Decision['of']): readonly Decision[] {
  return operations.filter((one): one is Decision => isDecision(one) && one.of === of && tookPart(one))
}

/** It took effect, or may have. */
export function tookPart(decision: Decision): boolean {
  if (lastStepOf(decision) === undefined) return false
  return decision.type === 'info' || decision.effect !== 'nothing'
}

export function isDone(decision: Decision): boolean {
  return decision.type === 'ok' && decision.effect === 'done'
}

export function stepsOf(decision: Decision): readonly Step[] {
  const { startMs } = decision
  const what = lastStepOf(decision)
  if (what === undefined) return []
  const maybe = { startMs, endMs: Number.POSITIVE_INFINITY, optional: true, decision } as const
  // A live claim is ended before anything else is decided, which others may see.
  const first = what !== 'ended' && decision.was === 'live' ? [{ ...maybe, what: 'ended' } as const] : []
  const last = isDone(decision)
    ? { ...maybe, endMs: decision.endMs, optional: false, what }
    : { ...maybe, what }
  return [...first, last]
}

/** Whether it may have taken effect in between. */
export function mayFallBetween(decision: Decision, fromMs: number, untilMs: number): boolean {
  return decision.startMs <= untilMs && (!isDone(decision) || decision.endMs >= fromMs)
}

/** What an operator is told that the application says is what it says, or that it could not be asked. */
export function checkVerdicts(operations: readonly Operation[]): readonly Violation[] {
  return operations.flatMap((one): Violation[] => {
    if (!isDecision(one) || one.type === 'info' || one.verdict === undefined) return []
    if (one.verdict === one.said || one.verdict === 'unknown') return []
    return [{ checker: 'verdict', key: one.key, detail: `told ${one.verdict}, of ${describeDecision(one)}` }]
  })
}

export function describeDecision(one: Decision): string {
  const answer = one.type === 'ok' ? `${one.status} ${one.code} ${one.effect}` : one.reason
  const said = one.said === undefined ? '' : ` (the application says ${one.said})`
  return `#${one.op} ${one.f}${said} of ${one.was} ${one.token} at sidecar ${one.sidecar} ${one.startMs.toFixed(0)}-${one.endMs.toFixed(0)}: ${answer}`
}
