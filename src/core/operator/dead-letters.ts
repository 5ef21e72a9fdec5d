/**
 * Decides one dead letter: a claim that expired without an outcome, which the sweeper wrote down as a question.
 *
 * Owns that the entry is dropped once it is decided, or once its record has moved on by itself, and that the audit log
 * has who decided and why before anything changes.
 */

import type { Clock } from '../clock.ts'
import type { AuditEntry, AuditLog } from '../coordination/audit-log.ts'
import { concludeOrphan, type DecisionTerms, forgetOrphan } from '../coordination/settle-orphan.ts'
import type { Leases } from '../ports.ts'
import { operatorNote } from './decision-rules.ts'

export type DeadLetterRequest = {
  /** `requeue`: it was not executed. `discard`: drop the question; with `completed`: it was executed. */
  readonly act: 'requeue' | 'discard'
  readonly id: string
  readonly by: string
  readonly reason: string
  readonly completed: boolean
  readonly dryRun: boolean
}

export type DeadLetterDecided =
  | { readonly kind: 'would'; readonly effects: readonly string[] }
  | { readonly kind: 'done' }
  | { readonly kind: 'moved_on'; readonly because: string }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable'; readonly because: string }

type DeadLetterPorts = {
  readonly leases: Leases
  readonly auditLog: AuditLog
  readonly terms: DecisionTerms
  readonly clock: Clock
}

/** All that nodes keep. */
export const DEAD_LETTERS_MAX = 10_000

export async function decideDeadLetter(
  request: DeadLetterRequest,
  ports: DeadLetterPorts,
): Promise<DeadLetterDecided> {
  const { auditLog } = ports
  const read = await auditLog.read('dead-letters', DEAD_LETTERS_MAX)
  if (read.kind === 'unavailable')
    return unavailable(`${read.answered} nodes answered and ${read.required} are required.`)
  const entry = read.entries.find(({ id }) => id === request.id)
  if (entry === undefined) return { kind: 'unknown' }
  if (request.dryRun) {
    const effects = (await hasMovedOn(request, entry, ports)) ? MOVED_ON : effectsOf(request)
    return { kind: 'would', effects }
  }
  if (!(await note(request, entry, 'begun', ports)))
    return unavailable('Too few nodes took the note of who decides and why. Nothing was decided.')
  const because = await settle(request, entry, ports)
  if (because === 'unavailable') return unavailable('Too few nodes replied; nothing is known to be decided.')
  const noted = await note(request, entry, because === undefined ? 'done' : `moved on: ${because}`, ports)
  if (!(await auditLog.remove('dead-letters', entry.id)) || !noted)
    return unavailable('It was decided, but too few nodes took the note of it. Decide it again.')
  return because === undefined ? { kind: 'done' } : { kind: 'moved_on', because }
}

/** Undefined: it is as was decided. A text: why its record has moved on by itself. */
async function settle(
  { act, completed }: DeadLetterRequest,
  { recordKey, fields, atWallMs }: AuditEntry,
  { leases, terms }: DeadLetterPorts,
): Promise<string | undefined> {
  if (act === 'discard' && !completed) return undefined
  const { fingerprint = '', attempt, token } = fields
  const orphan = { recordKey, fingerprint, attempt: Number(attempt ?? 1), token: Number(token) }
  const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: atWallMs } as const
  const settled =
    act === 'requeue'
      ? await forgetOrphan(orphan, terms, leases)
      : await concludeOrphan(orphan, outcome, terms, leases)
  if (settled.kind === 'settled') return undefined
  return settled.kind === 'unavailable' ? 'unavailable' : settled.because
}

/** As far as a look tells: the decision itself claims the record first. */
async function hasMovedOn(
  { act, completed }: DeadLetterRequest,
  { recordKey, fields }: AuditEntry,
  { leases }: DeadLetterPorts,
): Promise<boolean> {
  if (act === 'discard' && !completed) return false
  const now = await leases.read(recordKey)
  return now.kind === 'completed' || (now.kind === 'claimed' && now.token > Number(fields.token))
}

const MOVED_ON = [
  'Its record has moved on: an outcome is recorded, or a later attempt was made. Nothing is decided about it.',
  'The entry is dropped.',
]

function effectsOf({ act, completed }: DeadLetterRequest): readonly string[] {
  if (act === 'requeue')
    return [
      'The next request with its key is a first attempt again: it is executed.',
      'The entry is dropped.',
    ]
  return completed
    ? ['Duplicates get 410, and it is never executed again.', 'The entry is dropped.']
    : ['The entry is dropped; its record stays as it is.']
}

function note(
  { act, by, reason, completed }: DeadLetterRequest,
  { id, recordKey }: AuditEntry,
  step: string,
  { auditLog, clock }: DeadLetterPorts,
): Promise<boolean> {
  const fields = { act, entry: id, by, reason, step, ...(completed ? { as: 'completed' } : {}) }
  return auditLog.append('audit', operatorNote({ subject: id, recordKey, atWallMs: clock.wallMs(), fields }))
}

function unavailable(because: string): DeadLetterDecided {
  return { kind: 'unavailable', because }
}
