/** What the audit log has about one record, and how far back it was searched. */

import type { AuditEntry, AuditLog } from '../../core/coordination/audit-log.ts'
import { OPERATOR_LIMITS } from './schemas.ts'

export type RecordHistory = {
  /** Oldest first. */
  readonly entries: readonly AuditEntry[]
  /** The log reaches further back, and was searched from here on; undefined where all of it was. */
  readonly sinceWallMs: number | undefined
}

/** Undefined where too few nodes told it. */
export async function historyOf(recordKey: string, auditLog: AuditLog): Promise<RecordHistory | undefined> {
  const max = OPERATOR_LIMITS.historyMax
  const reads = await Promise.all(
    (['audit', 'dead-letters'] as const).map((stream) => auditLog.read(stream, max)),
  )
  const found: AuditEntry[] = []
  const since: number[] = []
  for (const read of reads) {
    if (read.kind === 'unavailable') return undefined
    const [oldest] = read.entries
    if (oldest !== undefined && read.entries.length >= max) since.push(oldest.atWallMs)
    found.push(...read.entries.filter((entry) => entry.recordKey === recordKey))
  }
  return {
    entries: found.sort((a, b) => a.atWallMs - b.atWallMs),
    sinceWallMs: since.length === 0 ? undefined : Math.max(...since),
  }
}
