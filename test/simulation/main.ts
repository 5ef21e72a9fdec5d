/**
 * `npm run simulate`: many histories from seeds, or one of them again.
 *
 *   --histories N      so many (default 20000), each from its own seed, beginning with --from (default 1)
 *   --minutes M        ends after so long, with what was run until then
 *   --seed N           one history, with everything that happened in it
 *
 * Ends with 0 where no promise was broken and everything that must be seen was seen, with 1 where a promise was broken,
 * with 2 where the campaign is invalid. The last line is one JSON object for programs.
 */
import { parseArgs } from 'node:util'
import { campaign, type Report, unseen } from './campaign.ts'
import { SIGHTS } from './history.ts'
import { planOf } from './plan.ts'
import { runHistory } from './run.ts'

// A vote against is an exception to redlock: its stack is what a history would spend most of its time on.
Error.stackTraceLimit = 0

const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '20000' },
    from: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    seed: { type: 'string' },
  },
})

process.exitCode =
  values.seed === undefined
    ? await many(whole('from', values.from), whole('histories', values.histories))
    : await again(whole('seed', values.seed))

async function again(seed: number): Promise<number> {
  const { trace, violations, digest } = await runHistory(planOf(seed), true)
  for (const line of trace) console.log(line)
  for (const { invariant, atMs, detail } of violations) {
    console.log(`${invariant} is broken at ${atMs.toFixed(2)} ms: ${detail}`)
  }
  console.log(JSON.stringify({ seed, digest, violations: violations.length }))
  return violations.length === 0 ? 0 : 1
}

async function many(from: number, histories: number): Promise<number> {
  const withinMs = values.minutes === undefined ? Number.POSITIVE_INFINITY : Number(values.minutes) * 60_000
  const report = await campaign({ from, histories, withinMs, onProgress: tellProgress })
  for (const sight of SIGHTS) console.log(`${sight.padEnd(30)} ${report.seen.get(sight) ?? 0}`)
  const { failure, tookMs } = report
  const never = failure === undefined ? unseen(report) : []
  if (failure !== undefined) {
    for (const { invariant, atMs, detail } of failure.violations) {
      console.log(`${invariant} is broken at ${atMs.toFixed(2)} ms: ${detail}`)
    }
    console.log(`seed ${failure.seed}: npm run simulate -- --seed ${failure.seed}`)
  } else if (never.length > 0) {
    console.log(`invalid: never seen: ${never.join(', ')}`)
  }
  console.log(
    JSON.stringify({
      from,
      histories: report.histories,
      tookMs: Math.round(tookMs),
      seed: failure?.seed ?? null,
      broken: [...new Set(failure?.violations.map(({ invariant }) => invariant))],
      unseen: never,
    }),
  )
  return failure !== undefined ? 1 : never.length > 0 ? 2 : 0
}

function tellProgress({ histories, tookMs }: Report): void {
  console.error(`${histories} histories, ${(tookMs / histories).toFixed(2)} ms each`)
}

function whole(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new RangeError(`--${name} ${text}: a whole number is needed`)
  return Number(text)
}
