// The alerts, played by promtool: each fires and resolves; none fires without traffic or with duplicates alone.
import { describe, test } from 'vitest'
import { firesAloneAndResolves, play } from './promtool.ts'
import {
  at,
  BURN,
  HEALTHY_MINUTES,
  NO_TRAFFIC,
  ONLY_DUPLICATES,
  others,
  SWEEPER_ELSEWHERE,
  seriesOf,
  TWO_CLUSTERS,
  USUAL,
  USUAL_SAGAS,
} from './scenarios.ts'

describe('alerts', () => {
  test.each(others)('$alert fires, alone, and resolves', firesAloneAndResolves)

  test.each([
    ['no traffic', NO_TRAFFIC],
    ['usual traffic', USUAL],
    ['duplicates alone', ONLY_DUPLICATES],
    ['usual sagas', USUAL_SAGAS],
    ['sidecars of a namespace whose sweeper is in another one', SWEEPER_ELSEWHERE],
    ['a cluster of three nodes beside one of five', TWO_CLUSTERS],
  ])('%s: no alert fires for hours', async (_, scenario) => {
    const quiet = Object.fromEntries([5, 30, 120, 400].map((minute) => [minute, []]))
    await play(seriesOf(scenario, { bad: {}, minutes: 10 }), quiet)
  })

  test('without a quorum, alerts that it explains stay silent', async () => {
    const bad = {
      [at('fencepost_quorum_reachable_nodes')]: 2,
      [at('fencepost_circuit_breaker_open')]: 1,
      [at('fencepost_sweeper_elected')]: 0,
      [at('fencepost_write_back_pending')]: 12,
    }
    await play(seriesOf(USUAL, { bad, minutes: 30 }), { [HEALTHY_MINUTES + 25]: ['FencepostQuorumLost'] })
  })

  test('a slow burn is noticed by the longest window, after hours', async () => {
    const burning = (share: number, minutes: number) => ({
      bad: { [at('fencepost_quorum_attempts_total', 'result="failure"')]: 600 * share },
      minutes,
    })
    // 0.15 % is 1.5 times the budget: only the three-day window fires, once it has filled and its three hours are over.
    await play(seriesOf(USUAL, burning(0.0015, 600)), {
      [HEALTHY_MINUTES + 60]: ['FencepostQuorumSuccessRateLow'],
      [HEALTHY_MINUTES + 590]: ['FencepostQuorumSuccessRateLow', BURN],
    })
  })
})
