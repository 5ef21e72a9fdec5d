/**
 * `npm run test:skew`: this tree beside the version before it, on the same nodes, there and back.
 *
 *   --seed S           the order of the load again (default: new, printed)
 *   --operations N     load in each of the five phases (default 400)
 *   --only NAME        crossings whose name contains it
 *
 * Builds the earlier version into ~/.cache/fencepost once, which needs the history and the npm registry. Leaves history.jsonl in
 * .tmp/skew. Ends with 0 where everything went as the tables say, 1 where something did not, 2 where the load proves nothing.
 */
import { mkdirSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { treeSidecar } from '../support/bundled-sidecar.ts'
import { endInTime } from '../support/end-of-program.ts'
import { compareVersions } from './compare.ts'
import { earlierBuild } from './earlier-version.ts'

const FOLDER = '.tmp/skew'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    operations: { type: 'string', default: '400' },
    only: { type: 'string' },
  },
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
process.exitCode = await main()
endInTime()

async function main(): Promise<number> {
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed)
  const operations = Number(values.operations)
  if (!Number.isInteger(seed) || !(operations > 0))
    throw new RangeError('--seed takes a whole number, --operations a number above 0')
  mkdirSync(FOLDER, { recursive: true })
  const earlier = await earlierBuild()
  console.log(`this tree beside ${earlier.name} (${earlier.commit}), seed ${seed}`)
  const result = await compareVersions({
    earlier,
    ownMain: await treeSidecar(),
    seed,
    operations,
    only: values.only,
    historyFile: `${FOLDER}/history.jsonl`,
    tell: (line) => console.log(line),
  })
  for (const failure of result.failures) console.log(`FAILED ${failure}`)
  for (const why of result.invalid) console.log(`INVALID ${why}`)
  console.log(JSON.stringify(result.counts))
  if (result.failures.length > 0) return 1
  return result.invalid.length > 0 ? 2 : 0
}
