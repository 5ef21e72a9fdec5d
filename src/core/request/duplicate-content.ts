/**
 * Remembers under which key a content came, so that the same content under another key is noticed.
 *
 * Owns a second record, the mark, keyed by the content; its fingerprint stands for the key. It is claimed and, once the
 * request was executed, left to expire: an expired claim still names its key, and refuses every other key as a mismatch.
 * The fate of the request is on the other record.
 *
 *   A mark lives as long as the record that it belongs to.
 *   - An attempt works only under a mark that it was granted itself. It waits for the mark of an earlier attempt under
 *     the same key and takes it over, but never relies on it: so an attempt that removes its mark late removes no
 *     other one's.
 *   - It is renewed whenever the record is. A renewal keeps it for a lease and the retention, so when an outcome is
 *     recorded, less than a lease later, the mark stands at least as long as the outcome does.
 *   - It is removed whenever the record is released, and before it: then nothing is on record for this content, and
 *     another key may bring it. A removal that the nodes don't take is retried.
 *   - It has the attempt of the record. Releasing a takeover restores both: whether the earlier attempt was executed is
 *     unknown, so its content stays marked. Releasing a first attempt leaves neither.
 */

import type { Background } from '../background.ts'
import type { Clock, Random } from '../clock.ts'
import { NOT_COUNTED, type Outcome } from '../outcome.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases } from '../ports.ts'
import type { Fingerprint } from '../record/record.ts'
import { type Backoff, jitteredDelayMs, pause, retryAfterMsOf } from '../retry.ts'

export type ContentRecord = {
  readonly recordKey: string
  /** SHA-256 of the record key of the request. */
  readonly fingerprint: Fingerprint
}

type Mark =
  /** Renew, complete and release the record through these leases: its mark shares its fate. */
  | { readonly kind: 'marked'; readonly leases: Leases }
  | Extract<Outcome, { kind: 'duplicate_content' | 'in_progress' }>
  /** It is unknown whether another key brought this content. */
  | Extract<ClaimResult, { kind: 'unavailable' }>

type MarkPorts = {
  readonly leases: Leases
  readonly background: Background
  readonly clock: Clock
  readonly random: Random
}

type MarkPolicy = Pick<ClaimRequest, 'leaseMs' | 'retentionMs' | 'budgetMs' | 'terms'>

const UNKNOWN = { kind: 'unavailable', answered: 0, required: NOT_COUNTED } as const

/** Between attempts at removing a mark. Only a request with the content under another key waits for it. */
const REMOVE_BACKOFF: Backoff = { initialMs: 100, maxMs: 2_000 }

/** @param record the claim on the record of the request, under which the mark stands */
export async function markContent(
  content: ContentRecord,
  record: Lease,
  policy: MarkPolicy,
  ports: MarkPorts,
): Promise<Mark> {
  const claimed = await claimMark(content, policy, ports)
  if (claimed.kind !== 'granted') return claimed
  const mark = await asAttemptOf(record, claimed.lease, ports.leases)
  return mark === undefined ? UNKNOWN : { kind: 'marked', leases: withMark(mark, record, ports) }
}

type Claimed = Exclude<Mark, { kind: 'marked' }> | { readonly kind: 'granted'; readonly lease: Lease }

async function claimMark(
  { recordKey: key, fingerprint }: ContentRecord,
  { leaseMs, retentionMs, budgetMs, terms }: MarkPolicy,
  { leases, clock }: MarkPorts,
): Promise<Claimed> {
  const untilMonoMs = clock.monoMs() + budgetMs
  for (;;) {
    const claimed = await leases.claim({
      key,
      fingerprint,
      leaseMs,
      retentionMs,
      budgetMs,
      ...(terms === undefined ? {} : { terms }),
    })
    switch (claimed.kind) {
      case 'granted':
      case 'unavailable':
        return claimed
      case 'mismatch':
        return { kind: 'duplicate_content' }
      // An earlier attempt under the same key left it, and its lease ends with that of the record, or a moment later.
      case 'held': {
        const { retryAfterMs } = claimed
        if (clock.monoMs() + retryAfterMs >= untilMonoMs)
          return { kind: 'in_progress', retryAfterMs: retryAfterMsOf(claimed) }
        await pause(clock, retryAfterMs)
        continue
      }
      // Too few nodes that know it answered: it may belong to this key or to another.
      case 'contended':
      // A mark never has an outcome of its own.
      case 'duplicate':
      case 'damaged':
        return UNKNOWN
    }
  }
}

/** With the attempt of the record; undefined where that was refused, and the mark released. */
async function asAttemptOf({ attempt }: Lease, mark: Lease, leases: Leases): Promise<Lease | undefined> {
  if (mark.attempt === attempt) return mark
  const renewed = await leases.renew({ ...mark, attempt })
  if (renewed.kind === 'renewed') return renewed.lease
  await leases.release(mark)
  return undefined
}

function withMark(marked: Lease, record: Lease, ports: MarkPorts): Leases {
  const { leases, background, clock } = ports
  let mark = marked

  async function renewMark(): Promise<void> {
    const renewed = await leases.renew(mark)
    if (renewed.kind === 'renewed') mark = renewed.lease
  }

  return {
    ...leases,
    renew: async (lease) => {
      const renewed = await leases.renew(lease)
      // Not awaited: an expired mark refuses other keys as well, and the next renewal makes up for a missed one.
      if (lease.key === record.key && renewed.kind === 'renewed') void renewMark()
      return renewed
    },
    complete: async (lease, outcome) => {
      // Its nodes were away for a while: a mark that was not renewed within a lease might expire before the outcome.
      if (lease.key === record.key && mark.validUntilMonoMs <= clock.monoMs()) void renewMark()
      return leases.complete(lease, outcome)
    },
    release: async (lease) => {
      if (lease.key === record.key) {
        const removed = await leases.release(mark)
        if (removed.kind === 'unavailable') background.start(() => removeLater(mark, ports))
      }
      return leases.release(lease)
    },
  }
}

/** At most for a lease: by then the nodes are mostly back, and places in the background are few. */
async function removeLater(mark: Lease, { leases, clock, random }: MarkPorts): Promise<void> {
  const untilMonoMs = clock.monoMs() + mark.leaseMs
  for (let retry = 0; clock.monoMs() < untilMonoMs; retry += 1) {
    await pause(clock, jitteredDelayMs(REMOVE_BACKOFF, retry, random))
    if ((await leases.release(mark)).kind !== 'unavailable') return
  }
}
