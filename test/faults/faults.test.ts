// A short fault run with every build: some of each kind of fault, in an order from a seed, on real processes.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { seedOfRun } from '../support/seeded-random.ts'
import { runCombinations } from './combinations.ts'
import { unanswered } from './experiments.ts'
import { ALL_FAULTS, faultsNamed } from './faults.ts'
import { MUTANTS } from './mutants.ts'
import { reportAsText } from './report.ts'
import { runFaults } from './run.ts'

/** One or two of each kind: nodes, their memory, clocks and data; network; sidecars; application and clients. */
const SHORT = [
  'F1',
  'F3',
  'F5',
  'F11b',
  'F11c',
  'F14a',
  'F16a',
  'F18',
  'F22e',
  'F23',
  'F30',
  'F31',
  'F32',
  'F35',
  'F39b',
  'F41',
  'F42',
  'F45',
] as const

test('no promise is broken, and every fault bites', { timeout: 400_000 }, async () => {
  const historyFile = join(mkdtempSync(join(tmpdir(), 'fencepost-history-')), 'history.jsonl')
  const report = await runFaults({ seed: seedOfRun('faults'), lastsMs: 60_000, only: SHORT, historyFile })
  console.info(reportAsText(report))
  expect(report.violations, `the history is in ${historyFile}`).toEqual([])
  expect(report.invalid).toEqual([])
  expect(report.porcupine?.keys).toBeGreaterThan(100)
  rmSync(dirname(historyFile), { recursive: true })
  expect(report.history.faults.map(({ id }) => id).sort()).toEqual([...SHORT].sort())
})

test('each of the 243 combinations of nodes that are up, refused and hung is answered', {
  timeout: 400_000,
}, async () => {
  const combinations = await runCombinations()
  expect(combinations).toHaveLength(243)
  expect(unanswered(combinations)).toEqual([])
})

test('docs/internals/faults.md lists what clients see of all 45 faults, each with a command that runs what there is of it', () => {
  const page = sectionOf('What clients see')
  const rows = [...page.matchAll(/^\| (F\d+) \|.*\| `(.+)` \|$/gm)].map(([, id, command]) => ({
    id,
    command,
  }))
  expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: 45 }, (_, at) => `F${at + 1}`))
  for (const { id, command } of rows) {
    if (id === 'F36') expect(command).toBe('npm run campaign -- order-saga --broker rabbitmq')
    else expect(command).toBe(`npm run faults -- --only ${id}`)
    if (id !== 'F36') expect(faultsNamed([id ?? '']).length).toBeGreaterThan(0)
  }
})

test('docs/internals/faults.md lists exactly the faults and the broken builds that there are', () => {
  const listed = [...sectionOf('The faults').matchAll(/^\| (F\d+[a-f]?) \|/gm)].map(([, id]) => id)
  expect(listed.toSorted()).toEqual([...ALL_FAULTS.map(({ id }) => id), 'F36'].toSorted())
  const mutants = [...sectionOf('The broken builds').matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, name]) => name)
  expect(mutants.toSorted()).toEqual(MUTANTS.map(({ name }) => name).toSorted())
})

/** Of docs/internals/faults.md. */
function sectionOf(heading: string): string {
  const page = readFileSync('docs/internals/faults.md', 'utf8')
  return page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''
}
