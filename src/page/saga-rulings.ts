/** What can be decided about a saga as it stands, by the rules of the saga kit; the sidecar rules again, and refuses what has moved on. */

import type { Saga } from '../http/operator/overview-schemas.ts'

/** Why it is impossible; undefined where it is possible. */
export type SagaRulings = { readonly retry: string | undefined; readonly compensate: string | undefined }

export function sagaRulings({
  status,
  drivenBy,
  deadLetters,
}: Pick<Saga, 'status' | 'drivenBy' | 'deadLetters'>): SagaRulings {
  const byMessages = drivenBy === 'messages'
  const isDead = byMessages && deadLetters.length > 0
  const isOpen = status === 'running' || status === 'parked'
  // Messages may have more for it in other services after the steps of this one are done or undone.
  const canBeUndone = isOpen || (byMessages && (status === 'completed' || status === 'compensating'))
  return {
    retry:
      status === 'parked' || isDead
        ? undefined
        : byMessages
          ? 'It is not parked, and no message of its steps was given up.'
          : 'It is not parked, so it goes on by itself.',
    compensate: canBeUndone
      ? undefined
      : byMessages
        ? 'It is compensated already.'
        : 'Only a saga that is running or parked can be turned back.',
  }
}
