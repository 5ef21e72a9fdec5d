/** Why there was no majority, as a sentence for the client; and what can't be told without one. */

import { NOT_COUNTED, whyNotAsked } from '../../core/outcome.ts'
import type { NotAsked } from '../../core/ports.ts'
import type { Problem } from './problems.ts'

export type Unavailable = {
  readonly answered: number
  readonly required: number
  readonly well?: number
  readonly full?: number
  readonly notAsked?: NotAsked
}

export function whyUnavailable({ answered, required, well = 0, full = 0, notAsked }: Unavailable): string {
  if (notAsked !== undefined) return `No node was asked: ${whyNotAsked(notAsked)}.`
  if (required === NOT_COUNTED) return 'Fewer nodes answered than are required.'
  const counted = `${answered} nodes answered and ${required} are required.`
  const others = [
    full === 0
      ? ''
      : ` ${full} more are well and have no memory left for new requests; what was carried out they still answer.`,
    well <= full
      ? ''
      : ` ${well - full} more are well, and their answer does not count for this request: by their clocks it is not sure yet that an earlier attempt has ended, they can not use its record, or they refuse every write.`,
  ]
  return counted + others.join('')
}

/** Of a reservation id whose signature can't be checked now: it may be one of this cluster. */
export const ID_UNCHECKED: Problem = {
  code: 'quorum-unavailable',
  detail:
    'Too few nodes answer to tell whether a sidecar of this cluster has given out the id. Nothing was changed. Ask again, unchanged, after the time given.',
  retryAfterMs: 1_000,
}
