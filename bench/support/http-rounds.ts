/**
 * Alternating rounds of HTTP load over several contenders (A B C A B C …), with the processor time of the processes of
 * each. Only ratios of paired rounds mean anything on a shared machine.
 */
import { cpuSecondsOf, type Job, type JobResult, LATE_SHARE_MAX, type Load } from './load.ts'
import { median, ratio } from './rounds.ts'

export type HttpContender = {
  readonly name: string
  readonly url: string
  /** Processes whose time is counted as the contender's: proxy or sidecar, and beside it its nodes. */
  readonly pids: readonly number[]
  readonly nodePids?: readonly number[]
  readonly job: Pick<Job, 'method' | 'path' | 'bodyBytes' | 'key'>
  /** The status that every answer must have: a proxy that refuses is fast. */
  readonly status: string
}

export type HttpMeasured = {
  readonly name: string
  readonly rounds: readonly (JobResult & { readonly cpuMicros: number; readonly nodeCpuMicros: number })[]
}

export async function alternateHttp(
  load: Load,
  contenders: readonly HttpContender[],
  shape: Job['load'],
  { rounds = 5, warmUps = 2 } = {},
): Promise<readonly HttpMeasured[]> {
  const measured = contenders.map(({ name }) => ({ name, rounds: [] as HttpMeasured['rounds'][number][] }))
  for (let round = -warmUps; round < rounds; round += 1) {
    for (const [index, contender] of contenders.entries()) {
      const before = cpuSecondsOf(contender.pids)
      const nodesBefore = cpuSecondsOf(contender.nodePids ?? [])
      const result = await load.run({ url: contender.url, ...contender.job, load: shape })
      check(contender, result)
      const micros = (seconds: number) => (seconds * 1e6) / result.requests
      if (round < 0) continue
      measured[index]!.rounds.push({
        ...result,
        cpuMicros: micros(cpuSecondsOf(contender.pids) - before),
        nodeCpuMicros: micros(cpuSecondsOf(contender.nodePids ?? []) - nodesBefore),
      })
    }
  }
  return measured
}

function check({ name, status }: HttpContender, { requests, statuses }: JobResult): void {
  if (statuses[status] !== requests)
    throw new Error(`${name}: answers other than ${status}: ${JSON.stringify(statuses)}`)
}

/** Prints one row a contender; ratios are over the contender called `base`. */
export function printHttp(title: string, measured: readonly HttpMeasured[], base: string): void {
  const of = measured.find(({ name }) => name === base)
  if (of === undefined) throw new Error(`there is no contender ${base}`)
  console.log(
    `\n${title.padEnd(38)} per second   p50 ms   p99 ms p99.9 ms   CPU µs  node µs   × ${base} (min–max)`,
  )
  for (const { name, rounds } of measured) {
    const late = Math.max(...rounds.map((round) => round.lateShare))
    const mid = (pick: (round: HttpMeasured['rounds'][number]) => number) => median(rounds.map(pick))
    const paired = ratio(
      rounds.map((round) => round.perSecond),
      of.rounds.map((round) => round.perSecond),
    )
    const cells = [
      mid((one) => one.perSecond)
        .toFixed(0)
        .padStart(10),
      mid((one) => one.p50Ms)
        .toFixed(2)
        .padStart(8),
      mid((one) => one.p99Ms)
        .toFixed(2)
        .padStart(8),
      mid((one) => one.p999Ms)
        .toFixed(2)
        .padStart(8),
      mid((one) => one.cpuMicros)
        .toFixed(0)
        .padStart(8),
      mid((one) => one.nodeCpuMicros)
        .toFixed(0)
        .padStart(8),
      `   ${paired.median.toFixed(2)} (${paired.min.toFixed(2)}–${paired.max.toFixed(2)})`,
      // The generator itself fell behind, and measured partly itself.
      ...(late > LATE_SHARE_MAX ? [`  void: ${(late * 100).toFixed(0)} % sent late`] : []),
    ]
    console.log(`  ${name.padEnd(36)} ${cells.join(' ')}`)
  }
}
