/**
 * Readiness around its gate: what it hears of events, its timers, and one line in the log for each change of it.
 */

import type { Logger } from 'pino'
import type { Config } from '../config/load.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { CoreEvent, Events } from '../core/events.ts'
import { createReadinessGate, type ReadinessVerdict } from '../core/health/readiness.ts'
import { told as withRemedy } from '../core/node-faults.ts'
import { placeOf } from '../core/node-status.ts'
import type { Leases } from '../core/ports.ts'
import { protects } from '../core/routes/route.ts'
import { watchQuorum } from './quorum-watch.ts'
import { type NodesSeen, type QuorumSize, readinessFacts } from './readiness-facts.ts'
import { startReadinessTimers } from './readiness-timers.ts'

export type ReadinessWatch = Disposable & {
  saw(event: CoreEvent): void
  verdict(seen: NodesSeen): ReadinessVerdict
  /**
   * The sidecar serves: from now on each change is told, and first of all that it is not ready, as a start without a majority changes no
   * node's state.
   *
   * @param groups get synthetic claims while real ones are too few
   */
  start(groups: readonly Pick<Leases, 'claim' | 'release'>[], seen: () => NodesSeen, events: Events): void
}

export type ReadinessWatchPorts = {
  readonly instance: string
  /** Of all groups, group after group. */
  readonly nodeNames: readonly string[]
  readonly size: QuorumSize
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
}

export function watchReadiness(config: Config, ports: ReadinessWatchPorts): ReadinessWatch {
  const { nodeNames, size, log, clock } = ports
  const gate = createReadinessGate({ ...config, quorumGate: quorumGateOf(config) }, ports)
  const quorum = watchQuorum(nodeNames, size, gate.quorum, config.redisNodes.kind !== 'embedded')
  /** As it was told last; undefined before the sidecar serves. */
  let told: { readonly ready: boolean; readonly why: string; readonly sinceMonoMs: number } | undefined
  let timers: Disposable | undefined

  function verdict(seen: NodesSeen): ReadinessVerdict {
    const heard = { clockEnforce: config.clockEnforce, unanswered: quorum.unanswered }
    const judged = gate.verdict(readinessFacts(seen, heard, size))
    if (told !== undefined && told.ready !== judged.ready) tell(judged, seen, told)
    return judged
  }

  function tell({ ready, reasons }: ReadinessVerdict, seen: NodesSeen, before: NonNullable<typeof told>) {
    const monoMs = clock.monoMs()
    const why = reasons.join('; ')
    told = { ready, why, sinceMonoMs: monoMs }
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
    saw: (event) => {
      quorum.saw(event)
      // Without a round no command was sent, so the claim says nothing of the nodes.
      if (event.kind === 'claim_ended' && event.rounds > 0)
        gate.observe(event.durationMs, event.result === 'unavailable' ? 'unavailable' : undefined)
      if (event.kind === 'node_state' || event.kind === 'clock_stepped') gate.disturbed()
    },
    start: (groups, seen, events) => {
      told = { ready: true, why: '', sinceMonoMs: clock.monoMs() }
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
