/** The event of an answer, from which log lines and `fencepost_decisions_total` are made. */

import type { DecidedEvent, Entrypoint } from '../../core/decision.ts'
import type { Found } from '../../core/outcome.ts'
import type { Answer } from '../message/answer.ts'

export type DecisionContext = {
  readonly entrypoint: Entrypoint
  readonly route: string | undefined
  readonly durationMs: number
  readonly recordKey?: string | undefined
  readonly tenant?: string | undefined
  /** What the claim of a request that was not executed found out. */
  readonly found?: Found | undefined
  /** The client's own key; only where the configuration wants it in the log. */
  readonly shownKey?: string | undefined
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

export function decidedEvent(answer: Answer, context: DecisionContext): DecidedEvent {
  const { entrypoint, route, durationMs, recordKey, tenant, found, shownKey } = context
  // Assigned where there is one: a spread for each of six is the dearest part of an event that every request has.
  const event: Writable<DecidedEvent> = {
    kind: 'decided',
    entrypoint,
    decision: answer.decision,
    detail: answer.detail,
    route,
    status: answer.status,
    durationMs,
    keyHash: recordKey?.slice(-64),
  }
  if (tenant !== undefined) event.tenant = tenant
  if (shownKey !== undefined) event.idempotencyKey = shownKey
  if (answer.instance !== undefined) event.instance = answer.instance
  if (answer.because !== undefined) event.because = answer.because
  if (found !== undefined) Object.assign(event, found)
  if (answer.execution !== undefined) Object.assign(event, answer.execution)
  return event
}
