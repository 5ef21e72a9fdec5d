/**
 * How long a claim is valid, computed by the claimant from its own clocks.
 *
 * A claim is valid from the moment *before* its first message was sent, minus what clocks may drift apart during the
 * lease. It ends on the sooner of two clocks: the monotonic clock misses a suspended machine on some systems, the wall
 * clock can be stepped.
 *
 * Source: redis.io, "Distributed Locks with Redis", steps 3 and 4.
 */

import { DRIFT_FACTOR, driftMs, type Instant } from '../clock.ts'
import type { Lease } from '../ports.ts'

/** Until when a lease may be used, or an outcome be answered from memory: the sooner of our two clocks ends it. */
export type Validity = Pick<Lease, 'validUntilMonoMs' | 'validUntilWallMs'>

/** Until when a lease of `leaseMs` is valid whose first message was sent after `startedAt`. */
export function validityFrom(startedAt: Instant, leaseMs: number, driftFactor?: number): Validity {
  const validMs = leaseMs - driftMs(leaseMs, driftFactor)
  return { validUntilMonoMs: startedAt.monoMs + validMs, validUntilWallMs: startedAt.wallMs + validMs }
}

/** Milliseconds left, on whichever clock has fewer; zero or below: the validity is over. */
export function remainingMs(lease: Validity, at: Instant): number {
  return Math.min(lease.validUntilMonoMs - at.monoMs, lease.validUntilWallMs - at.wallMs)
}

/** Names a claim in headers and logs: enough of the key's hash to find the record, and the token. Not a secret. */
export function lockIdOf({ key, token }: Pick<Lease, 'key' | 'token'>): string {
  return lockIdStartOf(key) + token
}

/** Of a duplicate: the lock id of the claim that executed it. */
export function executedBy(found: {
  readonly keyHash?: string | undefined
  readonly holder?: Lease['token'] | undefined
}): string | undefined {
  const { keyHash, holder } = found
  return keyHash === undefined || holder === undefined ? undefined : lockIdOf({ key: keyHash, token: holder })
}

/** What the lock ids of all claims of a key begin with. */
export function lockIdStartOf(key: string): string {
  return `${keyHashOf(key)}-`
}

/** SHA-256 in hex. */
const HASH_DIGITS = 64

/**
 * What finds a record, in logs, traces and answers: the first 16 digits of the hash that its key ends with, and not the client's key. A key without
 * one is a name of the sidecars' own (`dedup::office:sweeper`).
 */
export function keyHashOf(key: string): string {
  const last = key.slice(key.lastIndexOf(':') + 1)
  return last.length === HASH_DIGITS ? last.slice(0, 16) : key
}

/**
 * How long a lease has to be for the work that is done under it (docs/operations/capacity.md).
 *
 *   lease − drift of the lease ≥ 3 · p99 of the work + round trip to the nodes
 *
 * Owns the formula. The round trip is taken as its bound, the deadline of a node: beyond it a node has not answered.
 */

/** The slowest of a hundred is no bound of the slowest of a thousand: between them lie retries and collections of garbage. */
const WORK_FACTOR = 3

/** A lease must be 20 node deadlines at least: slow nodes would use it up (configuration.md, "Relations"). */
const NODE_DEADLINES_MIN = 20

/** The shortest lease that fulfils the inequality, in whole milliseconds. */
export function suggestedLeaseMs(workP99Ms: number, nodeDeadlineMs: number): number {
  const needed = WORK_FACTOR * workP99Ms + nodeDeadlineMs
  // At the least: rounding may take one more.
  let leaseMs = Math.ceil((needed + driftMs(0)) / (1 - DRIFT_FACTOR))
  if (leaseMs - driftMs(leaseMs) < needed) leaseMs += 1
  return Math.max(leaseMs, NODE_DEADLINES_MIN * nodeDeadlineMs)
}
