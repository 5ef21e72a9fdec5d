/**
 * The note of one step of an operator's decision in the audit log: who, why, about what, and how far it came.
 *
 * Owns the identity of such a note. The log takes one identity once, because a note is sent again where an answer was lost. So what the
 * note says is a part of it: one person may decide twice about one thing within a millisecond, and both decisions are written down.
 */

import type { AuditEntry } from '../coordination/audit-log.ts'
import { sha256Hex } from '../formats/framing.ts'

export type Noted = {
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
