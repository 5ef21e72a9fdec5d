/** Our claims in this process, composed as the sidecar composes them, over the servers of a benchmark. */
import { createLeases } from '../../src/core/claims/leases.ts'
import type { Leases, Quorum } from '../../src/core/ports.ts'
import { RedisNodes } from '../../src/redis/nodes.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock as clock, systemRandom as random } from '../../src/system/clock.ts'

const events = { publish: () => {} }

export type OurLeases = AsyncDisposable & {
  readonly leases: Leases
  readonly quorum: Quorum
  readonly nodes: RedisNodes
}

export async function connectLeases(urls: readonly string[]): Promise<OurLeases> {
  const nodes = new RedisNodes({
    addresses: urls.map((url) => ({ url })),
    deadlineMs: 1_000,
    connectTimeoutMs: 1_000,
    maxTokenAheadMs: 10_000,
    quarantineMs: 60_000,
    answerMaxAgeMs: 2_000,
    clockStepMs: 1_000,
    clock,
    random,
    events,
  })
  await nodes.connect()
  const quorum = createRedlockQuorum({ nodes: nodes.nodes, clock, events })
  const leases = leasesOver(quorum)
  return { leases, quorum, nodes, [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose]() }
}

export function leasesOver(quorum: Quorum): Leases {
  return createLeases({ quorum, clock, random, events })
}
