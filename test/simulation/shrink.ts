/**
 * Makes a failing plan smaller: fewer operations and faults, a quieter network, better clocks, as long as it still
 * breaks one of the same promises.
 */

import type { Plan } from './plan.ts'
import { runHistory } from './run.ts'

/** Histories that shrinking may run: about a second. */
const RUNS_MAX = 600

export type Shrunk = { readonly plan: Plan; readonly runs: number }

/** @param broken the invariants that the plan breaks; the smaller one breaks at least one of them */
export async function shrink(plan: Plan, broken: ReadonlySet<string>): Promise<Shrunk> {
  let best = plan
  let runs = 0
  const take = async (candidate: Plan): Promise<boolean> => {
    if (runs >= RUNS_MAX) return false
    runs += 1
    const { violations } = await runHistory(candidate)
    if (!violations.some(({ invariant }) => broken.has(invariant))) return false
    best = candidate
    return true
  }
  for (let before: Plan | undefined; before !== best && runs < RUNS_MAX; ) {
    before = best
    for (const change of SIMPLER) {
      const candidate = change(best)
      if (candidate !== undefined) await take(candidate)
    }
    await fewer('faults', take, () => best)
    await fewer('operations', take, () => best)
  }
  return { plan: best, runs }
}

/** Leaves out halves, then quarters, then single ones. */
async function fewer(
  what: 'faults' | 'operations',
  take: (candidate: Plan) => Promise<boolean>,
  current: () => Plan,
): Promise<void> {
  for (
    let size = Math.ceil(current()[what].length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  ) {
    for (let at = 0; at < current()[what].length; ) {
      const left = current()[what].toSpliced(at, size)
      if (!(await take({ ...current(), [what]: left } as Plan))) at += size
    }
  }
}

type Change = (plan: Plan) => Plan | undefined

const SIMPLER: readonly Change[] = [
  network({ lossRate: 0 }),
  network({ duplicateRate: 0 }),
  network({ lateRate: 0 }),
  network({ jitterMs: 0 }),
  network({ latencyMs: 1 }),
  (plan) => (plan.processes.every(isRight) ? undefined : { ...plan, processes: plan.processes.map(right) }),
  (plan) => (plan.nodes.every(isRight) ? undefined : { ...plan, nodes: plan.nodes.map(right) }),
]

function network(change: Partial<Plan['network']>): Change {
  return (plan) => {
    const same = Object.entries(change).every(
      ([name, value]) => plan.network[name as keyof Plan['network']] === value,
    )
    return same ? undefined : { ...plan, network: { ...plan.network, ...change } }
  }
}

type ClockPlan = Plan['nodes'][number]

function isRight({ ratePpm, wallOffsetMs }: ClockPlan): boolean {
  return ratePpm === 0 && wallOffsetMs === 0
}

function right(): ClockPlan {
  return { ratePpm: 0, wallOffsetMs: 0 }
}
