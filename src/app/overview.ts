/** What the operator's overview is made of, from the state that probes and scrapes read. */

import type { Config } from '../config/load.ts'
import type { Traffic } from '../core/health/traffic.ts'
import type { OverviewFacts } from '../http/operator/overview.ts'
import type { Telemetry, Watched } from './telemetry.ts'

export function overviewFacts(
  watched: Watched,
  telemetry: Pick<Telemetry, 'verdict'>,
  { required }: { readonly required: number },
  traffic: Traffic,
  config: Pick<Config, 'sagaDatabase'>,
): OverviewFacts {
  const { ready, reasons, sentences } = telemetry.verdict(watched)
  const { nodes, inFlight, sweeping, sagas } = watched
  return {
    ready,
    reasons,
    failing: sentences,
    nodes,
    required,
    inFlight,
    sweeperElected: sweeping?.filled,
    orphansOpen: sweeping?.orphansOpen,
    sagas: config.sagaDatabase === undefined ? undefined : (sagas ?? 'silent'),
    traffic: traffic.view(),
  }
}
