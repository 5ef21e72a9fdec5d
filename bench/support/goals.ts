/**
 * Goals of a benchmark: a ratio of paired rounds, held against a number, and judged only where the noise allows it.
 */
import { readFileSync } from 'node:fs'

export type Goal = {
  readonly name: string
  /** `at most`: small is good, as for processor time. */
  readonly bound: 'at most' | 'at least'
  readonly goal: number
  /** One ratio a round: ours over theirs. */
  readonly pairs: readonly number[]
}

export type Judgement = {
  readonly median: number
  /** The middle half of the rounds. */
  readonly lower: number
  readonly upper: number
  readonly verdict: 'reached' | 'not reached' | 'too noisy to judge'
}

/** The goal must lie outside of the middle half of the rounds: else another run might say the opposite. */
export function judge({ bound, goal, pairs }: Pick<Goal, 'bound' | 'goal' | 'pairs'>): Judgement {
  if (pairs.length === 0) throw new Error('a goal needs at least one round')
  const sorted = [...pairs].sort((one, other) => one - other)
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))]!
  const [lower, median, upper] = [at(0.25), at(0.5), at(0.75)]
  const holds = (value: number) => (bound === 'at most' ? value <= goal : value >= goal)
  const verdict =
    holds(lower) !== holds(upper) ? 'too noisy to judge' : holds(median) ? 'reached' : 'not reached'
  return { lower, median, upper, verdict }
}

export function printGoals(goals: readonly Goal[]): void {
  const width = Math.max(...goals.map(({ name }) => name.length))
  console.log(`\n${'goal'.padEnd(width)}            figure  (middle half)   verdict`)
  for (const goal of goals) {
    const { median, lower, upper, verdict } = judge(goal)
    const sign = goal.bound === 'at most' ? '≤' : '≥'
    console.log(
      `${goal.name.padEnd(width)}  ${sign} ${goal.goal.toFixed(2)} × ${median.toFixed(2)} × (${lower.toFixed(2)}–${upper.toFixed(2)})   ${verdict}`,
    )
  }
}

/** Share of this machine's processor time since `before` that its host gave to others */
export function stolenSince(before: readonly number[]): number {
  const passed = processorTimes().map((ticks, index) => ticks - before[index]!)
  return passed[7]! / passed.reduce((sum, ticks) => sum + ticks, 0)
}

/** user, nice, system, idle, iowait, irq, softirq, steal of all cores, in ticks (proc_stat(5)). */
export function processorTimes(): readonly number[] {
  return readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]!.split(/\s+/).slice(1, 9).map(Number)
}
