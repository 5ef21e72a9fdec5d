/**
 * The audit log: what an operator has to look at later, kept on a majority of the nodes.
 *
 * Two streams: `dead-letters`, each entry a question that an operator answers (requeue or discard); and `audit`, which
 * is only read. Owns the words of an entry and which events become one. Entries carry hashes, tokens and names, never a
 * client's key, header or body.
 */

import type { CoreEvent } from '../events.ts'
import type { Token } from '../record/token.ts'
import type { AuditPlace } from './audit-place.ts'

export type AuditStream = 'dead-letters' | 'audit'

export type AuditKind =
  /** A claim lapsed without an outcome: the fate of its work is unknown. */
  | 'orphan'
  /** A lease was not renewed, and its work went on: another attempt may have been executed beside it. */
  | 'renewal_failed'
  | 'fenced_completion'
  | 'renewal_lost'
  | 'conflict'
  | 'degraded'
  | 'operator'

export type AuditEntry = {
  /** Unique, and the same for the same fact, so that two writers of one fact write one entry. */
  readonly id: string
  readonly kind: AuditKind
  readonly atWallMs: number
  readonly recordKey: string
  /** Further details, as text. */
  readonly fields: Readonly<Record<string, string>>
}

export type AuditRead =
  | { readonly kind: 'entries'; readonly entries: readonly AuditEntry[] }
  | {
      readonly kind: 'unavailable'
      readonly answered: number
      readonly required: number
      /** What a node that answered refuses it for. */
      readonly why?: string
    }

/** Kept on the nodes. Never rejects. */
export interface AuditLog {
  /** False where fewer than a majority took it. Writing an existing entry again changes nothing. */
  append(stream: AuditStream, entry: AuditEntry): Promise<boolean>
  /**
   * The newest `limit` entries, oldest first, merged from a majority.
   *
   * @param before only entries that are older than this place; then all that the nodes keep is read for it
   */
  read(stream: AuditStream, limit: number, before?: AuditPlace): Promise<AuditRead>
  /** False where fewer than a majority dropped it. */
  remove(stream: AuditStream, id: string): Promise<boolean>
}

/** The audit log's entry for an event, and its stream; undefined for events that it does not record. */
export function auditEntryOf(
  event: CoreEvent,
  wallMs: () => number,
): { readonly stream: AuditStream; readonly entry: AuditEntry } | undefined {
  switch (event.kind) {
    case 'completed':
    case 'settled_late':
      if (event.result !== 'fenced' && event.result !== 'undecided') return undefined
      return audit(
        'fenced_completion',
        event.recordKey,
        {
          attempts: String(event.attempts),
          ...(event.result === 'undecided' ? { result: 'undecided' } : {}),
        },
        wallMs(),
      )
    case 'lease_renewed':
      return event.result === 'lost' ? audit('renewal_lost', event.recordKey, {}, wallMs()) : undefined
    case 'lease_ended': {
      const { recordKey, token, attempt, fingerprint, ended } = event
      if (ended !== 'expired' && ended !== 'lost') return undefined
      const fields = { token: String(token), attempt: String(attempt), fingerprint, ended }
      const id = deadLetterId(recordKey, token)
      return {
        stream: 'dead-letters',
        entry: { id, kind: 'renewal_failed', atWallMs: wallMs(), recordKey, fields },
      }
    }
    case 'conflict_repaired':
      return audit('conflict', event.recordKey, { tokens: event.tokens.join(' ') }, wallMs())
    case 'written_back':
      return event.result === 'conflict'
        ? audit('conflict', event.recordKey, { after: 'local' }, wallMs())
        : undefined
    case 'decided': {
      if (event.decision !== 'fail_open') return undefined
      const fields = { route: event.route ?? '', detail: event.detail }
      return audit('degraded', event.keyHash ?? '', fields, wallMs())
    }
    case 'loss_declared':
      return audit('operator', '', { act: 'declare-loss', node: event.node, by: event.by }, wallMs())
    default:
      return undefined
  }
}

/** One letter for each claim, whoever writes it first: the sidecar that lost its lease, or the sweeper that finds it lapsed. */
export function deadLetterId(recordKey: string, token: Token): string {
  return `orphan:${recordKey.slice(-16)}:${token}`
}

/** The letter that an event answers: the claim's own outcome was recorded after all. */
export function answeredLetterOf(event: CoreEvent): string | undefined {
  if (event.kind !== 'completed' && event.kind !== 'settled_late') return undefined
  return event.result === 'recorded' ? deadLetterId(event.recordKey, event.token) : undefined
}

function audit(kind: AuditKind, recordKey: string, fields: Record<string, string>, atWallMs: number) {
  return {
    stream: 'audit' as const,
    entry: { id: `${kind}:${atWallMs}:${recordKey.slice(-16)}`, kind, atWallMs, recordKey, fields },
  }
}
