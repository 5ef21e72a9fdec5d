/**
 * What an operator's decision does to a record, for the models: in which steps, and which of them must have happened.
 *
 * Owns the promises (docs/operations/one-key.md). `done`: it took effect between call and answer. `unknown`, or no
 * answer: each step may have taken effect, then or later, or never; and an outcome that was perhaps forgotten on some
 * nodes alone may come back, once. A decision never concerns a claim with a larger token than the one that was seen.
 */

import type { Decision, Operation } from '../history.ts'
import { isDecision } from '../history.ts'
import type { Timed } from './linearizability.ts'

export type Step = Timed & {
  /** The claim is ended, the record forgotten, or the outcome by hand written. */
  readonly what: 'ended' | 'forgotten' | 'by-hand'
  readonly decision: Decision
}

const LAST_STEP = {
  'operator-end': 'ended',
  'operator-forget': 'forgotten',
  'operator-complete': 'by-hand',
} as const

export function decisionsOf(operations: readonly Operation[], of: Decision['of']): readonly Decision[] {
  return operations.filter((one): one is Decision => isDecision(one) && one.of === of && tookPart(one))
}

/** It took effect, or may have. */
export function tookPart(decision: Decision): boolean {
  return decision.type === 'info' || decision.effect !== 'nothing'
}

export function isDone(decision: Decision): boolean {
  return decision.type === 'ok' && decision.effect === 'done'
}

export function stepsOf(decision: Decision): readonly Step[] {
  const { startMs } = decision
  const what = LAST_STEP[decision.f]
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

export function describeDecision(one: Decision): string {
  const answer = one.type === 'ok' ? `${one.status} ${one.code} ${one.effect}` : one.reason
  return `#${one.op} ${one.f} of ${one.was} ${one.token} at sidecar ${one.sidecar} ${one.startMs.toFixed(0)}-${one.endMs.toFixed(0)}: ${answer}`
}
