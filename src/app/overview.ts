/** What the operator's overview is made of, from the state that probes and scrapes read. */

import type { Config } from '../config/load.ts'
import type { Clock } from '../core/clock.ts'
import { createObservations, type Observations } from '../core/health/observations.ts'
import { createTraffic, type Traffic } from '../core/health/traffic.ts'
import { createRecentDecisions } from '../core/operator/recent-decisions.ts'
import type { OverviewFacts } from '../http/operator/overview.ts'
import type { Telemetry, Watched } from './telemetry.ts'

export function overviewFacts(
  watched: Watched,
  telemetry: Pick<Telemetry, 'verdict'>,
  { required }: { readonly required: number },
  traffic: Traffic,
  observations: Observations,
): OverviewFacts {
  const { ready, reasons, sentences } = telemetry.verdict(watched)
  const { nodes, inFlight, sweeping } = watched
  return {
    ready,
    reasons,
    failing: sentences,
    nodes,
    required,
    inFlight,
    sweeperElected: sweeping?.filled,
    orphansOpen: sweeping?.orphansOpen,
    traffic: traffic.view(),
    nearMisses: observations.view().near_misses.map(({ says }) => says),
  }
}

/** What an operator is shown of this sidecar's requests. */
export function requestsSeen(config: Config, telemetry: Pick<Telemetry, 'tell'>, clock: Clock) {
  const recent = createRecentDecisions(config, () => clock.wallMs())
  const traffic = createTraffic(clock)
  const observations = createObservations()
  telemetry.tell((event) => {
    if (event.kind === 'observed' || event.kind === 'near_miss') observations.add(event)
  })
  if (config.operatorListen.kind !== 'off') {
    telemetry.tell(recent.observe)
    telemetry.tell(traffic.observe)
  }
  return { recent, traffic, observations }
}
