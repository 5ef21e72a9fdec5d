/**
 * A record as JSON for an operator: what `/v1/operator/records/{record}` answers.
 *
 * Owns who sees what of a stored answer: everybody its status and headers, the role `operate` its body, too. It is
 * redacted as its route is configured, because only the rest was stored.
 */

import { lockIdOf, lockIdStartOf } from '../../core/claims/lease.ts'
import type { AuditEntry, AuditLog } from '../../core/coordination/audit-log.ts'
import { decodeUtf8 } from '../../core/formats/framing.ts'
import { DECISIONS, type Ruling, rulingOn } from '../../core/operator/decision-rules.ts'
import { sortOfRecord } from '../../core/operator/locate.ts'
import type { OperatorRole } from '../../core/operator/operator-tokens.ts'
import type { NodeRow, RecordView } from '../../core/operator/record-view.ts'
import type { StoredOutcome } from '../../core/record/stored-outcome.ts'
import { tenantOf } from '../../core/request/identity.ts'
import { OPERATOR_LIMITS } from './schemas.ts'

export type Summary = ReturnType<typeof summaryOf>

/** @param wallMs when the nodes were asked: ages of records are comparable by `claimed_at` alone, whenever each was looked at */
export function summaryOf(view: RecordView, wallMs: number) {
  const { recordKey, state, token, attempt, leaseRemainingMs, claimedForMs } = view
  return defined({
    record: recordKey,
    key_hash: recordKey.slice(-64),
    sort: sortOfRecord(recordKey),
    tenant: tenantOf(recordKey),
    state,
    fencing_token: token,
    attempt,
    lease_remaining_ms: whole(leaseRemainingMs),
    claimed_for_ms: whole(claimedForMs),
    claimed_at: claimedForMs === undefined ? undefined : new Date(wallMs - claimedForMs).toISOString(),
  })
}

type ShownBy = {
  readonly role: OperatorRole
  readonly wallMs: number
  /** The name of the one that holds the record, where it is known. */
  readonly sidecar: string | undefined
  /** Undefined where too few nodes told it. */
  readonly history: RecordHistory | undefined
}

export function shownRecord(view: RecordView, { role, wallMs, sidecar, history }: ShownBy) {
  const { recordKey: key, state, token, attempt, owner, claimedForMs, outcome } = view
  const lockId = token === undefined ? undefined : lockIdOf({ key, token })
  const held = state === 'live' && owner !== undefined && lockId !== undefined
  return defined({
    ...summaryOf(view, wallMs),
    answered: view.answered,
    required: view.required,
    fingerprint: view.fingerprint,
    retention_remaining_ms: whole(view.retentionRemainingMs),
    damage: view.damage,
    minority_outcome: view.minorityOutcome,
    holder: held
      ? defined({
          lock_id: lockId,
          since: new Date(wallMs - (claimedForMs ?? 0)).toISOString(),
          sidecar,
        })
      : undefined,
    in_application:
      token === undefined || attempt === undefined
        ? undefined
        : { lock_ids_begin_with: lockIdStartOf(key), fencing_tokens_up_to: token },
    nodes: view.nodes.map(rowOf),
    outcome: outcome === undefined ? undefined : outcomeFor(outcome, role),
    history: history?.entries.map(entryOf),
    history_since:
      history?.sinceWallMs === undefined ? undefined : new Date(history.sinceWallMs).toISOString(),
    decisions: Object.fromEntries(
      DECISIONS.map((decision) => [decision, rulingFor(rulingOn(decision, view))]),
    ),
  })
}

/** Who waits longest first; what nobody claims last. */
export function oldestFirst(a: Summary, b: Summary): number {
  return (a.claimed_at ?? NEVER).localeCompare(b.claimed_at ?? NEVER)
}

/** A word comes after every time. */
const NEVER = 'never'

function rulingFor(ruling: Ruling) {
  return ruling.kind === 'possible'
    ? defined({ possible: true, requires: ruling.breaks, effects: ruling.effects })
    : { possible: false, because: ruling.because }
}

export function entryOf({ id, kind, atWallMs, recordKey, fields }: AuditEntry) {
  return { id, at: new Date(atWallMs).toISOString(), kind, record: recordKey, ...fields }
}

function rowOf(row: NodeRow) {
  const { node, state, token, acceptedToken, attempt, leaseRemainingMs, fingerprint, copied, differs } = row
  return defined({
    node,
    state,
    fencing_token: token,
    accepted_token: acceptedToken,
    attempt,
    lease_remaining_ms: whole(leaseRemainingMs),
    retention_remaining_ms: whole(row.retentionRemainingMs),
    fingerprint,
    copied,
    differs,
    detail: row.detail,
  })
}

function outcomeFor(outcome: StoredOutcome, role: OperatorRole) {
  const { kind, completedAtWallMs } = outcome
  const head = { kind, completed_at: new Date(completedAtWallMs).toISOString() }
  const whole = role === 'operate'
  switch (outcome.kind) {
    case 'response': {
      const { status, headers, body } = outcome
      const text = decodeUtf8(body)
      const content = whole
        ? { body_base64: body.toString('base64'), ...(text === undefined ? {} : { body_text: text }) }
        : {}
      return { ...head, status, headers, body_bytes: body.length, ...content }
    }
    case 'tombstone':
      return { ...head, status: outcome.status, ...(whole ? { location: outcome.location } : {}) }
    case 'result':
      return { ...head, ...(whole ? { result: outcome.result } : {}) }
  }
}

function whole(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.max(0, Math.round(ms))
}

/** Without the members that are not known. */
export function defined<T extends Record<string, unknown>>(members: T): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T
}

/** What the audit log has about one record, and how far back it was searched. */
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
