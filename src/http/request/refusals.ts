/** Refusals that do not depend on the request: the sidecar drains, is full, fails, or may not change the protocol. */

import { type Answer, problemAnswer } from '../message/answer.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import type { FailurePorts } from '../server/listening.ts'

export const DRAINING: Problem = {
  code: 'draining',
  detail: 'The sidecar is shutting down. Nothing was carried out; send the request again, unchanged.',
  retryAfterMs: RETRY_SOON_MS,
}

export const NO_UPGRADE: Problem = {
  code: 'upgrade-refused',
  detail: 'A protected request never changes the protocol of its connection. Nothing was carried out.',
}

export function overloaded(limit: number, what: 'requests' | 'checks'): Problem {
  return tooMany(`${limit} ${what} are under way, which is the limit.`)
}

/** @param limit the share of what no route protects (`core/units.ts`) */
export function overloadedByPassing(limit: number): Problem {
  return tooMany(
    `${limit} requests that no route protects are under way, which is their limit: a quarter of all slots is kept for protected ones.`,
  )
}

function tooMany(said: string): Problem {
  return {
    code: 'too-many-requests-in-flight',
    detail: `${said} Nothing was carried out; send the request again, unchanged, after the time given.`,
    retryAfterMs: RETRY_SOON_MS,
  }
}

/** Reports a fault of the sidecar itself, and answers with the reported instance. */
export function failureAnswer(error: unknown, what: 'request' | 'check', ports: FailurePorts): Answer {
  const instance = ports.newInstance()
  ports.onFailure(error, instance)
  const detail = `The sidecar failed at this ${what}; its log says why. It is not known whether the request was carried out. Where a route protects it, send it again, unchanged and under the same key.`
  return problemAnswer({ code: 'internal-error', detail }, { instance: () => instance })
}
