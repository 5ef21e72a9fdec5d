/**
 * What is going on at this moment, as JSON: `/v1/operator/overview`, and each event of its stream.
 *
 * Owns the form. Everything in it is of the sidecar that is asked; the nodes are everybody's.
 */

import { activeProblems, type Trouble } from '../../core/health/active-problems.ts'
import type { ReadinessReason } from '../../core/health/readiness.ts'
import { type Quantiles, TRAFFIC_SECONDS, type TrafficView } from '../../core/health/traffic.ts'
import type { NodeStatus } from '../../core/node-status.ts'
import type { NodeLook } from '../../core/nodes/node-stats.ts'
import { defined } from './shown.ts'

export type OverviewFacts = {
  readonly ready: boolean
  readonly reasons: readonly string[]
  /** Why it is not ready, or would not be. */
  readonly failing: ReadonlyMap<ReadinessReason, string>
  readonly nodes: readonly NodeStatus[]
  readonly required: number
  readonly inFlight: number
  readonly sweeperElected: boolean | undefined
  /** Known to the sidecar that sweeps. */
  readonly orphansOpen: number | undefined
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
  const { ready, reasons, nodes, required, traffic } = facts
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
    wrong: troublesOf(facts).map(({ what, runbook }) => ({
      what,
      runbook: `${runbookUrl}#${runbook.toLowerCase()}`,
    })),
    near_misses: facts.nearMisses,
  }
}

function troublesOf(facts: OverviewFacts): readonly Trouble[] {
  const { nodes, required, failing, sweeperElected, orphansOpen, traffic } = facts
  return activeProblems({
    nodes,
    required,
    failing,
    openBreakers: traffic.openBreakers,
    unprotected: traffic.perSecond.unprotected.reduce((sum, one) => sum + one, 0),
    sweeperElected,
    deadLetters: orphansOpen,
  })
}

function nodeOf({ name, address, group, state, fault, reason, remedy, ...node }: NodeStatus) {
  const { sinceWallMs, memoryShare, startedWallMs, quarantine, clock } = node
  return defined({
    name,
    address,
    group,
    state,
    since: timeOf(sinceWallMs),
    fault,
    reason,
    remedy,
    memory_share: memoryShare === undefined ? undefined : rounded(memoryShare),
    started_at: timeOf(startedWallMs),
    quarantine_remaining_ms:
      quarantine?.remainingMs === undefined ? undefined : Math.round(quarantine.remainingMs),
    clock: clock && {
      offset_ms: rounded(clock.offsetMs),
      uncertainty_ms: rounded(clock.uncertaintyMs),
      skewed: clock.skewed,
    },
  })
}

function timeOf(wallMs: number | undefined): string | undefined {
  return wallMs === undefined ? undefined : new Date(wallMs).toISOString()
}

function quantilesOf({ count, p50Ms, p95Ms }: Quantiles) {
  return {
    count,
    ...(p50Ms === undefined ? {} : { p50_ms: rounded(p50Ms) }),
    ...(p95Ms === undefined ? {} : { p95_ms: rounded(p95Ms) }),
  }
}

/** To three digits after the point; JSON has no infinity, which a quantile above every class is. */
function rounded(value: number): number {
  return Number.isFinite(value) ? Math.round(value * 1_000) / 1_000 : 60_000
}

/** `look`: undefined where the node did not answer. */
export type NodeSlowLog = { readonly node: string; readonly look: NodeLook | undefined }

/** Of every node, as they are at that moment. */
export type SlowLogs = { readonly slowLogs: () => Promise<readonly NodeSlowLog[]> }

/** `/v1/operator/slow-commands`: a command is its name, its time and its node, never its arguments, which are keys and owners. */
export function slowCommandsOf(logs: readonly NodeSlowLog[]) {
  return {
    commands: logs
      .flatMap(({ node, look }) => (look?.slowCommands ?? []).map((one) => ({ node, ...one })))
      .sort((a, b) => b.atWallMs - a.atWallMs)
      .map(({ node, command, durationMs, atWallMs }) => ({
        at: new Date(atWallMs).toISOString(),
        node,
        command,
        duration_ms: durationMs,
      })),
    nodes: logs.map(({ node, look }) => {
      const entries = look?.stats.slowlogLength ?? Number.NaN
      return { node, ...(Number.isNaN(entries) ? { known: false } : { known: true, entries }) }
    }),
  }
}
