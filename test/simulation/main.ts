/**
 * `npm run simulate`: many histories from seeds, or one of them again.
 *
 *   --histories N      so many (default 20000), each from its own seed, beginning with --from (default 1)
 *   --workers N        over so many threads (default: one a core, at most 4); the report is the same whatever their number
 *   --failures N       goes on until so many histories broke a promise, and names them all (default 1)
 *   --minutes M        ends after so long, with what was run until then
 *   --seed N           one history, with everything that happened in it
 *   --plan FILE        one history of a plan kept as JSON: what a failing campaign prints
 *   --only NAME        every plan follows this situation (`situations.ts`)
 *   --mutant NAME      with one rule of the protocol taken out (`mutants.ts`): a promise is to be found broken
 *
 * Ends with 0 where no promise was broken and everything that must be seen was seen, with 1 where a promise was broken,
 * with 2 where the campaign is invalid. The last line is one JSON object for programs.
 */
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import type { Failure, Report } from './campaign.ts'
import type { Violation } from './history.ts'
import { breakWith } from './mutants.ts'
import type { Plan } from './plan.ts'

// A vote against is an exception to redlock: its stack would take most of the time of a history.
Error.stackTraceLimit = 0

const WORKERS_MAX = 4

const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '20000' },
    from: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(Math.min(WORKERS_MAX, availableParallelism())) },
    failures: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    seed: { type: 'string' },
    plan: { type: 'string' },
    mutant: { type: 'string' },
    only: { type: 'string' },
  },
})

if (values.mutant !== undefined) breakWith(values.mutant)
// Loaded only now, because a module is mutated while it loads.
const { campaign, unseen } = await import('./campaign.ts')
const { SIGHTS } = await import('./history.ts')
const { planOf } = await import('./plan.ts')
const { runHistory } = await import('./run.ts')
const { shrink } = await import('./shrink.ts')

process.exitCode = await main()

async function main(): Promise<number> {
  if (values.plan !== undefined) return again(JSON.parse(readFileSync(values.plan, 'utf8')) as Plan)
  if (values.seed !== undefined) return again(planOf(whole('seed', values.seed), values.only))
  return many(whole('from', values.from), whole('histories', values.histories))
}

async function again(plan: Plan): Promise<number> {
  const { trace, violations, digest } = await runHistory(plan, true)
  for (const line of trace) console.log(line)
  tellViolations(violations)
  console.log(JSON.stringify({ seed: plan.seed, digest, broken: namesOf(violations) }))
  return violations.length === 0 ? 0 : 1
}

async function many(from: number, histories: number): Promise<number> {
  const withinMs = values.minutes === undefined ? Number.POSITIVE_INFINITY : Number(values.minutes) * 60_000
  const workers = Math.max(1, whole('workers', values.workers))
  const { mutant, only } = values
  const report = await campaign({
    from,
    histories,
    workers,
    mutant,
    only,
    withinMs,
    failuresMax: Math.max(1, whole('failures', values.failures)),
    onProgress: tellProgress,
  })
  for (const sight of SIGHTS) console.log(`${sight.padEnd(30)} ${report.seen.get(sight) ?? 0}`)
  const { failures, tookMs } = report
  const [first] = failures
  const never = first === undefined && only === undefined ? unseen(report) : []
  for (const { seed, violations } of failures) {
    console.log(
      `seed ${seed}: npm run simulate -- --seed ${seed}${only === undefined ? '' : ` --only ${only}`}`,
    )
    tellViolations(violations)
  }
  if (first !== undefined) await tellSmallest(first)
  else if (never.length > 0) console.log(`invalid: never seen: ${never.join(', ')}`)
  console.log(
    JSON.stringify({
      from,
      histories: report.histories,
      tookMs: Math.round(tookMs),
      seed: first?.seed ?? null,
      seeds: failures.map(({ seed }) => seed),
      broken: namesOf(first?.violations ?? []),
      unseen: never,
    }),
  )
  return first !== undefined ? 1 : never.length > 0 ? 2 : 0
}

/** The plan of a failure, made as small as it can be while the same promises are broken. */
async function tellSmallest({ seed, violations }: Failure): Promise<void> {
  const { only } = values
  const { plan, runs } = await shrink(planOf(seed, only), new Set(namesOf(violations)))
  const { operations, faults } = planOf(seed, only)
  console.log(`${JSON.stringify(plan, undefined, 1)}
above: seed ${seed}, made smaller in ${runs} runs, from ${operations.length} operations and ${faults.length} faults to \
${plan.operations.length} and ${plan.faults.length}; keep it in a file and replay it with --plan`)
}

function tellViolations(violations: readonly Violation[]): void {
  for (const { invariant, atMs, detail } of violations) {
    console.log(`${invariant} is broken at ${atMs.toFixed(2)} ms: ${detail}`)
  }
}

function namesOf(violations: readonly Violation[]): readonly string[] {
  return [...new Set(violations.map(({ invariant }) => invariant))]
}

function tellProgress({ histories, failures, tookMs }: Report): void {
  const broken = failures.length === 0 ? '' : `, broken by ${failures.map(({ seed }) => seed).join(', ')}`
  console.error(`${histories} histories, ${(histories / (tookMs / 1_000)).toFixed(0)} a second${broken}`)
}

function whole(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new RangeError(`--${name} ${text}: a whole number is needed`)
  return Number(text)
}
