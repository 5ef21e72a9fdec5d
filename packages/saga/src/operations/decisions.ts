/**
 * What a person decides about a saga, or about messages that were given up, and the log of it.
 *
 * Owns that a decision and the note of who made it, and why, are one transaction: there is neither without the other. What a saga
 * may do is decided where its rows are (`saga-instances.ts`, `dead-letters.ts`).
 */
import { isoText, safeInteger } from '../database.ts'
import { discardDeadLetters, replayDeadLetters } from '../dead-letters.ts'
import type { SagaKit } from '../kit.ts'
import { compensateSaga, retrySaga } from '../saga-instances.ts'

export type Decision =
  | { readonly act: 'retry' | 'compensate'; readonly sagaId: string }
  | { readonly act: 'replay' | 'discard'; readonly ids: readonly number[] }

export type Act = Decision['act']

export type Decider = { readonly by: string; readonly reason: string }

export const EFFECTS: Readonly<Record<Act, readonly string[]>> = {
  retry: [
    'The saga goes on where it stood: a refused step is called again, and messages of its steps that were given up come again, now.',
  ],
  compensate: [
    'The saga is turned back: each step that was done is compensated, the last one first.',
    'It does not go forward again.',
  ],
  replay: ['The messages are sent on their way again, and what waits behind them follows, in its order.'],
  discard: ['The messages are given up for good. What waits behind them goes on without them.'],
}

/** Why a decision moved no saga. */
export const UNMOVED = {
  retry: 'is not parked, and no message of its steps is dead',
  compensate: 'is neither running nor parked',
} as const

/** Returns how many sagas or messages it moved; where that is 0 nothing is noted. */
export function decide(kit: SagaKit, decision: Decision, { by, reason }: Decider): Promise<number> {
  return kit.transaction(async (tx) => {
    const moved = await carriedOut(kit, decision, reason)
    const subject = 'sagaId' in decision ? decision.sagaId : decision.ids.join(' ')
    if (moved > 0)
      await tx.query(
        `INSERT INTO ${kit.schema}.decisions (act, subject, decided_by, reason) VALUES ($1, $2, $3, $4)`,
        [decision.act, subject, by, reason],
      )
    return moved
  })
}

async function carriedOut(kit: SagaKit, decision: Decision, reason: string): Promise<number> {
  switch (decision.act) {
    case 'retry':
      return Number(await retrySaga(kit, decision.sagaId))
    case 'compensate':
      return Number(await compensateSaga(kit, decision.sagaId, reason))
    case 'replay':
      return replayDeadLetters(kit, decision.ids)
    case 'discard':
      return discardDeadLetters(kit, decision.ids)
  }
}

export type DecisionNote = {
  readonly id: number
  readonly at: Date
  readonly act: Act
  /** The id of the saga, or those of the messages. */
  readonly subject: string
  readonly by: string
  readonly reason: string
}

/** Newest first; `before` is the last id of the page before. */
export async function listDecisions(
  kit: SagaKit,
  { limit = 100, before }: { readonly limit?: number; readonly before?: number } = {},
): Promise<readonly DecisionNote[]> {
  type Row = Omit<DecisionNote, 'id' | 'at'> & { id: string; at: string }
  const { rows } = await kit.query<Row>(
    `SELECT id, ${isoText('decided_at')} AS at, act, subject, decided_by AS by, reason FROM ${kit.schema}.decisions
     WHERE $1::bigint IS NULL OR id < $1 ORDER BY id DESC LIMIT $2`,
    [before ?? null, limit],
  )
  return rows.map((row) => ({ ...row, id: safeInteger(row.id), at: new Date(row.at) }))
}
