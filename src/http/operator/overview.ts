/**
 * What is going on at this moment, as JSON: `/v1/operator/overview`, and each event of its stream.
 *
 * Owns the form. Everything in it is of the sidecar that is asked; the nodes are everybody's.
 */

import type { ReadinessReason } from '../../core/health/readiness.ts'
import type { Quantiles, TrafficView } from '../../core/health/traffic.ts'
import { TRAFFIC_SECONDS } from '../../core/health/traffic.ts'
import { type NodeSeenNow, type Trouble, wrongNow } from '../../core/health/wrong-now.ts'
import type { SagaBacklog } from '../../core/saga-admin.ts'

export type OverviewNode = Omit<NodeSeenNow, 'skewed'> & {
  readonly startedWallMs?: number
  /** Until then it has no vote, whatever it does. */
  readonly quarantineRemainingMs?: number
}

export type OverviewFacts = {
  readonly ready: boolean
  readonly reasons: readonly string[]
  /** Why it is not ready, or would not be. */
  readonly failing: ReadonlyMap<ReadinessReason, string>
  readonly nodes: readonly OverviewNode[]
  readonly required: number
  readonly inFlight: number
  readonly sweeperElected: boolean | undefined
  /** Known to the sidecar that sweeps. */
  readonly orphansOpen: number | undefined
  /** Undefined without a configured database; `silent` where it did not answer. */
  readonly sagas: SagaBacklog | 'silent' | undefined
  readonly traffic: TrafficView
  /** Sentences. */
  readonly nearMisses: readonly string[]
}

export type OverviewOptions = {
  /** Name of this sidecar. */
  readonly instance: string
  /** The page of runbooks: alerts link to its sections, too. */
  readonly runbookUrl: string
}

export function overviewOf(facts: OverviewFacts, { instance, runbookUrl }: OverviewOptions, wallMs: number) {
  const { ready, reasons, required, traffic, sagas } = facts
  const nodes = facts.nodes.map((node) => {
    const clock = traffic.clocks.get(node.name)
    return clock === undefined ? node : { ...node, clock, skewed: clock.skewed }
  })
  const groups = Object.entries(Object.groupBy(nodes, ({ group = '' }) => group))
  return {
    at: new Date(wallMs).toISOString(),
    instance,
    ready,
    reasons,
    quorums: groups.map(([group, all = []]) => {
      const voting = all.filter(({ state }) => state === 'voting').length
      const of = group === '' ? {} : { group }
      return { ...of, nodes: all.length, voting, required, margin: voting - required }
    }),
    nodes: nodes.map(nodeOf),
    requests: {
      in_flight: facts.inFlight,
      seconds: TRAFFIC_SECONDS,
      per_second: traffic.perSecond,
      ...quantilesOf(traffic.requests),
    },
    claims: quantilesOf(traffic.claims),
    wrong: troublesOf(facts, nodes).map(({ what, runbook }) => ({
      what,
      runbook: `${runbookUrl}#${runbook.toLowerCase()}`,
    })),
    near_misses: facts.nearMisses,
    ...(sagas === undefined ? {} : { sagas: backlogOf(sagas) }),
  }
}

function troublesOf(facts: OverviewFacts, nodes: readonly NodeSeenNow[]): readonly Trouble[] {
  const { required, failing, sweeperElected, orphansOpen, sagas, traffic } = facts
  return wrongNow({
    nodes,
    required,
    failing,
    openBreakers: traffic.openBreakers,
    unprotected: traffic.perSecond.unprotected.reduce((sum, one) => sum + one, 0),
    sweeperElected,
    deadLetters: orphansOpen,
    sagas: typeof sagas === 'object' ? { parked: sagas.sagas.parked, deadLetters: lettersIn(sagas) } : sagas,
  })
}

type SeenNode = OverviewNode & {
  readonly clock?: { readonly offsetMs: number; readonly uncertaintyMs: number; readonly skewed: boolean }
}

function nodeOf({ name, address, group, state, reason, ...node }: SeenNode) {
  const { memoryShare, startedWallMs, quarantineRemainingMs, clock } = node
  return {
    name,
    address,
    ...(group === undefined ? {} : { group }),
    state,
    ...(reason === undefined ? {} : { reason }),
    ...(memoryShare === undefined ? {} : { memory_share: rounded(memoryShare) }),
    ...(startedWallMs === undefined ? {} : { started_at: new Date(startedWallMs).toISOString() }),
    ...(quarantineRemainingMs === undefined
      ? {}
      : { quarantine_remaining_ms: Math.round(quarantineRemainingMs) }),
    ...(clock === undefined
      ? {}
      : {
          clock: {
            offset_ms: rounded(clock.offsetMs),
            uncertainty_ms: rounded(clock.uncertaintyMs),
            skewed: clock.skewed,
          },
        }),
  }
}

function quantilesOf({ count, p50Ms, p95Ms }: Quantiles) {
  return {
    count,
    ...(p50Ms === undefined ? {} : { p50_ms: rounded(p50Ms) }),
    ...(p95Ms === undefined ? {} : { p95_ms: rounded(p95Ms) }),
  }
}

function backlogOf(sagas: SagaBacklog | 'silent') {
  if (sagas === 'silent') return { known: false }
  const { sagas: open, outboxPending, outboxParked, oldestPendingAgeMs, inboxOpen } = sagas
  return {
    known: true,
    ...open,
    dead_letters: lettersIn(sagas),
    outbox_pending: outboxPending,
    outbox_parked: outboxParked,
    oldest_pending_ms: Math.round(oldestPendingAgeMs),
    inbox_open: inboxOpen,
  }
}

function lettersIn({ openDeadLetters }: SagaBacklog): number {
  return openDeadLetters.outbox + openDeadLetters.inbox
}

/** To three digits after the point; JSON has no infinity, which a quantile above every class is. */
function rounded(value: number): number {
  return Number.isFinite(value) ? Math.round(value * 1_000) / 1_000 : 60_000
}
