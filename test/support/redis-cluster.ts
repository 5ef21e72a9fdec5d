/** One sidecar's view of real Redis servers, with a short quarantine, and the events that it published. */

import { guardNodes } from '../../src/app/stack.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import { quorumBreaker } from '../../src/core/nodes/quorum-breaker.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases } from '../../src/core/ports.ts'
import { ANSWER_MAX_AGE_MS } from '../../src/core/quorum/tally.ts'
import type { StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { majorityOf } from '../../src/core/units.ts'
import type { RedisNodesOptions } from '../../src/redis/nodes.ts'
import { RedisNodes } from '../../src/redis/nodes.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { eventually } from './eventually.ts'

/** Short, but long enough for a process that shares the machine with other tests. */
export const QUARANTINE_MS = 400

/** For claims that must succeed: far above the need of a busy machine. Claims that must fail give their own. */
const PATIENT_BUDGET_MS = 15_000

export type Sidecar = AsyncDisposable & {
  readonly nodes: RedisNodes
  readonly leases: Leases
  readonly events: CoreEvent[]
  kinds(): readonly string[]
  states(): readonly string[]
  /** Of a node. */
  name(index: number): string
  votes(count: number): Promise<void>
  /**
   * Whether that node has got its vote since `sinceEvents`. `node_joined` alone is no sign of it: only the sidecar
   * whose last step was answered in time publishes it, and a node with a busy disk executes that step and answers late.
   */
  gotVote(index: number, sinceEvents: number): boolean
  claim(name: string, more?: Partial<ClaimRequest>): Promise<ClaimResult>
  /** Claims and completes; the outcome names the request. */
  carryOut(name: string): Promise<Lease>
}

export async function joinCluster(
  urls: readonly string[],
  more: Partial<RedisNodesOptions> = {},
  /** With clocks and breakers around the nodes, as `serve` has them. */
  guarded: boolean | { readonly enforce: boolean } = false,
): Promise<Sidecar> {
  const events: CoreEvent[] = []
  const publisher = { publish: (event: CoreEvent) => void events.push(event) }
  const nodes = new RedisNodes({
    addresses: urls.map((url) => ({ url })),
    // Far above the need of a loaded machine: deadlines are not under test here.
    deadlineMs: 2_000,
    connectTimeoutMs: 2_000,
    maxTokenAheadMs: 10_000,
    quarantineMs: QUARANTINE_MS,
    // A busy machine may read an answer later than so short a quarantine lasts.
    answerMaxAgeMs: ANSWER_MAX_AGE_MS,
    clockStepMs: 1_000,
    inspectEveryMs: 40,
    // No other sidecar can object: tests about founding give their own.
    foundingWindowMs: 0,
    clock: systemClock,
    random: systemRandom,
    events: publisher,
    ...more,
  })
  const outside = { clock: systemClock, random: systemRandom, events: publisher }
  const clockEnforce = typeof guarded === 'object' && guarded.enforce
  const watched = guardNodes({ clockMaxSkewMs: 50, clockEnforce, clockStepMs: 1_000 }, nodes, outside)
  await nodes.connect(guarded === false ? undefined : watched.saw)
  const voters = guarded === false ? nodes.nodes : watched.nodes
  const quorum = createRedlockQuorum({ nodes: voters, ...outside })
  const plain = createLeases({ quorum, ...outside })
  const required = majorityOf(urls.length)
  const leases = guarded !== false ? quorumBreaker({ required, ...outside })(plain) : plain
  const states = () => nodes.states().map(({ state }) => state.kind)
  const name = (index: number) => nodes.nodes[index]?.name ?? ''
  const claim = (name: string, request: Partial<ClaimRequest> = {}) =>
    leases.claim({
      key: keyOf(name),
      fingerprint: fingerprintOf(name),
      leaseMs: 10_000,
      retentionMs: 60_000,
      budgetMs: PATIENT_BUDGET_MS,
      ...request,
    })
  return {
    nodes,
    leases,
    events,
    kinds: () => events.map(({ kind }) => kind),
    states,
    votes: async (count) => {
      const voting = () => states().filter((state) => state === 'voting').length
      await eventually(`${count} nodes vote`, () => voting() === count, { withinMs: 15_000 })
    },
    name,
    gotVote: (index, sinceEvents) =>
      events
        .slice(sinceEvents)
        .some((event) => event.kind === 'node_state' && event.node === name(index) && event.to === 'voting'),
    claim,
    carryOut: async (name) => {
      const claimed = await claim(name)
      if (claimed.kind !== 'granted') throw new Error(`${name} was not granted: ${claimed.kind}`)
      // Repeated while too few nodes answer, as `serve` does within its settle budget.
      const completed = await eventually(
        `${name} is recorded`,
        async () => {
          const { kind } = await leases.complete(claimed.lease, outcomeOf(name))
          return kind === 'unavailable' ? undefined : kind
        },
        { withinMs: PATIENT_BUDGET_MS },
      )
      if (completed !== 'recorded') throw new Error(`${name} was not recorded: ${completed}`)
      return claimed.lease
    },
    [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
  }
}

export function keyOf(name: string): string {
  return `dedup:shop:test:v1:${fingerprintOf(name)}`
}

export function fingerprintOf(name: string): string {
  return Buffer.from(name).toString('hex').padEnd(64, '0').slice(0, 64)
}

export function outcomeOf(name: string): StoredOutcome {
  return { kind: 'response', status: 201, headers: [], body: Buffer.from(name), completedAtWallMs: 0 }
}
