/** Why a request is not looked at, whoever sent it: the server ends, has no room, failed, or is asked for another protocol. */

import { type Answer, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'

export const RETRY_SOON_MS = 1_000

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
  return {
    code: 'too-many-requests-in-flight',
    detail: `${limit} ${what} are under way, which is the limit. Nothing was carried out.`,
    retryAfterMs: RETRY_SOON_MS,
  }
}

export type FailurePorts = {
  readonly newInstance: () => string
  /** Called with a fault of our own; the client got 500 with this instance. */
  readonly onFailure: (error: unknown, instance: string) => void
}

/** Reports a fault of our own, and answers with the instance that was reported. */
export function failureAnswer(error: unknown, what: 'request' | 'check', ports: FailurePorts): Answer {
  const instance = ports.newInstance()
  ports.onFailure(error, instance)
  const detail = `The sidecar failed at this ${what}; its log says why.`
  return problemAnswer({ code: 'internal-error', detail }, { instance: () => instance })
}
