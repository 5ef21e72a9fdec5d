// The audit log over several groups: written to one, read from all, and a lost group is an error.
import { expect, test } from 'vitest'
import {
  type AuditEntry,
  type AuditLog,
  auditLogOverGroups,
} from '../../../src/core/coordination/audit-log.ts'
import { memoryAuditLog as inMemory } from '../../support/memory-audit-log.ts'

const entry = (id: string, atWallMs: number): AuditEntry => ({
  id,
  kind: 'orphan',
  atWallMs,
  recordKey: id,
  fields: {},
})

/** The audit log of one group, in memory, which can be lost. */
function memoryAuditLog() {
  const entries = new Map<string, AuditEntry>()
  const state = { lost: false }
  const auditLog: AuditLog = {
    append: async (_, one) => !state.lost && entries.set(one.id, one).size > 0,
    read: async () =>
      state.lost
        ? { kind: 'unavailable', answered: 0, required: 2 }
        : { kind: 'entries', entries: [...entries.values()] },
    remove: async (_, id) => !state.lost && (entries.delete(id) || true),
  }
  return { auditLog, state, ids: () => [...entries.keys()] }
}

test('an entry stands in the group of its record, or in another while that group is lost', async () => {
  const [a, b] = [memoryAuditLog(), memoryAuditLog()]
  const auditLog = auditLogOverGroups([a.auditLog, b.auditLog], (key) => (key.startsWith('b') ? 1 : 0))
  expect(await auditLog.append('audit', entry('b1', 3))).toBe(true)
  expect(await auditLog.append('audit', entry('a1', 1))).toBe(true)
  b.state.lost = true
  expect(await auditLog.append('audit', entry('b2', 2))).toBe(true)
  expect([a.ids(), b.ids()]).toEqual([['a1', 'b2'], ['b1']])
  a.state.lost = true
  expect(await auditLog.append('audit', entry('a2', 2))).toBe(false)
})

test('a read is whole, newest entry last, or fails; a doubled entry is read once and removed everywhere', async () => {
  const [a, b] = [memoryAuditLog(), memoryAuditLog()]
  const auditLog = auditLogOverGroups([a.auditLog, b.auditLog], () => 0)
  await b.auditLog.append('audit', entry('x', 1))
  for (const one of [entry('y', 3), entry('z', 2), entry('x', 1)]) await auditLog.append('audit', one)
  const ids = async (limit: number) => {
    const read = await auditLog.read('audit', limit)
    return read.kind === 'entries' ? read.entries.map(({ id }) => id) : read.kind
  }
  expect([await ids(9), await ids(2)]).toEqual([
    ['x', 'z', 'y'],
    ['z', 'y'],
  ])
  expect([await auditLog.remove('audit', 'x'), await ids(9)]).toEqual([true, ['z', 'y']])
  b.state.lost = true
  expect([await ids(9), await auditLog.remove('audit', 'y')]).toEqual(['unavailable', false])
})

test('a page of older entries is merged from all groups, by their places', async () => {
  const [a, b] = [inMemory(), inMemory()]
  const auditLog = auditLogOverGroups([a, b], (key) => (key.startsWith('b') ? 1 : 0))
  for (const [id, at] of [
    ['b1', 1],
    ['a2', 2],
    ['b2', 2],
    ['a3', 3],
  ] as const)
    await auditLog.append('dead-letters', entry(id, at))
  const read = await auditLog.read('dead-letters', 2, { atWallMs: 2, id: 'b2' })
  expect(read).toEqual({ kind: 'entries', entries: [entry('b1', 1), entry('a2', 2)] })
})
