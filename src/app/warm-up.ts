/**
 * A few claims before the first request, so that it does not pay for compilation: the first rounds of a fresh process
 * can take longer than the budget of a claim.
 *
 * On a key of its own, which no request can have, with a lifetime of seconds. Nothing depends on its success: readiness
 * reports a cluster that does not reply.
 */

import { createLeases } from '../core/claims/leases.ts'
import type { Clock, Random } from '../core/clock.ts'
import { SILENT } from '../core/events.ts'
import type { RecordNode } from '../core/ports.ts'
import { WARM_UP_KEY } from '../redis/keys.ts'
import { createRedlockQuorum } from '../redlock/rounds.ts'

/** The first takes some ten times as long as the tenth; the ninety after that bring what requests bring by themselves. */
const CYCLES = 10

/** Beyond it the nodes are slow, and further waiting would only delay the start. */
const WARM_UP_MAX_MS = 300

export async function warmUp(nodes: readonly RecordNode[], clock: Clock, random: Random): Promise<void> {
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const leases = createLeases({ quorum, clock, random, events: SILENT })
  const startedMonoMs = clock.monoMs()
  for (let cycle = 0; cycle < CYCLES && clock.monoMs() - startedMonoMs < WARM_UP_MAX_MS; cycle += 1) {
    const key = `${WARM_UP_KEY}${random.hex(8)}`
    const fingerprint = random.hex(32)
    const claimed = await leases.claim({
      key,
      fingerprint,
      leaseMs: 1_000,
      retentionMs: 1_000,
      budgetMs: 100,
    })
    if (claimed.kind !== 'granted') return
    await leases.renew(claimed.lease)
    await leases.complete(claimed.lease, {
      kind: 'tombstone',
      status: 200,
      completedAtWallMs: clock.wallMs(),
    })
  }
}
