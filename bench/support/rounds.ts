/**
 * Alternating rounds of several contenders on one machine, and their summary.
 *
 * A machine's speed changes from minute to minute, so contenders take turns (A B C A B C …) and only ratios within one
 * run mean anything. Warm-up rounds are not counted. Spread is shown as the smallest and largest round.
 */

export type Contender = {
  readonly name: string
  /** Runs `operations` operations with `concurrency` under way, and returns each one's duration in milliseconds. */
  readonly run: (operations: number, concurrency: number) => Promise<readonly number[]>
  /** Default: this process's. */
  readonly cpuMicros?: CpuMicros
}

/** Microseconds of processor time that a contender used until now. */
export type CpuMicros = () => number

const ownCpuMicros: CpuMicros = () => {
  const { user, system } = process.cpuUsage()
  return user + system
}

export type Measured = {
  readonly name: string
  readonly perSecond: readonly number[]
  readonly cpuMicrosPerOperation: readonly number[]
  /** Of all servers together; empty where it was not read. */
  readonly serverCpuMicrosPerOperation: readonly number[]
  readonly p50Ms: readonly number[]
  readonly p99Ms: readonly number[]
}

export const WARM_UP_ROUNDS = 3
export const ROUNDS = 7

export async function alternate(
  contenders: readonly Contender[],
  operations: number,
  concurrency: number,
  rounds = ROUNDS,
  /** CPU time that the servers have used so far, in microseconds. */
  serverCpuMicros?: () => Promise<number>,
): Promise<readonly Measured[]> {
  const measured = contenders.map(({ name }) => ({
    name,
    perSecond: [] as number[],
    cpuMicrosPerOperation: [] as number[],
    serverCpuMicrosPerOperation: [] as number[],
    p50Ms: [] as number[],
    p99Ms: [] as number[],
  }))
  for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
    for (const [index, contender] of contenders.entries()) {
      const { cpuMicros = ownCpuMicros } = contender
      const serverCpu = await serverCpuMicros?.()
      const cpuBefore = cpuMicros()
      const startedMs = performance.now()
      const durations = await contender.run(operations, concurrency)
      const elapsedMs = performance.now() - startedMs
      const cpu = cpuMicros() - cpuBefore
      const serverCpuAfter = await serverCpuMicros?.()
      if (round < 0) continue
      const sorted = Float64Array.from(durations).sort()
      const into = measured[index]!
      into.perSecond.push((durations.length / elapsedMs) * 1000)
      into.cpuMicrosPerOperation.push(cpu / durations.length)
      if (serverCpu !== undefined && serverCpuAfter !== undefined)
        into.serverCpuMicrosPerOperation.push((serverCpuAfter - serverCpu) / durations.length)
      into.p50Ms.push(sorted[Math.floor(sorted.length * 0.5)] ?? Number.NaN)
      into.p99Ms.push(sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN)
    }
  }
  return measured
}

/** Keeps `concurrency` operations under way until `operations` are done (a closed loop), timing each. */
export async function closedLoop(
  operations: number,
  concurrency: number,
  operation: (index: number) => Promise<void>,
): Promise<readonly number[]> {
  const durations: number[] = []
  let next = 0
  const worker = async () => {
    for (let index = next++; index < operations; index = next++) {
      const startedMs = performance.now()
      await operation(index)
      durations.push(performance.now() - startedMs)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return durations
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** Of paired rounds: ours over theirs, with the smallest and largest pair. */
export function ratio(
  ours: readonly number[],
  theirs: readonly number[],
): { median: number; min: number; max: number } {
  const pairs = ours.map((value, round) => value / (theirs[round] ?? Number.NaN))
  return { median: median(pairs), min: Math.min(...pairs), max: Math.max(...pairs) }
}

/** One row a contender; ratios of the first one over each. */
export function printMeasured(title: string, measured: readonly Measured[]): void {
  const base = measured[0]!
  console.log(
    `\n${title.padEnd(46)} per second   p50 ms   p99 ms  CPU µs  nodes'   ${base.name.split(/[ ,]/)[0]} / it (min–max)`,
  )
  for (const one of measured) {
    const { median: mid, min, max } = ratio(base.perSecond, one.perSecond)
    const cells = [
      median(one.perSecond).toFixed(0).padStart(10),
      median(one.p50Ms).toFixed(2).padStart(8),
      median(one.p99Ms).toFixed(2).padStart(8),
      median(one.cpuMicrosPerOperation).toFixed(0).padStart(7),
      // Of all nodes together, where the benchmark reads it.
      (one.serverCpuMicrosPerOperation.length === 0
        ? '–'
        : median(one.serverCpuMicrosPerOperation).toFixed(0)
      ).padStart(7),
      `   ${mid.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`,
    ]
    console.log(`  ${one.name.padEnd(44)} ${cells.join(' ')}`)
  }
}
