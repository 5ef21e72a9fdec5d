/** What an operator decided is in the audit log, also where two decisions fall into one millisecond. */
import { expect, test } from 'vitest'
import { decideSaga } from '../../../src/core/operator/decide-saga.ts'
import { operatorNote } from '../../../src/core/operator/operator-note.ts'
import { memoryAuditLog } from '../../support/memory-audit-log.ts'
import { memorySagas } from '../../support/memory-sagas.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const FIELDS = { act: 'end', by: 'bob', reason: 'ticket 1', step: 'begun', state: 'live' }
const NOTED = { subject: '0123456789abcdef', recordKey: 'k', atWallMs: 7, fields: FIELDS }
const idOf = (fields: Partial<typeof FIELDS>) =>
  operatorNote({ ...NOTED, fields: { ...FIELDS, ...fields } }).id

test('a note that is sent again is the same one', () => {
  expect(operatorNote(NOTED)).toEqual(operatorNote({ ...NOTED, fields: { ...FIELDS } }))
})

test.each([{ reason: 'ticket 2' }, { step: 'done' }, { state: 'lapsed' }, { by: 'ann' }, { act: 'forget' }])(
  'within one millisecond a note with another %j is another one',
  (other) => expect(idOf(other)).not.toBe(idOf({})),
)

test('within one millisecond the beginning of a decision stands before its end', () => {
  const ids = ['done', 'refused: it is not parked', 'begun'].map((step) => idOf({ step }))
  expect(ids.toSorted()[0]).toBe(idOf({ step: 'begun' }))
})

test('found by chance: two decisions of one person about one saga in one millisecond are both written down', async () => {
  const ports = { sagas: memorySagas(), auditLog: memoryAuditLog(), clock: new VirtualClock() }
  const request = { act: 'retry-saga', sagaId: 'order-1', by: 'bob', dryRun: false } as const
  await decideSaga({ ...request, reason: 'ticket 1' }, ports)
  await decideSaga({ ...request, reason: 'ticket 2' }, ports)
  expect(ports.auditLog.entries('audit').map(({ fields: { reason, step } }) => [reason, step])).toEqual([
    ['ticket 1', 'begun'],
    ['ticket 1', 'done'],
    ['ticket 2', 'begun'],
    ['ticket 2', 'refused: it is not parked'],
  ])
})
