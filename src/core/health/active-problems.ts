/**
 * What is wrong at this moment, each with the runbook that is about it: a table of conditions over what is known.
 *
 * Pure. It says what one sidecar sees; alerts say what lasts, and what all of them see.
 */

import { sentenceOf } from '../node-faults.ts'
import { type NodeStatus, placeOf, refusesWrites, takesWrites } from '../node-status.ts'
import type { ReadinessReason } from './readiness.ts'

export type SeenNow = {
  readonly nodes: readonly NodeStatus[]
  /** Votes of one group that are a majority. */
  readonly required: number
  /** Why this sidecar is not ready, or would not be, as `/readyz` says it. */
  readonly failing: ReadonlyMap<ReadinessReason, string>
  readonly openBreakers: readonly string[]
  /** Requests that were forwarded without protection in the last minutes. */
  readonly unprotected: number
  /** Undefined where this sidecar takes part in no election. */
  readonly sweeperElected: boolean | undefined
  readonly deadLetters: number | undefined
}

export type Trouble = {
  readonly what: string
  /** The heading in docs/operations/runbooks.md. */
  readonly runbook: string
}

/** Alerts begin there; at 90 % a node is sent no new claims. */
const MEMORY_SHARE_HIGH = 0.8

export function activeProblems(seen: SeenNow): readonly Trouble[] {
  return [...aboutVotes(seen), ...seen.nodes.flatMap(aboutNode), ...aboutRequests(seen), ...aboutWork(seen)]
}

function aboutVotes({ nodes, required }: SeenNow): Trouble[] {
  const groups = Object.entries(Object.groupBy(nodes, ({ group = '' }) => group))
  return groups.flatMap(([group, all = []]) => {
    const of = group === '' ? '' : ` in the group ${group}`
    const voting = all.filter(takesWrites).length
    const vote = all.some(refusesWrites) ? 'vote and take writes' : 'vote'
    const votes = `${voting} of ${all.length} nodes ${vote}${of}, ${required} are a majority`
    if (voting < required) return [{ what: `The quorum is lost: ${votes}.`, runbook: 'FencepostQuorumLost' }]
    const what = `No vote is spare: ${votes}. One more node down loses the quorum.`
    return where(voting === required && all.length > required, 'FencepostQuorumNoSpare', what)
  })
}

function where(isSo: boolean, runbook: string, what: string): Trouble[] {
  return isSo ? [{ what, runbook }] : []
}

const OF_STATE: Readonly<Record<NodeStatus['state'], Trouble | undefined>> = {
  voting: undefined,
  down: { what: 'is down', runbook: 'FencepostRedisNodeDown' },
  unfit: { what: 'is unfit', runbook: 'FencepostRedisNodeDown' },
  quarantined: { what: 'is in quarantine', runbook: 'FencepostRedisNodeQuarantined' },
  suspended: { what: 'is not counted', runbook: 'FencepostClockStepped' },
}

const READS_ONLY = { what: 'answers reads alone', runbook: 'FencepostRedisNodeDown' }

function aboutNode(node: NodeStatus): Trouble[] {
  const { state, reason, remedy, memoryShare = 0, clock } = node
  const name = placeOf(node)
  const known = refusesWrites(node) ? READS_ONLY : OF_STATE[state]
  const why = reason === undefined ? '.' : `: ${sentenceOf({ reason, remedy })}.`
  const full = `${name} uses ${Math.round(memoryShare * 100)} % of its memory; from 90 % on it is sent no new claims.`
  const skewed = `The clock of ${name} is off by more than is tolerated.`
  return [
    ...(known === undefined ? [] : [{ what: `${name} ${known.what}${why}`, runbook: known.runbook }]),
    ...where(memoryShare > MEMORY_SHARE_HIGH, 'FencepostRedisNodeMemoryHigh', full),
    ...where(clock?.skewed === true, 'FencepostClockSkewHigh', skewed),
  ]
}

/** A sidecar that drains does as it was told. */
const OF_READINESS: Readonly<Record<ReadinessReason, string | undefined>> = {
  latency: 'FencepostReadinessGateMass',
  quorum: 'FencepostQuorumLost',
  clock: 'FencepostClockSkewHigh',
  shutdown: undefined,
}

function aboutRequests({ failing, openBreakers, unprotected }: SeenNow): Trouble[] {
  const passed = `Requests that were forwarded without protection in the last two minutes: ${unprotected}.`
  return [
    ...[...failing].flatMap(([reason, sentence]) => {
      const runbook = OF_READINESS[reason]
      return runbook === undefined ? [] : [{ what: `This sidecar reports: ${sentence}.`, runbook }]
    }),
    ...openBreakers.map((group) => ({
      what: `Claims${group === '' ? '' : ` of the group ${group}`} are refused without asking the nodes: the circuit breaker is open.`,
      runbook: 'FencepostCircuitBreakerOpen',
    })),
    ...where(unprotected > 0, 'FencepostFailOpenActive', passed),
  ]
}

function aboutWork({ sweeperElected, deadLetters = 0 }: SeenNow): Trouble[] {
  const unswept = 'No sidecar is elected to sweep: expired claims are not found.'
  const open = `Expired claims that wait for a decision: ${deadLetters}.`
  return [
    ...where(sweeperElected === false, 'FencepostSweeperMissing', unswept),
    ...where(deadLetters > 0, 'FencepostOrphansOpen', open),
  ]
}
