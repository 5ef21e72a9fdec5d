/**
 * `npm run spec -- traces`: histories of the simulation, held to the model step by step.
 *
 *   --histories N      so many (default 100), each from its own seed, beginning with --from (default 1)
 *   --mutant NAME      of a broken build (test/simulation/mutants.ts): it must not be accepted
 *
 * Ends with 0 where every step was one of the model, with 1 where one was not. The last line is one JSON object for
 * programs.
 */

import { parseArgs } from 'node:util'
import { breakWith } from '../simulation/mutants.ts'
import { rejectedOf } from './accepted.ts'

Error.stackTraceLimit = 0

const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    mutant: { type: 'string' },
  },
})
if (values.mutant !== undefined) breakWith(values.mutant)
// Loaded only now, because a mutant is made while its module is loaded.
const { planOf } = await import('../simulation/plan.ts')
const { record } = await import('./recorder.ts')
const { driverOf } = await import('./trace.ts')

let [steps, keys, histories, beyond] = [0, 0, 0, 0]
let rejected: { readonly seed: number; readonly property: string; readonly step: string } | undefined
const first = Number(values.from)
for (let seed = first; seed < first + Number(values.histories) && rejected === undefined; seed += 1) {
  const plan = planOf(seed)
  // An operator may replace a chosen outcome, and says so; the model knows no such step, and is not asked about it.
  if (plan.operations.some(({ kind }) => kind === 'decision')) continue
  const recorded = await record(plan)
  histories += 1
  // When more memory was lost than the promises allow for, they do not hold.
  if (recorded.beyond) {
    beyond += 1
    continue
  }
  const driver = driverOf(recorded)
  steps += driver.lines.length
  keys += driver.keys
  const found = await rejectedOf(driver.lines, recorded.nodeCount)
  if (found === undefined) continue
  const { number, property, step } = found
  rejected = { seed, property, step }
  console.log(`seed ${seed}: step ${number} breaks ${property}: ${step}`)
}
console.log(JSON.stringify({ histories, beyond, keys, steps, rejected: rejected ?? null }))
process.exitCode = rejected === undefined ? 0 : 1
