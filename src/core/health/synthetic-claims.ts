/**
 * Claims of our own on a key of our own, where there are too few real ones to know how the quorum does.
 *
 * Each is a small proof of the whole promise: claim, be granted; claim again as somebody else, be refused; release. Owns
 * when and what; it says nothing of readiness, which takes the duration of the first claim as a sample like any other.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Leases } from '../ports.ts'

export type SyntheticResult =
  | 'ok'
  /** Refused although nobody holds it: a request would not have been carried out. */
  | 'false_positive'
  /** Granted twice: a duplicate would have been carried out. */
  | 'false_negative'
  /** The nodes could not tell, or not agree on a holder. */
  | 'error'

export type SyntheticClaimsPorts = {
  /** Publishing nothing: synthetic claims must not show among the real ones. */
  readonly leases: Pick<Leases, 'claim' | 'release'>
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

/** Claim, claim again, release: one after the other. */
export const SYNTHETIC_CALLS = 3

/** Twice as often as there have to be claims in a window: the half that is not waited away is for what each of them takes. */
export function syntheticPauseMs(windowMs: number, minSamples: number): number {
  return windowMs / minSamples / 2
}

const LEASE_MS = 5_000
/** How long the nodes remember a probe: its key comes again only from this process. */
const RETENTION_MS = 60_000
/** Nobody's content; as wide as every fingerprint, or a node refuses it unread. */
const FINGERPRINT = 'a'.repeat(64)

export type SyntheticClaim = {
  /** Of the first claim. */
  readonly durationMs: number
  /** Some of it may stand on nodes that did not answer: whoever claims the same key next could meet it. */
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
    // Contended: what an earlier one left may stand on some of the nodes, while others are away.
    result = first.kind === 'unavailable' || first.kind === 'contended' ? 'error' : 'false_positive'
  }
  events.publish({ kind: 'synthetic_claim', result, durationMs })
  return { durationMs, left }
}
