/**
 * Where an entry stands in the audit log: after all that are older, and so where the next page of older ones begins.
 *
 * Owns the order of entries and the text of a cursor. An entry has the same place on each node, whatever that node wrote
 * before it, so a page that one set of nodes answered is followed by one of another set.
 */

/** Of an entry, and every entry is one. */
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
