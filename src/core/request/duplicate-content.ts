/**
 * Remembers under which key a content came, so that the same content under another key is noticed.
 *
 * Owns a second record, keyed by the content, whose fingerprint stands for the key. It is claimed and, once the request
 * was carried out, simply left: a claim that lapsed still says whose it was, for as long as an outcome would be kept, and
 * refuses everybody else as a mismatch. Only where nothing is on record for the request is it taken back. What became of
 * the request is the other record's to say.
 */

import type { ClaimResult, Leases } from '../ports.ts'
import type { Fingerprint } from '../record/record.ts'

export type ContentRecord = {
  readonly recordKey: string
  /** SHA-256 of the record key of the request. */
  readonly fingerprint: Fingerprint
}

export type Mark =
  | { readonly kind: 'marked'; readonly remove: () => Promise<void> }
  | { readonly kind: 'duplicate_content' }
  | Extract<ClaimResult, { kind: 'unavailable' }>

export async function markContent(
  { recordKey: key, fingerprint }: ContentRecord,
  { leaseMs, retentionMs, budgetMs }: { leaseMs: number; retentionMs: number; budgetMs: number },
  leases: Leases,
): Promise<Mark> {
  const claimed = await leases.claim({ key, fingerprint, leaseMs, retentionMs, budgetMs })
  switch (claimed.kind) {
    case 'granted':
      return {
        kind: 'marked',
        remove: async () => {
          await leases.release(claimed.lease)
        },
      }
    // Marked by an earlier attempt under the same key, which the claim on that key has dealt with.
    case 'held':
    case 'duplicate':
    case 'damaged':
      return { kind: 'marked', remove: async () => {} }
    case 'mismatch':
      return { kind: 'duplicate_content' }
    case 'unavailable':
      return claimed
  }
}
