/** What operators send for a page of the audit log or of dead letters, from the newest on. */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { CURSOR_PATTERN } from '../../core/coordination/audit-log.ts'
import { OPERATOR_LIMITS } from './schemas.ts'

const closed = { additionalProperties: false } as const

export const EntriesQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,3}$',
        description: `Newest entries, at most ${OPERATOR_LIMITS.deadLettersMax}; default ${OPERATOR_LIMITS.listMax}.`,
      }),
    ),
    cursor: Type.Optional(
      Type.String({
        pattern: CURSOR_PATTERN,
        description: 'Of an answer that has older ones: goes on with them.',
      }),
    ),
  },
  closed,
)

export type EntriesInput = Static<typeof EntriesQuery>
