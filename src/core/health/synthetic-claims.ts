/**
 * Claims of our own on a key of our own, for when too few real ones show how the quorum does.
 *
 * Each is a small proof of the whole promise: claim, be granted; claim again under another owner, be refused; release.
 * Owns when and what; readiness takes the duration of the first claim as a sample like any other.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Leases } from '../ports.ts'

type SyntheticResult =
  | 'ok'
  /** Refused although no holder exists: a request would not have been executed. */
  | 'false_positive'
  /** Granted twice: a duplicate would have been executed. */
  | 'false_negative'
  /** The nodes did not answer, or agreed on no holder. */
  | 'error'

type SyntheticClaimsPorts = {
  /** Publishing nothing: synthetic claims must not appear among the real ones. */
  readonly leases: Pick<Leases, 'claim' | 'release'>
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

/** Claim, claim again, release: one after the other. */
export const SYNTHETIC_CALLS = 3

/** Twice as often as the window needs claims: the half that is not spent waiting is for the duration of each. */
export function syntheticPauseMs(windowMs: number, minSamples: number): number {
  return windowMs / minSamples / 2
}

const LEASE_MS = 5_000
/** How long the nodes remember a probe: only this process uses its key again. */
const RETENTION_MS = 60_000
/** The content of no request; as wide as every fingerprint, or a node refuses it unread. */
const FINGERPRINT = 'a'.repeat(64)

type SyntheticClaim = {
  /** Of the first claim. */
  readonly durationMs: number
  /** Granted, and refused to another owner. */
  readonly ok: boolean
  /** It ended without a majority. */
  readonly unavailable: boolean
  /** Parts of it may stand on nodes that did not answer: the next claim of the same key could meet them. */
  readonly left: boolean
}

export async function claimSynthetically(
  key: string,
  budgetMs: number,
  ports: SyntheticClaimsPorts,
): Promise<SyntheticClaim> {
  const { leases, clock, random, events } = ports
  const claim = (owner: string) =>
    leases.claim({
      key,
      fingerprint: FINGERPRINT,
      leaseMs: LEASE_MS,
      retentionMs: RETENTION_MS,
      budgetMs,
      owner,
    })
  const startedMonoMs = clock.monoMs()
  const first = await claim(random.hex(16))
  const durationMs = clock.monoMs() - startedMonoMs
  let result: SyntheticResult
  let left = first.kind === 'unavailable' || first.kind === 'contended'
  if (first.kind === 'granted') {
    const second = await claim(random.hex(16))
    result = second.kind === 'held' ? 'ok' : second.kind === 'granted' ? 'false_negative' : 'error'
    if (second.kind === 'granted') await leases.release(second.lease)
    left = (await leases.release(first.lease)).kind !== 'released'
  } else {
    // Contended: an earlier probe may stand on some of the nodes, while others are away.
    result = first.kind === 'unavailable' || first.kind === 'contended' ? 'error' : 'false_positive'
  }
  events.publish({ kind: 'synthetic_claim', result, durationMs })
  return { durationMs, ok: result === 'ok', unavailable: first.kind === 'unavailable', left }
}
