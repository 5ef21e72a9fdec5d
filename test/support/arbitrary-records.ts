/** Records as a node may hold them, near enough to each other that fences, tokens and owners collide. */
import fc from 'fast-check'
import { NO_OWNER, type NodeRecord } from '../../src/core/record/record.ts'

const owner = fc.constantFrom('a'.repeat(32), 'b'.repeat(32))
const fingerprint = fc.constantFrom('e'.repeat(64), 'f'.repeat(64))
const token = fc.integer({ min: 1, max: 4 }).map((n) => 1_800_000_000_000_000 + n)

/** One ballot has one value: the outcome follows from its token. */
const outcomeAt = (accepted: number) => Buffer.from(`outcome of ${accepted}`)

/** @param nowMs about when leases end, and outcomes that a promise outlives */
export function arbitraryRecord(nowMs: number): fc.Arbitrary<NodeRecord> {
  const leaseUntilNodeMs = fc.constantFrom(nowMs - 60_000, nowMs + 60_000, nowMs + 120_000)
  const attempt = fc.integer({ min: 1, max: 3 })
  const claimedAtNodeMs = fc.constant(nowMs - 90_000)
  return fc.oneof(
    fc.record({ state: fc.constant('released' as const), fence: token }),
    fc
      .record({
        state: fc.constant('claimed' as const),
        fence: token,
        owner,
        leaseUntilNodeMs,
        attempt,
        fingerprint,
        claimedAtNodeMs,
        kept: fc.boolean(),
      })
      .map(({ kept, ...claimed }): NodeRecord => (kept ? { ...claimed, kept } : claimed)),
    // Given back after a takeover: it has no holder.
    fc.record({
      state: fc.constant('claimed' as const),
      fence: token,
      owner: fc.constant(NO_OWNER),
      leaseUntilNodeMs: fc.constant(0),
      attempt,
      fingerprint,
      claimedAtNodeMs,
    }),
    fc
      .record({
        accepted: token,
        above: fc.integer({ min: 0, max: 3 }),
        owner,
        copied: fc.boolean(),
        overAtNodeMs: fc.constantFrom(undefined, nowMs + 60_000, nowMs + 120_000),
      })
      .map(({ accepted, above, copied, overAtNodeMs, ...rest }): NodeRecord => {
        const completed = {
          state: 'completed' as const,
          fence: accepted + above,
          acceptedToken: accepted,
          attempt: 1 + (accepted % 3),
          fingerprint: 'e'.repeat(64),
          claimedAtNodeMs: nowMs - 90_000,
          outcome: outcomeAt(accepted),
          ...rest,
          ...(overAtNodeMs === undefined ? {} : { overAtNodeMs }),
        }
        return copied && above > 0 ? { ...completed, copied: true } : completed
      }),
  )
}
