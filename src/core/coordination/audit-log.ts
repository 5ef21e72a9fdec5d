/**
 * The audit log: what an operator has to look at later, kept on a majority of the nodes.
 *
 * Two streams: `dead-letters`, each entry a question that an operator answers (requeue or discard); and `audit`, which
 * is only read. Owns the words of an entry and which events become one. Entries carry hashes, tokens and names, never a
 * client's key, header or body.
 */

import type { Clock } from '../clock.ts'
import type { CoreEvent, EntriesOf, Events } from '../events.ts'
import type { Token } from '../record/token.ts'

export type AuditStream = 'dead-letters' | 'audit'

export type AuditKind =
  /** A claim expired without an outcome: the fate of its work is unknown. */
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

type AuditRead =
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

/** One dead letter for each claim, whoever writes it first: the sidecar that lost its lease, or the sweeper that finds it expired. */
export function deadLetterId(recordKey: string, token: Token): string {
  return `orphan:${recordKey.slice(-16)}:${token}`
}

/** The dead letter that an event answers: the claim's own outcome was recorded after all. */
export function answeredDeadLetterOf(event: CoreEvent): string | undefined {
  if (event.kind !== 'completed' && event.kind !== 'settled_late') return undefined
  return event.result === 'recorded' ? deadLetterId(event.recordKey, event.token) : undefined
}

function audit(kind: AuditKind, recordKey: string, fields: Record<string, string>, atWallMs: number) {
  return {
    stream: 'audit' as const,
    entry: { id: `${kind}:${atWallMs}:${recordKey.slice(-16)}`, kind, atWallMs, recordKey, fields },
  }
}

/**
 * Where an entry stands in the audit log: after all that are older, and so where the next page of older ones begins. Every entry is
 * one. It has the same place on each node, whatever that node wrote before it, so a page that one set of nodes answered is followed by one
 * of another set.
 */
export type AuditPlace = { readonly atWallMs: number; readonly id: string }

/** After every entry. */
export const NEWEST: AuditPlace = { atWallMs: Number.MAX_SAFE_INTEGER, id: '' }

/** Of a cursor, for whoever checks one before it is read. */
export const CURSOR_PATTERN = '^[0-9]{1,16}\\.[A-Za-z0-9_-]{1,2800}$'

/** Below 0 where `a` is older. */
export function inOrder(a: AuditPlace, b: AuditPlace): number {
  return a.atWallMs - b.atWallMs || (a.id < b.id ? -1 : Number(a.id > b.id))
}

export function cursorOf({ atWallMs, id }: AuditPlace): string {
  return `${atWallMs}.${Buffer.from(id).toString('base64url')}`
}

/** Undefined where it is no cursor. */
export function placeOf(cursor: string): AuditPlace | undefined {
  if (!new RegExp(CURSOR_PATTERN).test(cursor)) return undefined
  const dot = cursor.indexOf('.')
  return {
    atWallMs: Number(cursor.slice(0, dot)),
    id: Buffer.from(cursor.slice(dot + 1), 'base64url').toString(),
  }
}

/** A page of what was read with one entry more than it takes: that one says that there are older ones. */
export function pageOf<Entry extends AuditPlace>(
  entries: readonly Entry[],
  limit: number,
): { readonly entries: readonly Entry[]; readonly cursor?: string } {
  const page = entries.slice(-limit)
  const [oldest] = page
  if (entries.length <= limit || oldest === undefined) return { entries: page }
  return { entries: page, cursor: cursorOf(oldest) }
}

/**
 * The audit log over several quorum groups: written to one of them, read from all.
 *
 * An entry goes to the group that keeps its record, or, while that one is away, to another: an entry about a lost group
 * must not be lost with it. The same entry in two groups is one entry, because its id is the same.
 *
 * @param placement the index of the group that keeps the record of a key
 */
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

/**
 * Tells of entries that no majority of the nodes took: at once, and then every few seconds with their number.
 *
 * Where a route goes on without a quorum, each of its requests has an entry that can't be written.
 */
export type Untaken = {
  lost(of: EntriesOf, why: string, entries?: number): void
  /** What was not told of yet is told now. */
  taken(of: EntriesOf): void
}

const REPORT_EVERY_MS = 10_000

export function reportingUntaken(clock: Pick<Clock, 'monoMs'>, events: Events): Untaken {
  const unreported = new Map<EntriesOf, { entries: number; why: string; reportedMonoMs: number }>()
  function report(of: EntriesOf): void {
    const known = unreported.get(of)
    if (known === undefined || known.entries === 0) return
    const { entries, why } = known
    Object.assign(known, { entries: 0, reportedMonoMs: clock.monoMs() })
    events.publish({ kind: 'entries_untaken', of, entries, why })
  }
  return {
    lost: (of, why, entries = 1) => {
      const known = unreported.get(of) ?? { entries: 0, why, reportedMonoMs: Number.NEGATIVE_INFINITY }
      unreported.set(of, Object.assign(known, { entries: known.entries + entries, why }))
      if (clock.monoMs() - known.reportedMonoMs >= REPORT_EVERY_MS) report(of)
    },
    taken: report,
  }
}
