// The alerts, played by promtool: each fires and resolves; none fires without traffic or with duplicates alone.
import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { firesAloneAndResolves, play, podsNamedIn, RULES } from './promtool.ts'
import {
  AFTERWARDS,
  at,
  BETWEEN_PODS,
  BURN,
  HEALTHY_MINUTES,
  INCIDENTS,
  MOSTLY_NEW,
  NO_TRAFFIC,
  ONLY_DUPLICATES,
  OVER_DAYS,
  others,
  SWEEPER_ELSEWHERE,
  SYNTHETIC,
  seriesOf,
  TWO_CLUSTERS,
  UNRELATED_REDIS,
  USUAL,
  USUAL_SAGAS,
} from './scenarios.ts'

type Groups = { groups: { rules: { alert?: string; labels?: { severity?: string } }[] }[] }
const files = await Promise.all(RULES.map((file) => readFile(file, 'utf8')))
const groups = files.flatMap((file) => (parse(file) as Groups).groups)
/** But for the one that compares several pods, which `rules.test.ts` plays. */
const PAGES = new Set(
  groups
    .flatMap(({ rules }) => rules)
    .flatMap(({ alert, labels }) => (alert !== undefined && labels?.severity === 'critical' ? [alert] : []))
    .filter((alert) => alert !== BETWEEN_PODS),
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
    await play(seriesOf(USUAL, { bad, minutes: 30 }), {
      [HEALTHY_MINUTES + 25]: ['FencepostQuorumLost', AFTERWARDS],
    })
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

  test('where nineteen of twenty requests are always new, it is noticed that nothing is found any more', async () => {
    const [hits, misses] = Object.keys(MOSTLY_NEW).filter((series) => series.includes('lookups_total')) as [
      string,
      string,
    ]
    const gone = { bad: { [hits]: 0, [misses]: 600 }, minutes: 40 }
    await play(seriesOf(MOSTLY_NEW, gone), { 119: [], 150: ['FencepostMissRatioSpike'], 175: [] })
  })

  describe('a node that fills up', () => {
    /** Hours of a node's memory: filled in its first day, then a wave over the day, then growth by `aDay` from day 4 on. */
    const hours = (aDay: number) =>
      Array.from({ length: 24 * 7 }, (_, hour) => {
        const wave = 0.05 * Math.sin((hour / 24) * 2 * Math.PI)
        return Math.min(hour / 24, 1) * 0.5 + wave + (Math.max(0, hour - 4 * 24) / 24) * aDay
      })
    const growing = (aDay: number) => [
      { series: 'fencepost_build_info{namespace="shop",job="fencepost",pod="pod-1"}', values: `1x${24 * 7}` },
      {
        series:
          'fencepost_redis_node_memory_used_ratio{namespace="shop",job="fencepost",pod="pod-1",node="redis-0"}',
        values: hours(aDay).join(' '),
      },
    ]
    const everySixHours = (firingFromHour: number) =>
      Object.fromEntries(
        Array.from({ length: 4 * 7 - 1 }, (_, index) => 6 * (index + 1)).map((hour) => [
          hour * 60,
          hour >= firingFromHour ? [OVER_DAYS] : [],
        ]),
      )

    test('is no alert where memory only comes and goes with the hours, from its first day on', async () => {
      await play(growing(0), everySixHours(Number.POSITIVE_INFINITY), '1h')
    })

    test('is an alert days before the node is full', async () => {
      const values = hours(0.09)
      const forecast = (hour: number) => values[hour]! + 3 * (values[hour]! - values[hour - 24]!)
      const reached = values.findIndex((_, hour) => hour > 48 && forecast(hour) > 0.9)
      expect(values[reached]).toBeLessThan(0.7)
      // Over the wave of the day it comes and goes before it stays.
      const at = { [(reached - 1) * 60]: [], [(reached + 2) * 60]: [OVER_DAYS] }
      await play(growing(0.09), at, '1h')
    })
  })

  test('every page names the pods that are concerned', async () => {
    const pages = INCIDENTS.filter(({ alert }) => PAGES.has(alert))
    const named = await podsNamedIn(pages)
    expect(Object.fromEntries(named)).toEqual(Object.fromEntries([...PAGES].map((alert) => [alert, 'pod-1'])))
  }, 300_000)
})
