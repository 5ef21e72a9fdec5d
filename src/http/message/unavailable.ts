/** Why there was no majority, as a sentence for the client. */

import { NOT_COUNTED } from '../../core/outcome.ts'

export type Unavailable = { readonly answered: number; readonly required: number; readonly full?: number }

export function whyUnavailable({ answered, required, full = 0 }: Unavailable): string {
  if (required === NOT_COUNTED) return 'Fewer nodes answered than are required.'
  const counted = `${answered} nodes answered and ${required} are required.`
  if (full === 0) return counted
  return `${counted} ${full} more are well and have no memory left for new requests; what was carried out they still answer.`
}
