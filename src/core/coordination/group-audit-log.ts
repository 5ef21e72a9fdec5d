/**
 * The audit log over several quorum groups: written to one of them, read from all.
 *
 * An entry goes to the group that keeps its record, or, while that one is away, to another: an entry about a lost group
 * must not be lost with it. The same entry in two groups is one entry, because its id is the same.
 */

import type { AuditEntry, AuditLog } from './audit-log.ts'
import { inOrder } from './audit-place.ts'

/** @param placement the index of the group that keeps the record of a key */
export function auditLogOverGroups(
  auditLogs: readonly AuditLog[],
  placement: (recordKey: string) => number,
): AuditLog {
  return {
    append: async (stream, entry) => {
      const own = placement(entry.recordKey)
      const inTurn = [...auditLogs.slice(own), ...auditLogs.slice(0, own)]
      for (const auditLog of inTurn) if (await auditLog.append(stream, entry)) return true
      return false
    },
    read: async (stream, limit, before) => {
      const entries = new Map<string, AuditEntry>()
      const reads = await Promise.all(auditLogs.map((auditLog) => auditLog.read(stream, limit, before)))
      for (const read of reads) {
        // An entry that a lost group keeps looks like one that does not exist.
        if (read.kind === 'unavailable') return read
        for (const entry of read.entries) {
          const known = entries.get(entry.id)
          if (known === undefined || inOrder(entry, known) < 0) entries.set(entry.id, entry)
        }
      }
      const inTime = [...entries.values()].sort(inOrder)
      return { kind: 'entries', entries: inTime.slice(-limit) }
    },
    remove: async (stream, id) =>
      (await Promise.all(auditLogs.map((auditLog) => auditLog.remove(stream, id)))).every(Boolean),
  }
}
