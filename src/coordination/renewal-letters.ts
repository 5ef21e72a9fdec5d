/**
 * What the sweeper decides about letters of failed renewals: work that went on after its lease was lost.
 *
 * Owns which of them have an answer. What stays open is a person's to decide.
 */

import type { Clock } from '../core/clock.ts'
import type { AuditEntry, AuditLog } from '../core/coordination/audit-log.ts'
import type { Orphan, SettleReply } from '../core/coordination/settle-orphan.ts'
import type { Leases } from '../core/ports.ts'

export type LetterPorts = {
  readonly leases: Pick<Leases, 'read'>
  readonly auditLog: AuditLog
  readonly clock: Clock
  /** Asks the application; undefined where none is configured. */
  readonly ask: ((orphan: Orphan) => Promise<SettleReply>) | undefined
}

/** Letters that a round looks at, the newest. */
const LETTERS_MAX = 1_000

/**
 * Closes letters about failed renewals that have an answer: the claim's own outcome stands on its record, or the application
 * says that the claim was not executed. Where a retry took over, the record itself no longer shows the question.
 */
export async function decideLetters(ports: LetterPorts, over: AbortSignal): Promise<void> {
  const { auditLog, clock } = ports
  const letters = await auditLog.read('dead-letters', LETTERS_MAX)
  if (letters.kind === 'unavailable') return
  for (const letter of letters.entries) {
    if (over.aborted) return
    if (letter.kind !== 'renewal_failed') continue
    const because = await answerTo(letter, ports)
    if (because === undefined) continue
    const { id, recordKey } = letter
    const fields = { act: 'settle', entry: id, by: 'sweeper', because }
    const line = {
      id: `sweeper:settle:${id}`,
      kind: 'operator',
      atWallMs: clock.wallMs(),
      recordKey,
      fields,
    } as const
    if (await auditLog.append('audit', line)) await auditLog.remove('dead-letters', id)
  }
}

/** Undefined while nobody but a person can know. */
async function answerTo(
  { recordKey, fields }: AuditEntry,
  { leases, ask }: LetterPorts,
): Promise<string | undefined> {
  const { fingerprint = '', attempt } = fields
  const orphan = { recordKey, fingerprint, attempt: Number(attempt ?? 1), token: Number(fields.token) }
  const record = await leases.read(recordKey)
  if (record.kind === 'unavailable' || record.kind === 'damaged') return undefined
  if (record.kind === 'completed' && record.token === orphan.token) return 'its outcome was recorded'
  // Only of a claim that another one surely came after (see `sweeper.ts`). As long as it is the last one of its record, the
  // record is looked at, and the answer written to it.
  const isLater = 'token' in record && record.token > orphan.token
  if (!isLater || (record.kind === 'claimed' && record.majorityReached !== true)) return undefined
  if (ask === undefined || (await ask(orphan)) !== 'released') return undefined
  return 'the application says that it was not carried out'
}
