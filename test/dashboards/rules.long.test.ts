// The alerts, played by promtool: each fires and resolves; none fires without traffic or with duplicates alone.
import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { firesAloneAndResolves, play, podsNamedIn, RULES } from './promtool.ts'
import {
  at,
  BURN,
  HEALTHY_MINUTES,
  INCIDENTS,
  MOSTLY_NEW,
  NO_TRAFFIC,
  ONLY_DUPLICATES,
  others,
  SWEEPER_ELSEWHERE,
  SYNTHETIC,
  seriesOf,
  TWO_CLUSTERS,
  UNRELATED_REDIS,
  USUAL,
  USUAL_SAGAS,
} from './scenarios.ts'

const { groups } = parse(await readFile(RULES, 'utf8')) as {
  groups: { rules: { alert?: string; labels?: { severity?: string } }[] }[]
}
const PAGES = new Set(
  groups
    .flatMap(({ rules }) => rules)
    .flatMap(({ alert, labels }) => (alert !== undefined && labels?.severity === 'critical' ? [alert] : [])),
)

describe('alerts', () => {
  test.each(others)('$alert fires, alone, and resolves', firesAloneAndResolves)

  test.each([
    ['no traffic', NO_TRAFFIC],
    ['usual traffic', USUAL],
    ['duplicates alone', ONLY_DUPLICATES],
    ['usual sagas', USUAL_SAGAS],
    ['sidecars of a namespace whose sweeper is in another one', SWEEPER_ELSEWHERE],
    ['the flood of a probe', SYNTHETIC],
    ['a cluster of three nodes beside one of five', TWO_CLUSTERS],
    ['an unrelated Redis that evicts and is fragmented', UNRELATED_REDIS],
    ['nineteen of twenty requests are new, as always', MOSTLY_NEW],
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

  test('every page names the pods that are concerned', async () => {
    const pages = INCIDENTS.filter(({ alert }) => PAGES.has(alert))
    const named = await podsNamedIn(pages)
    expect(Object.fromEntries(named)).toEqual(Object.fromEntries([...PAGES].map((alert) => [alert, 'pod-1'])))
  }, 300_000)
})
