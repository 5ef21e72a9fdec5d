/** Cases of exhaustion as tests: a tenth of the load for a few seconds; memory stays, no other client is refused. */
import { expect, test } from 'vitest'
import type { Case } from './cases.ts'
import { runCase } from './run.ts'

/** Two above the limits of time of the run (5 s), after which slow clients are to be cut. */
const SECONDS = 7

export function testsOfCases(cases: readonly Case[]): void {
  test.each(cases.map((one) => [one.name, one] as const))(
    '%s: memory and descriptors stay, and other requests are answered',
    async (name, one) => {
      const report = await runCase(one, Math.ceil(one.count / 10), SECONDS)
      expect(report.otherRequests).toBeGreaterThan(20)
      expect(report.rssGrowth).toBeLessThan(1.3)
      expect(report.descriptorGrowth).toBeLessThan(1.3)
      if (name === 'idle') expect(report.held).toEqual({ connections: 1_000 })
      // All of them wait, and one of them was executed.
      if (name === 'waiters') {
        expect(report.held).toEqual({ waiting: 500, answered: 0 })
        expect(report.executionsOfHeld).toBe(1)
      }
      if (name === 'slow') expect(report.held.cut).toBeGreaterThan(0)
    },
  )
}
