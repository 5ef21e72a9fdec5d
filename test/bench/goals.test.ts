/** The goals of the benchmarks: one table, one printed form, and the page that lists them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { goalRow } from '../../bench/support/goal-report.ts'
import { GOALS } from '../../bench/support/goals.ts'
import { besideOf, besideText, ticksOf } from '../../bench/support/machine.ts'
import { GROUPS } from '../../scripts/start.ts'

const root = join(import.meta.dirname, '../..')
const goals = Object.values(GOALS)
const benches = [...new Set(goals.map(({ bench }) => bench))]

describe('the table', () => {
  test('each row belongs to a benchmark that prints all of its rows', () => {
    // That no row is left out is a matter of types: `printGoals` takes a figure for each.
    for (const bench of benches)
      expect(readFileSync(join(root, GROUPS.bench!.programs[bench] ?? 'missing'), 'utf8')).toMatch(
        new RegExp(`printGoals\\(\\s*'${bench}',\\s*\\{`),
      )
  })
})

describe('the printed form', () => {
  test('a row is what is measured, its goal, its figure, the spread and the verdict', () => {
    expect(goalRow(GOALS['processor-lone'], [1.7, 1.65, 1.752])).toEqual([
      "the sidecar's processor time, unique keys, one in flight, over naive",
      '≤ 0.8 ×',
      '1.7',
      '1.7–1.75 of 3',
      'not reached',
    ])
  })

  test('a row that was not measured says so', () => {
    expect(goalRow(GOALS['cycle-lone-p50'], []).slice(2)).toEqual([
      '–',
      '–',
      'not judged: 0 rounds, at least 3 are needed',
    ])
  })
})

describe('what ran beside', () => {
  const before = ticksOf('cpu  100 0 50 800 50 0 0 10 0 0\ncpu0 1 2 3')
  const after = ticksOf('cpu  180 0 70 850 60 0 0 50 0 0\ncpu0 1 2 3')

  test('a machine’s time is that of its host, of other programs, of the benchmark, and idle', () => {
    // 200 ticks passed: 40 stolen, 60 idle, and 100 busy, 70 of which (0.7 s) were the benchmark's.
    expect(besideOf(before, after, 700_000)).toEqual({ stolen: 0.2, idle: 0.3, others: 0.15 })
  })

  test('rounding of the kernel’s ticks makes no share negative', () => {
    expect(besideOf(before, after, 2_000_000).others).toBe(0)
    expect(besideOf(after, after, 0)).toEqual({ stolen: 0, idle: 0, others: 0 })
  })

  test('the line names steal', () => {
    expect(besideText({ stolen: 0.2, idle: 0.3, others: 0.15 })).toMatch(
      /its host took 20\.0 % \(steal\) and programs beside the benchmark 15\.0 %; 30\.0 % was idle; load average/,
    )
  })
})
