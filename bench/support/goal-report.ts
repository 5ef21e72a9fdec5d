/**
 * The one form in which a benchmark states its goals: goal, figure, spread and verdict of each row, and what ran beside it.
 *
 *     const machine = watchMachine()
 *     …
 *     printGoals('naive', { 'processor-32': ratios, … }, machine)
 */
import { GOALS, type Goal, type GoalBench, type GoalName, type GoalsOf } from './goals.ts'
import { besideText, type MachineWatch } from './machine.ts'
import { judge } from './verdict.ts'

/** One figure a round, in the goal's unit. None where this run did not measure it: the row is printed all the same. */
export type Figures<B extends GoalBench> = Readonly<Record<GoalsOf<B>, readonly number[]>>

export function printGoals<B extends GoalBench>(_bench: B, figures: Figures<B>, machine: MachineWatch): void {
  const rows = (Object.entries(figures) as [GoalName, readonly number[]][]).map(([name, rounds]) =>
    goalRow(GOALS[name], rounds),
  )
  console.log(`\n${tableOf([HEAD, ...rows])}\n${besideText(machine.beside())}`)
}

const HEAD = ['row', 'goal', 'figure', 'middle half of rounds', 'verdict'] as const

export function goalRow(goal: Goal, rounds: readonly number[]): readonly string[] {
  const { median, lower, upper, verdict } = judge(goal, rounds)
  const shown = (value: number) => (Number.isNaN(value) ? '–' : digits(value))
  return [
    goal.what,
    goalText(goal),
    shown(median),
    rounds.length === 0 ? '–' : `${shown(lower)}–${shown(upper)} of ${rounds.length}`,
    verdict.kind === 'not judged' ? `not judged: ${verdict.because}` : verdict.kind,
  ]
}

/** `≤ 0.65 ×` */
export function goalText({ bound, goal, unit }: Goal): string {
  return `${bound === 'at most' ? '≤' : '≥'} ${goal} ${unit}`
}

function tableOf(rows: readonly (readonly string[])[]): string {
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Three figures, and never fewer than stand before the point. */
function digits(value: number): string {
  const whole = Math.abs(value) >= 100
  return whole ? value.toFixed(0) : String(Number(value.toPrecision(3)))
}
