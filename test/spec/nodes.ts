/**
 * `npm run spec -- nodes`: one run on real nodes with faults, held to the model step by step (`fault-run.ts`).
 *
 *   --mutant NAME      the nodes are sent a script with one rule taken out (test/faults/mutants.ts): it must not be accepted
 *
 * Ends with 0 where every step was one of the model, with 1 where one was not. The last line is one JSON object for
 * programs.
 */

import { registerHooks } from 'node:module'
import { parseArgs } from 'node:util'
import { MUTANTS } from '../faults/mutants.ts'
import { endInTime } from '../support/end-of-program.ts'
import { rejectedOf } from './accepted.ts'

const { values } = parseArgs({ options: { mutant: { type: 'string' } } })
let wasBroken = false
if (values.mutant !== undefined) breakScript(values.mutant)
// Loaded only now, because the script is broken while its module is loaded.
const { faultRun } = await import('./fault-run.ts')
const { driverOf } = await import('./trace.ts')
if (values.mutant !== undefined && !wasBroken)
  throw new Error('the script was loaded before it could be broken')

const { recorded, leftOut, done } = await faultRun()
const driver = driverOf(recorded)
const rejected = await rejectedOf(driver.lines, recorded.nodeCount)
if (rejected !== undefined)
  console.log(`step ${rejected.number} breaks ${rejected.property}: ${rejected.step}`)
console.log(
  JSON.stringify({
    keys: driver.keys,
    leftOut,
    steps: driver.lines.length,
    done,
    rejected: rejected ?? null,
  }),
)
process.exitCode = rejected === undefined ? 0 : 1
endInTime()

/** The script is assembled from several files, and changed there. */
function breakScript(name: string): void {
  const mutant = MUTANTS.find((one) => one.name === name)
  if (mutant === undefined || !mutant.file.endsWith('.lua')) throw new RangeError(`no broken script ${name}`)
  const url = new URL('../../src/redis/scripts.ts', import.meta.url).href
  const [from, to] = [JSON.stringify(mutant.from), JSON.stringify(mutant.to)]
  const joined = "].join('\\n')"
  registerHooks({
    load: (loaded, context, nextLoad) => {
      const result = nextLoad(loaded, context)
      if (loaded !== url) return result
      const source = String(result.source)
      if (source.split(joined).length !== 2) throw new Error('the script is put together in another way')
      wasBroken = true
      const broken = `((whole) => {
        if (whole.split(${from}).length !== 2) throw new Error('the rule does not stand once in the script')
        return whole.replace(${from}, () => ${to})
      })([`
      return {
        ...result,
        source: source
          .replace('const source = [', () => `const source = ${broken}`)
          .replace(joined, () => `${joined})`),
      }
    },
  })
}
