/** What an operator decided is in the audit log, also where two decisions fall into one millisecond. */
import { expect, test } from 'vitest'
import { operatorNote } from '../../../src/core/operator/decision-rules.ts'

const FIELDS = { act: 'end', by: 'bob', reason: 'ticket 1', step: 'begun', state: 'live' }
const NOTED = { subject: '0123456789abcdef', recordKey: 'k', atWallMs: 7, fields: FIELDS }
const idOf = (fields: Partial<typeof FIELDS>) =>
  operatorNote({ ...NOTED, fields: { ...FIELDS, ...fields } }).id

test('a note that is sent again is the same one', () => {
  expect(operatorNote(NOTED)).toEqual(operatorNote({ ...NOTED, fields: { ...FIELDS } }))
})

test.each([{ reason: 'ticket 2' }, { step: 'done' }, { state: 'expired' }, { by: 'ann' }, { act: 'forget' }])(
  'within one millisecond a note with another %j is another one',
  (other) => expect(idOf(other)).not.toBe(idOf({})),
)

test('within one millisecond the beginning of a decision stands before its end', () => {
  const ids = ['done', 'refused: it is not parked', 'begun'].map((step) => idOf({ step }))
  expect(ids.toSorted()[0]).toBe(idOf({ step: 'begun' }))
})
