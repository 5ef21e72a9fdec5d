/** An audit log in memory, for tests of what is written into it; where it is kept is tested on real nodes. */
import {
  type AuditEntry,
  type AuditLog,
  type AuditStream,
  inOrder,
  NEWEST,
} from '../../src/core/coordination/audit-log.ts'

export function memoryAuditLog(): AuditLog & {
  away: boolean
  entries(stream: AuditStream): readonly AuditEntry[]
} {
  const streams: Record<AuditStream, AuditEntry[]> = { 'dead-letters': [], audit: [] }
  return {
    away: false,
    entries: (stream) => streams[stream],
    async append(stream, entry) {
      if (this.away) return false
      if (!streams[stream].some(({ id }) => id === entry.id)) streams[stream].push(entry)
      return true
    },
    async read(stream, limit, before = NEWEST) {
      if (this.away) return { kind: 'unavailable', answered: 0, required: 3 }
      return {
        kind: 'entries',
        entries: streams[stream].filter((entry) => inOrder(entry, before) < 0).slice(-limit),
      }
    },
    async remove(stream, id) {
      if (this.away) return false
      streams[stream] = streams[stream].filter((entry) => entry.id !== id)
      return true
    },
  }
}
