/**
 * THE table of what an operator may decide: for each decision and each state of a record, whether it is carried out,
 * which promise would have to be broken for it, or why it is refused; and what will happen.
 *
 * Pure: a dry run and the decision itself read the same row.
 */

import type { AuditEntry } from '../coordination/audit-log.ts'
import { sha256Hex } from '../formats/framing.ts'
import { sortOfRecord } from './locate.ts'
import type { RecordState, RecordView } from './record-view.ts'

export const DECISIONS = ['end', 'complete', 'forget', 'ask'] as const

export type DecisionKind = (typeof DECISIONS)[number]

/** What a decision would break: a live lease, an outcome that a client was told, or one that somebody else may be able to read. */
export type EvenThough = 'live' | 'completed' | 'damaged'

export type Ruling =
  | {
      readonly kind: 'possible'
      /** It breaks this promise, and is refused unless that is said out. */
      readonly breaks?: EvenThough
      readonly effects: readonly string[]
    }
  | { readonly kind: 'refused'; readonly because: string }
  /** Too little is known of the record to decide anything. */
  | { readonly kind: 'unavailable'; readonly because: string }

const LATE_HOLDER =
  'Its holder is fenced: its renewals and its outcome are refused from then on. What it has done to the outside is not undone. A holder on another sidecar notices at its next renewal, and until then that sidecar answers duplicates that it is at work.'
const NEXT_IS_FURTHER =
  'The next attempt is told that it is a further one, because nobody knows what became of this one.'
const NEXT_IS_FIRST =
  'The next request with this key is a first attempt again, of any content: it is executed.'
const REMEMBERED =
  'Other sidecars that have answered duplicates of it go on answering them from memory, until they restart or drop it (FENCEPOST_OUTCOME_CACHE).'
const EVERY_NODE =
  'Every node must reply: one that is away would bring the outcome back. All nodes then forget it within milliseconds.'

type Row = Readonly<Record<Exclude<RecordState, 'unknown'>, Ruling>>

const refused = (because: string): Ruling => ({ kind: 'refused', because })
const possible = (...effects: readonly string[]): Ruling => ({ kind: 'possible', effects })
const breaking = (breaks: EvenThough, ...effects: readonly string[]): Ruling => ({
  kind: 'possible',
  breaks,
  effects,
})

const NOTHING = 'No node keeps a record of it, so there is nothing to decide: the next request is executed.'
const FREE = 'It was released, so there is nothing to decide: the next request is executed.'
const DAMAGED =
  'It is completed, and what is stored can not be read. Complete it with the answer, or without one (--not-kept): after that it can be decided like any other.'

const ROWS: Readonly<Record<DecisionKind, Row>> = {
  end: {
    absent: refused(NOTHING),
    released: refused(FREE),
    live: breaking('live', 'The claim ends now.', LATE_HOLDER, NEXT_IS_FURTHER),
    expired: refused('Its lease is over already: the next attempt is told that it is a further one.'),
    completed: refused('It is completed: duplicates are answered with its outcome, and no claim is left.'),
    damaged: refused(DAMAGED),
  },
  complete: {
    absent: refused(NOTHING),
    released: refused(FREE),
    live: breaking('live', 'The claim ends now.', LATE_HOLDER, 'Duplicates are answered with what you give.'),
    expired: possible('Duplicates are answered with what you give, and it is never executed again.'),
    completed: breaking(
      'completed',
      'The recorded outcome is replaced by what you give, and it is never executed again. A client that got the first one was told otherwise.',
      REMEMBERED,
    ),
    damaged: breaking(
      'damaged',
      'What can not be read is replaced by what you give, and it is never executed again. A client may have been told otherwise. Where only a key of the key ring is missing, give the sidecar that key instead: then the outcome can be read.',
      REMEMBERED,
    ),
  },
  forget: {
    absent: refused(NOTHING),
    released: refused(FREE),
    live: breaking('live', 'The claim ends now.', LATE_HOLDER, NEXT_IS_FIRST),
    expired: possible(NEXT_IS_FIRST),
    completed: breaking('completed', NEXT_IS_FIRST, EVERY_NODE, REMEMBERED),
    damaged: refused(DAMAGED),
  },
  ask: {
    absent: refused(NOTHING),
    released: refused(FREE),
    live: refused('A holder works on it: wait for its lease to end, or end it first.'),
    expired: possible(
      'The application is asked what became of it (FENCEPOST_SETTLE_PATH). "completed": duplicates get the answer that it sends with it, or 410 where it sends none, and it is never executed again. "released": the next request is a first attempt. "unknown": nothing changes.',
    ),
    completed: refused('It is completed, so there is no question left.'),
    damaged: refused(DAMAGED),
  },
}

/** @param view of this very moment, for a decision that acts */
export function rulingOn(
  decision: DecisionKind,
  view: Pick<
    RecordView,
    'recordKey' | 'state' | 'answered' | 'required' | 'minorityOutcome' | 'leaseRemainingMs'
  >,
): Ruling {
  const { state, answered, required } = view
  if (sortOfRecord(view.recordKey) !== 'work' && decision !== 'end')
    return refused('It is a lock and never has an outcome; of decisions only "end" is for it.')
  if (state === 'unknown')
    return {
      kind: 'unavailable',
      because: `${answered} nodes replied, ${required} are required, and they do not show one state on a majority. Nothing was decided.`,
    }
  if (view.minorityOutcome === true && decision !== 'end' && state === 'expired')
    return refused(
      'A node has an outcome of it, which the next claim adopts. Wait for the sweeper, or send the request again: it is answered, and not executed.',
    )
  return ROWS[decision][state]
}

/**
 * The note of one step of an operator's decision in the audit log: who, why, about what, and how far it came.
 *
 * The log takes one identity once, because a note is sent again where an answer was lost. So what the note says is a part of it: one person
 * may decide twice about one thing within a millisecond, and both decisions are written down.
 */
type Noted = {
  /** What it is about, in a word. */
  readonly subject: string
  readonly recordKey: string
  readonly atWallMs: number
  /** `step`: `begun`, or how it ended. */
  readonly fields: AuditEntry['fields'] & {
    readonly act: string
    readonly by: string
    readonly reason: string
    readonly step: string
  }
}

export function operatorNote({ subject, recordKey, atWallMs, fields }: Noted): AuditEntry {
  const { act, by, step } = fields
  // Notes of one millisecond are in the order of their identities.
  const phase = step === 'begun' ? 'begun' : 'ended'
  const said = sha256Hex(Buffer.from(JSON.stringify(fields))).slice(0, 16)
  const id = `operator:${act}:${subject}:${by}:${atWallMs}:${phase}:${said}`
  return { id, kind: 'operator', atWallMs, recordKey, fields }
}
