/** What a grant of the quorum amounts to beside what this process executed by itself. */
import { expect, test } from 'vitest'
import { reconcileLocalRecord } from '../../../src/core/claims/write-back.ts'
import { NO_OWNER } from '../../../src/core/record/record.ts'

const FINGERPRINT = 'f'.repeat(64)
const LEASE = {
  key: 'k',
  token: 2,
  owner: 'a'.repeat(32),
  fingerprint: FINGERPRINT,
  attempt: 1,
  leaseMs: 1_000,
  retentionMs: 60_000,
  validUntilMonoMs: 1_000,
  validUntilWallMs: 1_000,
}

test.each([
  [1, 2],
  [9_998, 9_999],
  [9_999, 9_999],
])(
  'after %i attempts of this process that got no answer, the next one is number %i',
  async (known, attempt) => {
    const leases = { release: async () => ({ kind: 'released' }) as const }
    const own = {
      read: async () =>
        ({
          kind: 'claimed',
          token: 1,
          owner: NO_OWNER,
          attempt: known,
          remainingMs: 0,
          fingerprint: FINGERPRINT,
        }) as const,
    }
    const claimed = await reconcileLocalRecord({ kind: 'granted', lease: LEASE }, leases, own)
    expect(claimed).toMatchObject({ kind: 'granted', lease: { attempt } })
  },
)
