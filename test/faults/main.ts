/**
 * `npm run faults`: real processes, real faults, and a verdict on every promise.
 *
 *   --minutes N     faults begin for so long (default 3)
 *   --seed S        the order and the dice of a run again (default: new, printed)
 *   --only F1,F23   these faults, each once, without the measurements
 *   --combinations  instead: all 243 combinations of nodes that are up, refused and hung
 *   --slow-node     instead: acquisitions while one node is late or silent, beside a healthy cluster (`--rounds N`, default 40)
 *   --mutants       instead: the broken builds, each killed by a checker (`--only NAME` for one)
 *   --svg FILE      where the drawing goes (default .tmp/faults/timeline.svg)
 *
 * Leaves history.jsonl, report.json, report.txt and the drawing in .tmp/faults. Ends with 0 where no promise was broken and every fault
 * bit, 1 where a promise was broken, 2 where the run is invalid, 3 where it could not end by itself.
 */

import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { endInTime } from '../support/end-of-program.ts'
import { reportAsJson, reportAsText } from './report.ts'
import { runFaults } from './run.ts'
import { timeline } from './timeline.ts'

const FOLDER = '.tmp/faults'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string' },
    only: { type: 'string' },
    svg: { type: 'string', default: `${FOLDER}/timeline.svg` },
    mutants: { type: 'boolean', default: false },
    combinations: { type: 'boolean', default: false },
    'slow-node': { type: 'boolean', default: false },
    rounds: { type: 'string', default: '40' },
  },
})

// A signal also ends the started processes: the last resort of test/support/processes.ts runs on `exit` alone.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
process.exitCode = await main()
endInTime()

async function main(): Promise<number> {
  mkdirSync(FOLDER, { recursive: true })
  const only = values.only?.split(',')
  if (values.mutants) return (await import('./kill.ts')).killAll(only)
  if (values.combinations) return (await import('./combinations.ts')).tellCombinations()
  if (values['slow-node']) return (await import('./slow-node.ts')).tellSlowNode(Number(values.rounds))
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed)
  const minutes = Number(values.minutes)
  if (!Number.isInteger(seed) || !(minutes > 0))
    throw new RangeError('--seed takes a whole number, --minutes a number above 0')
  const commit = commitOfThis()
  console.log(`seed ${seed}, commit ${commit}: npm run faults -- --minutes ${minutes} --seed ${seed}`)
  const report = await runFaults({
    seed,
    lastsMs: minutes * 60_000,
    historyFile: `${FOLDER}/history.jsonl`,
    logFolder: FOLDER,
    tell: (line) => console.log(line),
    // A run of chosen faults is a search: the measurements are left out.
    ...(only === undefined ? { quorumLostForMs: minutes >= 8 ? 60_000 : 15_000 } : { only }),
  })
  const text = `npm run faults -- --minutes ${minutes} --seed ${seed}, commit ${commit}\n${reportAsText(report)}`
  writeFileSync(`${FOLDER}/report.json`, reportAsJson(report, commit))
  writeFileSync(`${FOLDER}/report.txt`, `${text}\n`)
  writeFileSync(values.svg, timeline(report))
  console.log(text)
  if (report.violations.length > 0) return 1
  return report.invalid.length > 0 ? 2 : 0
}

/** The commit that was run, or `unknown` where there is no repository. */
function commitOfThis(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], {
      encoding: 'utf8',
      stdio: 'pipe',
    }).trim()
  } catch {
    return 'unknown'
  }
}
