/**
 * Readiness around its gate: what it hears of events, the facts that it is judged by, its timers, and one line in the log for each change.
 */

import type { Logger } from 'pino'
import type { Config } from '../config/load.ts'
import type { Clock, Random, Timer } from '../core/clock.ts'
import type { CoreEvent, Events } from '../core/events.ts'
import {
  createReadinessGate,
  type ReadinessFacts,
  type ReadinessGate,
  type ReadinessVerdict,
} from '../core/health/readiness.ts'
import { claimSynthetically, syntheticPauseMs } from '../core/health/synthetic-claims.ts'
import { sentenceOf as withRemedy } from '../core/node-faults.ts'
import { type NodeStatus, placeOf, takesWrites } from '../core/node-status.ts'
import type { Leases } from '../core/ports.ts'
import { protects } from '../core/routes/route.ts'
import { PROBE_KEY } from '../redis/keys.ts'

type ReadinessWatchPorts = {
  readonly instance: string
  /** Of all groups, group after group. */
  readonly nodeNames: readonly string[]
  readonly size: QuorumSize
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
}

export function watchReadiness(config: Config, ports: ReadinessWatchPorts) {
  const { nodeNames, size, log, clock } = ports
  const gate = createReadinessGate({ ...config, quorumGate: quorumGateOf(config) }, ports)
  const quorum = watchQuorum(nodeNames, size, gate.quorum, config.redisNodes.kind !== 'embedded')
  /** As it was reported last; undefined before the sidecar serves. */
  let reported: { readonly ready: boolean; readonly why: string; readonly sinceMonoMs: number } | undefined
  let timers: Disposable | undefined

  function verdict(seen: NodesSeen): ReadinessVerdict {
    const heard = { clockEnforce: config.clockEnforce, unanswered: quorum.unanswered }
    const judged = gate.verdict(readinessFacts(seen, heard, size))
    if (reported !== undefined && reported.ready !== judged.ready) report(judged, seen, reported)
    return judged
  }

  function report(
    { ready, reasons }: ReadinessVerdict,
    seen: NodesSeen,
    before: NonNullable<typeof reported>,
  ) {
    const monoMs = clock.monoMs()
    const why = reasons.join('; ')
    reported = { ready, why, sinceMonoMs: monoMs }
    const seconds = ((monoMs - before.sinceMonoMs) / 1_000).toFixed(1)
    const fields = { event: 'readiness_changed', ready, reasons }
    if (ready) return log.info(fields, `ready again after ${seconds} s: it was not, because ${before.why}`)
    const nodes = seen.nodes.flatMap(({ state, reason, remedy, ...node }) =>
      reason === undefined ? [] : [`${placeOf(node)} is ${state}: ${withRemedy({ reason, remedy })}`],
    )
    const message = `not ready: ${[why, ...nodes].join('; ')}`
    if (seen.phase === 'serving') log.warn(fields, message)
    else log.info(fields, message)
  }

  return {
    verdict,
    saw: (event: CoreEvent) => {
      quorum.saw(event)
      // Without a round no command was sent, so the claim says nothing of the nodes.
      if (event.kind === 'claim_ended' && event.rounds > 0)
        gate.observe(event.durationMs, event.result === 'unavailable' ? 'unavailable' : undefined)
      if (event.kind === 'node_state' || event.kind === 'clock_stepped') gate.disturbed()
    },
    /**
     * The sidecar serves: from now on each change is reported, and first of all that it is not ready, as a start without a majority changes no
     * node's state.
     *
     * @param groups get synthetic claims while real ones are too few
     */
    start: (groups: readonly Pick<Leases, 'claim' | 'release'>[], seen: () => NodesSeen, events: Events) => {
      reported = { ready: true, why: '', sinceMonoMs: clock.monoMs() }
      verdict(seen())
      const evaluated = () => {
        gate.evaluate()
        verdict(seen())
      }
      timers = startReadinessTimers({ ...gate, evaluate: evaluated }, groups, config, { ...ports, events })
    },
    [Symbol.dispose]: () => timers?.[Symbol.dispose](),
  }
}

/** No request reaches an unready pod, also none that goes on without a quorum. */
function quorumGateOf({ quorumGate, routes }: Pick<Config, 'quorumGate' | 'routes'>): 'enforce' | 'report' {
  if (quorumGate !== 'auto') return quorumGate
  const goesOn = routes.some(
    (route) => route.mode === 'observe' || (protects(route) && route.onQuorumLoss !== 'fail-closed'),
  )
  return goesOn ? 'report' : 'enforce'
}

/**
 * Whether every group has a majority of nodes that vote, take writes and answer in time: the first two from what the nodes are reported to
 * become, the third from what clients get, which the quorum breaker knows.
 *
 * @param nodeNames of all groups, group after group
 * @param reported each node is reported once it votes, and until then it does not; embedded nodes vote and never are
 * @param changed called at each change
 */
export function watchQuorum(
  nodeNames: readonly string[],
  { nodeCount, required }: QuorumSize,
  changed: (present: boolean) => void,
  reported: boolean,
) {
  const away = new Set(reported ? nodeNames : [])
  const readsOnly = new Set<string>()
  /** Groups whose breaker is not closed; the only one is named ''. */
  const unanswered = new Set<string>()
  const groups = nodeNames.flatMap((_, at) =>
    at % nodeCount === 0 ? [nodeNames.slice(at, at + nodeCount)] : [],
  )
  let before = !reported
  if (!before) changed(false)
  const saw = (event: CoreEvent) => {
    if (event.kind === 'node_state') {
      if (event.to === 'voting') away.delete(event.node)
      else away.add(event.node)
      // Told anew where it votes and refuses writes.
      readsOnly.delete(event.node)
    } else if (event.kind === 'node_writes') {
      if (event.refusal === undefined) readsOnly.delete(event.node)
      else readsOnly.add(event.node)
    } else if (event.kind === 'quorum_breaker_changed') {
      if (event.to === 'closed') unanswered.delete(event.group ?? '')
      else unanswered.add(event.group ?? '')
    } else return
    const takesWrites = (name: string) => !away.has(name) && !readsOnly.has(name)
    const present =
      unanswered.size === 0 && groups.every((group) => group.filter(takesWrites).length >= required)
    if (present !== before) changed(present)
    before = present
  }
  return { saw, unanswered }
}

export type NodesSeen = {
  readonly phase: ReadinessFacts['phase']
  readonly nodes: readonly NodeStatus[]
  /** Every quorum group confirmed the configured groups. */
  readonly agreed: boolean
  /** For each group whose votes do not come back by themselves: why, and what to do. */
  readonly standstills: readonly string[]
}

type QuorumSize = {
  /** Of one group. */
  readonly nodeCount: number
  readonly required: number
}

/**
 * @param clockEnforce clocks that are off by more than tolerated refuse claims
 * @param unanswered groups whose claims end without a majority, whatever their nodes are
 */
function readinessFacts(
  { phase, nodes, agreed, standstills }: NodesSeen,
  { clockEnforce, unanswered }: { readonly clockEnforce: boolean; readonly unanswered: ReadonlySet<string> },
  { nodeCount, required }: QuorumSize,
): ReadinessFacts {
  const groups = groupsOf(nodes)
  const voting = Math.max(...groups.map((group) => group.voting))
  const writable = Math.max(...groups.map((group) => group.writable))
  const lost = groups.filter(({ name, writable: able }) => able < required || unanswered.has(name))
  const clockRefusal = refusalFor(groups, voting, clockEnforce, { nodeCount, required })
  return {
    phase,
    voting,
    writable,
    nodeCount,
    required,
    ...(groups.length === 1 ? {} : { groupsLost: lost.map(({ name }) => name) }),
    ...(writable >= required && lost.length === groups.length ? { unanswered: true } : {}),
    ...(agreed ? {} : { notAgreed: true }),
    standstills,
    ...(clockRefusal === undefined ? {} : { clockRefusal }),
  }
}

type Group = {
  readonly name: string
  readonly voting: number
  readonly writable: number
  readonly suspended: number
  readonly skewed: number
}

function groupsOf(nodes: readonly NodeStatus[]): readonly Group[] {
  const byName = Object.entries(Object.groupBy(nodes, ({ group = '' }) => group))
  return byName.map(([name, all = []]) => ({
    name,
    voting: all.filter(({ state }) => state === 'voting').length,
    writable: all.filter(takesWrites).length,
    suspended: all.filter(({ state }) => state === 'suspended').length,
    skewed: all.filter(({ clock }) => clock?.skewed === true).length,
  }))
}

/** With several groups, only if every group refuses claims. */
function refusalFor(
  groups: readonly Group[],
  voting: number,
  enforced: boolean,
  { nodeCount, required }: QuorumSize,
): string | undefined {
  const least = Math.min(...groups.map((group) => group.skewed))
  if (enforced && least >= required)
    return `claims are refused: ${least} of ${nodeCount} clocks are further off than tolerated`
  const stepped = groups.find(
    (group) => group.voting < required && group.voting + group.suspended >= required,
  )
  if (voting >= required || stepped === undefined) return undefined
  return `${stepped.suspended} nodes are not counted for their clocks`
}

/**
 * Evaluations, and synthetic claims while real ones are too few. Each synthetic claim costs every node, and idle sidecars are many: so they
 * follow one another only until the window has enough. While all is calm there is one in a window, which finds out that it no longer is.
 *
 * @param groups get the claims in turn
 */
export function startReadinessTimers(
  gate: ReadinessGate,
  groups: readonly Pick<Leases, 'claim' | 'release'>[],
  config: Pick<Config, 'readinessWindowMs' | 'readinessMinSamples' | 'claimBudgetMs'>,
  {
    instance,
    clock,
    random,
    events,
  }: Pick<ReadinessWatchPorts, 'instance' | 'clock' | 'random'> & { readonly events: Events },
): Disposable {
  const timers = new Set<Timer>()
  let ended = false

  function every(intervalMs: number, work: () => void | Promise<void>): void {
    const timer = clock.timer(intervalMs, async () => {
      timers.delete(timer)
      await work()
      if (!ended) every(intervalMs, work)
    })
    timers.add(timer)
  }

  // A new key: an earlier claim, also of an earlier process, may not have been released.
  const freshKey = () => `${PROBE_KEY}${instance}:${random.hex(8)}`
  let key = freshKey()
  let next = 0
  let lastMonoMs = Number.NEGATIVE_INFINITY
  const isDue = () => {
    const wants = gate.wants()
    if (wants !== 'one in a while') return wants === 'more'
    // Each group once a window.
    return clock.monoMs() - lastMonoMs >= config.readinessWindowMs / groups.length
  }

  every(gate.evaluateEveryMs, gate.evaluate)
  every(syntheticPauseMs(config.readinessWindowMs, config.readinessMinSamples), async () => {
    if (!isDue()) return
    const leases = groups[next++ % groups.length]
    if (leases === undefined) return
    lastMonoMs = clock.monoMs()
    const ports = { leases, clock, random, events }
    const { durationMs, ok, unavailable, left } = await claimSynthetically(key, config.claimBudgetMs, ports)
    gate.observe(durationMs, unavailable ? 'unavailable' : undefined)
    if (!ok) gate.disturbed()
    if (left) key = freshKey()
  })
  return {
    [Symbol.dispose]: () => {
      ended = true
      for (const timer of timers) timer.cancel()
    },
  }
}
