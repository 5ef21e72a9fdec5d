/**
 * `npm run release -- dry-run`: does what .github/workflows/release.yml does, in its order, as far as it goes without a network outside of
 * this machine, and says of each step what was done and what was left, and why.
 *
 * Owns that nothing is left silently. The scripts are those of the workflow; what the programs in them do here is in programs.ts, what its actions do
 * in actions.ts, and a command that is in neither is an error. What is released is this folder as it stands, in a
 * clone of its own, with the changelog dated and the tag set. What is published goes to a registry on loopback, signed with a key of this run.
 *
 * The packages of the lock file have to be installed; programs are fetched once, as for tests; the image takes packages from npm's cache, where
 * it has them.
 *
 * Usage: npm run release -- dry-run [--twice] [--arm64]
 * With `--twice` the image is built a second time, and has to be the same; with `--arm64` it is built for arm64, too, which needs the npm registry
 * once for its Node.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { provideArm64Libraries } from './docker.ts'
import { refusals } from './refusals.ts'
import { openRunner, unknownIn } from './runner.ts'
import { openStage, type Row, type Wanted } from './stage.ts'
import { stepsOf } from './workflow.ts'

export type StepReport = { readonly job: string; readonly step: string; readonly rows: readonly Row[] }
/** The last step, which the workflow does not have. */
export const REFUSALS = { job: 'after the workflow', step: 'What was signed and then changed is refused' }

/** @throws at the first step that does not work */
export async function dryRun(say: (line: string) => void, wanted: Wanted): Promise<readonly StepReport[]> {
  const steps = stepsOf()
  const unknown = unknownIn(steps)
  if (unknown.length > 0)
    throw new Error(
      `the dry run does not know what these steps do: say it in scripts/dry-run/, or why they are left\n${unknown.join('\n')}`,
    )
  if (wanted.arm64) provideArm64Libraries()
  await using stage = await openStage(wanted)
  await using runner = await openRunner(stage)
  const reports: StepReport[] = []
  let since = performance.now()
  const report = (job: string, step: string, rows: readonly Row[]) => {
    reports.push({ job, step, rows })
    const seconds = ((performance.now() - since) / 1_000).toFixed(1)
    since = performance.now()
    say(`${job}: ${step} (${seconds} s)`)
    for (const { outcome, said } of rows) say(`  ${outcome}  ${said}`)
  }
  for (const step of steps) report(step.job, step.name, await runner.run(step))
  // The job `page` is the one that has signed the checksums.
  report(REFUSALS.job, REFUSALS.step, await refusals(stage, join(stage.folder, 'jobs/page')))
  return reports
}

const FLAG = { type: 'boolean', default: false } as const

if (import.meta.main) {
  try {
    const { values } = parseArgs({ options: { twice: FLAG, arm64: FLAG } })
    const rows = (await dryRun(console.log, values)).flatMap((report) => report.rows)
    const count = (outcome: Row['outcome']) => rows.filter((row) => row.outcome === outcome).length
    console.log(`${count('done')} done, ${count('left')} left, each with its reason; nothing was published`)
  } catch (error) {
    console.error((error as Error).message)
    process.exitCode = 1
  }
}
