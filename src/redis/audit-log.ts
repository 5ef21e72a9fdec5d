/**
 * The audit log on Redis Streams, one stream per node, written to a majority.
 *
 * Stream ids must grow, and two sidecars write at once: so each node assigns its own stream id, and the entry carries
 * its own. Readers merge by the entry's id. Length is capped per node; the oldest entries go first.
 *
 * Source: redis.io, XADD (`MAXLEN ~`), XREVRANGE, XDEL.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import {
  type AuditEntry,
  type AuditKind,
  type AuditLog,
  type AuditPlace,
  type AuditStream,
  inOrder,
} from '../core/coordination/audit-log.ts'
import { errorText } from '../core/fault.ts'
import { within } from '../core/retry.ts'
import { majorityOf } from '../core/units.ts'
import { pairsOf } from './inspection.ts'
import { auditMark, auditStreamKey } from './keys.ts'
import { askingEach, type NodeClients } from './nodes.ts'
import { luaOf, ownScript } from './scripts.ts'

const append = ownScript(luaOf('audit'), 2)

/** Entries of one stream on one node: some 3 MiB. */
export const AUDIT_MAX_ENTRIES = 10_000

/**
 * All that a node keeps is read in pieces, so that no sidecar stands still for the parsing of it; some more than the cap,
 * because a node trims a little late.
 */
const PIECE_ENTRIES = 1_000
const PIECES_MAX = AUDIT_MAX_ENTRIES / PIECE_ENTRIES + 1

/** For how long an entry is not written again: longer than any sidecar goes on finding the same fact. */
const MARK_LIFETIME_MS = 7 * 24 * 3_600_000

export type RedisAuditLogOptions = {
  readonly clients: NodeClients
  readonly deadlineMs: number
  readonly clock: Clock
}

type Found = { readonly streamId: string; readonly entry: AuditEntry }

export function createRedisAuditLog({ clients, deadlineMs, clock }: RedisAuditLogOptions): AuditLog {
  const onEach = askingEach(clients, deadlineMs, clock)
  const reachesMajority = (answers: readonly unknown[]) =>
    answers.filter((answer) => answer !== undefined).length >= majorityOf(answers.length)

  async function entriesOf(client: Redis, stream: AuditStream, limit: number): Promise<readonly Found[]> {
    const rows = await client.xrevrange(auditStreamKey(stream), '+', '-', 'COUNT', limit)
    return rows.flatMap(([streamId, fields]) => {
      const entry = entryFrom(fields)
      return entry === undefined ? [] : [{ streamId, entry }]
    })
  }

  /** What a node keeps of before a place. A stream is in the order of writing, which is not quite that of the entries. */
  async function olderOn(
    client: Redis,
    stream: AuditStream,
    before: AuditPlace,
  ): Promise<readonly AuditEntry[]> {
    const older: AuditEntry[] = []
    let from = '+'
    for (let pieces = 0; pieces < PIECES_MAX; pieces += 1) {
      const asked = client.xrevrange(auditStreamKey(stream), from, '-', 'COUNT', PIECE_ENTRIES)
      const rows = await within(clock, deadlineMs, asked, 'no answer')
      for (const [, fields] of rows) {
        const entry = entryFrom(fields)
        if (entry !== undefined && inOrder(entry, before) < 0) older.push(entry)
      }
      if (rows.length < PIECE_ENTRIES) break
      from = `(${rows.at(-1)?.[0]}`
    }
    return older
  }

  /** The entries of each node; undefined without an answer. */
  function readEach(
    stream: AuditStream,
    limit: number,
    before: AuditPlace | undefined,
    onFailure: (cause: unknown) => void,
  ) {
    if (before === undefined)
      return onEach(
        async (client) => (await entriesOf(client, stream, limit)).map(({ entry }) => entry),
        onFailure,
      )
    return Promise.all(
      clients().map(
        (client) =>
          client &&
          olderOn(client, stream, before).catch((cause: unknown) => {
            onFailure(cause)
            return undefined
          }),
      ),
    )
  }

  return {
    append: async (stream, entry) => {
      const answers = await onEach(async (client) => {
        const keys = [auditStreamKey(stream), auditMark(stream, entry.id)]
        const body = JSON.stringify({ recordKey: entry.recordKey, fields: entry.fields })
        const row = ['id', entry.id, 'kind', entry.kind, 'at', String(entry.atWallMs), 'body', body]
        return append(client, ...keys, AUDIT_MAX_ENTRIES, MARK_LIFETIME_MS, ...row)
      })
      return reachesMajority(answers)
    },
    read: async (stream, limit, before) => {
      let why: string | undefined
      const answers = await readEach(stream, limit, before, (cause) => {
        why ??= errorText(cause)
      })
      const answered = answers.filter((answer) => answer !== undefined).length
      const required = majorityOf(answers.length)
      if (answered < required)
        return { kind: 'unavailable', answered, required, ...(why === undefined ? {} : { why }) }
      const byId = new Map<string, AuditEntry>()
      for (const entry of answers.flatMap((found) => found ?? [])) {
        const known = byId.get(entry.id)
        // Two sidecars wrote it down, to other nodes: its place is that of the older one, whichever nodes answer first.
        if (known === undefined || inOrder(entry, known) < 0) byId.set(entry.id, entry)
      }
      const entries = [...byId.values()].sort(inOrder)
      return { kind: 'entries', entries: entries.slice(-limit) }
    },
    remove: async (stream, id) => {
      const answers = await onEach(async (client) => {
        const found = await entriesOf(client, stream, AUDIT_MAX_ENTRIES)
        const ids = found.filter(({ entry }) => entry.id === id).map(({ streamId }) => streamId)
        return ids.length === 0 ? 0 : client.xdel(auditStreamKey(stream), ...ids)
      })
      return reachesMajority(answers)
    },
  }
}

/** Undefined where the entry is none of ours. */
function entryFrom(fields: readonly string[]): AuditEntry | undefined {
  const row = pairsOf(fields)
  const [id, kind, at, body] = [row.get('id'), row.get('kind'), Number(row.get('at')), row.get('body')]
  if (id === undefined || kind === undefined || body === undefined || !Number.isFinite(at)) return undefined
  try {
    const { recordKey, fields: known } = JSON.parse(body) as Pick<AuditEntry, 'recordKey' | 'fields'>
    return { id, kind: kind as AuditKind, atWallMs: at, recordKey, fields: known }
  } catch {
    return undefined
  }
}
