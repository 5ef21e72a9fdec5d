/** How requests are deduplicated where a test says nothing else. */
import type { DedupPolicy } from '../../src/core/protected-request.ts'
import type { StoringPolicy } from '../../src/core/routes/settlement.ts'

export const STORING: StoringPolicy = {
  store: {},
  storedHeaders: [],
  omittedHeaders: [],
  bodyStorage: 'full',
  redact: [],
}

export const POLICY: DedupPolicy = {
  ...STORING,
  leaseMs: 30_000,
  retentionMs: 3_600_000,
  budgetMs: 100,
  settleBudgetMs: 300,
  totalHoldMs: 3_600_000,
  renewFraction: 1 / 3,
  waitMs: 0,
  takeover: 'reexecute',
  onQuorumLoss: 'fail-closed',
}
