/** A run of named faults as a test: seeded, judged, and each fault must have bitten. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import { seedOfRun } from '../support/seeded-random.ts'
import { reportAsText } from './report.ts'
import { runFaults } from './run.ts'

export async function breaksNoPromise(only: readonly string[]): Promise<void> {
  const historyFile = join(mkdtempSync(join(tmpdir(), 'fencepost-history-')), 'history.jsonl')
  const report = await runFaults({ seed: seedOfRun('faults'), lastsMs: 60_000, only, historyFile })
  console.info(reportAsText(report))
  expect(report.violations, `the history is in ${historyFile}`).toEqual([])
  expect(report.invalid).toEqual([])
  // There was traffic.
  expect(report.porcupine?.keys).toBeGreaterThan(100)
  rmSync(dirname(historyFile), { recursive: true })
  expect(report.history.faults.map(({ id }) => id).sort()).toEqual([...only].sort())
}
