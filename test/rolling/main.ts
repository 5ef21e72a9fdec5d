/**
 * `npm run campaign -- rolling`: five nodes get another image one after another under load, with fencepost's default
 * leases; takes six minutes, nearly all of them quarantines.
 *
 *   --quick     short leases: half a minute, as the tests do it
 *
 * The last line is JSON; ends with 1 where a request failed or was executed twice.
 */
import { parseArgs } from 'node:util'
import { endInTime } from '../support/end-of-program.ts'
import { roll } from './run.ts'
import { PATIENT, QUICK } from './settings.ts'

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const report = await roll({
  settings: values.quick ? QUICK : PATIENT,
  votesWithinMs: 600_000,
  tell: (line) => console.log(line),
})
const { failures, ...counts } = report.sent
for (const failure of failures.slice(0, 20)) console.log(`FAILED ${failure}`)
for (const key of report.executedTwice.slice(0, 20)) console.log(`NOT ONCE ${key}`)
console.log(
  JSON.stringify({
    ...counts,
    failed: failures.length,
    executed: report.executed,
    executedTwice: report.executedTwice.length,
    rolledInMs: report.rolledInMs.map(Math.round),
    lastsMs: Math.round(report.lastsMs),
  }),
)
process.exitCode = failures.length === 0 && report.executedTwice.length === 0 ? 0 : 1
endInTime()
