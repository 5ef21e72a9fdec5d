/** What operators send and receive about entries of the audit log and dead letters: pages, from the newest on. */

import type { Static } from 'typebox'
import * as Type from 'typebox'
import { CURSOR_PATTERN } from '../../core/coordination/audit-place.ts'
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

export const Entries = Type.Object(
  {
    entries: Type.Array(Type.Object({ id: Type.String(), at: Type.String(), kind: Type.String() })),
    cursor: Type.Optional(Type.String({ description: 'There are older entries: send it to get them.' })),
  },
  closed,
)

export type EntriesInput = Static<typeof EntriesQuery>
