/**
 * Plans in which operators decide about a record while its holder works, is away, comes back, or has ended.
 *
 * Owns their outline: often two operators at once, of the same mind or not, through processes that each reach other
 * nodes, and that stand still in the midst of a decision.
 */

import type { Dice } from './dice.ts'
import { type Fault, LEASE_MS, type Operation, type Plan } from './plan.ts'
import { cut, request, type Scenario, shuffled } from './scenarios.ts'

type Decision = Extract<Operation, { kind: 'decision' }>

export function operatorsDecide(
  dice: Dice,
  nodeCount: number,
): Scenario & {
  readonly change: Partial<Omit<Plan, 'network'>> & { readonly network: Partial<Plan['network']> }
} {
  // The memory of other processes goes on answering with an outcome that was forgotten: then none is.
  const whole = dice.chance(0.25)
  const workMs = dice.pick([5, 60, 600, 2_500])
  const first = holder(dice, workMs)
  const operations: Operation[] = [first]
  const faults: Fault[] = []
  const away = () => shuffled(dice, nodeCount).slice(0, dice.between(0, (nodeCount - 1) / 2))
  const disturb = (process: number, atMs: number) => {
    if (dice.chance(0.4))
      faults.push(...cut(process, away(), atMs + dice.pick([-5, 10, 40]), dice.pick([40, 300, 1_500])))
    if (dice.chance(0.25))
      faults.push({
        kind: 'process_pause',
        atMs: atMs + dice.fraction() * 80,
        process,
        ms: dice.pick([60, 600, 1_500]),
      })
    if (dice.chance(0.06)) faults.push({ kind: 'process_crash', atMs: atMs + dice.fraction() * 80, process })
  }
  if (dice.chance(0.4)) disturb(0, 50 + workMs * dice.fraction())
  let atMs = 60 + dice.pick([5, workMs, LEASE_MS]) * (0.5 + dice.fraction())
  for (let made = dice.between(1, 3); made > 0; made -= 1) {
    const process = dice.between(0, 2)
    const one = decision(dice, atMs, process, whole)
    operations.push(one)
    disturb(process, atMs + one.thinksMs)
    if (dice.chance(0.5)) {
      const other = (process + dice.between(1, 2)) % 3
      const { decides } = dice.chance(0.5) ? one : decision(dice, atMs, other, whole)
      operations.push({ ...one, process: other, decides, atMs: Math.max(1, atMs + dice.between(-10, 10)) })
      disturb(other, atMs + one.thinksMs)
    }
    for (let retries = dice.between(0, 2); retries > 0; retries -= 1) {
      const askedMs = atMs + dice.pick([10, 80, 500, 1_500]) * dice.fraction()
      operations.push({
        ...request(askedMs, dice.between(0, 2), dice.pick([2, 60, 900])),
        waitMs: dice.pick([0, 0, 500]),
      })
    }
    if (dice.chance(0.4))
      operations.push({
        kind: 'read',
        atMs: atMs + dice.fraction() * 300,
        process: dice.between(0, 2),
        key: 0,
      })
    if (dice.chance(0.1))
      faults.push({
        kind: 'node_flush',
        atMs: atMs + dice.fraction() * 300,
        node: dice.between(0, nodeCount - 1),
      })
    atMs = Math.min(6_500, atMs + dice.pick([30, 400, 1_300]))
  }
  const network = {
    lossRate: dice.pick([0, 0, 0.05, 0.2]),
    duplicateRate: dice.pick([0, 0.2]),
    lateRate: dice.pick([0, 0, 0.1, 0.3]),
    lateMs: dice.pick([30, 100, 1_500]),
  }
  const clocks = [0, 1, 2].map((process) => ({
    ratePpm: dice.between(-1_000, 1_000),
    wallOffsetMs: process === 1 && dice.chance(0.2) ? -1_500 : dice.between(-10, 10),
  }))
  return { operations, faults, change: { whole, processes: clocks, network } }
}

function holder(dice: Dice, workMs: number): Operation {
  if (dice.chance(0.6)) {
    const ends = dice.pick(['answers', 'answers', 'answers', 'fails', 'no_answer', 'lost_before'] as const)
    return { ...request(50, 0, workMs), work: { ends, ms: workMs } }
  }
  const ends = dice.pick([
    'completes',
    'completes_twice',
    'completes_later',
    'releases',
    'vanishes',
    'late_complete',
    'late_release',
  ] as const)
  return { kind: 'reservation', atMs: 50, process: 0, key: 0, content: 0, leaseMs: LEASE_MS, workMs, ends }
}

const DECIDES = [
  'end',
  'end',
  'complete',
  'complete',
  'forget',
  'forget',
  'ask',
  'requeue',
  'discard',
  'discard_completed',
] as const

function decision(dice: Dice, atMs: number, process: number, whole: boolean): Decision {
  const said = dice.pick(['nothing', 'live', 'live', 'completed', 'completed'] as const)
  const says = whole && said === 'completed' ? 'live' : said
  return {
    kind: 'decision',
    atMs,
    process,
    key: 0,
    decides: dice.pick(DECIDES),
    ...(says === 'nothing' ? {} : { says }),
    expects: dice.chance(0.6),
    thinksMs: dice.pick([0, 0, 5, 200, 1_200]),
    ...(dice.chance(0.08) ? { dry: true } : {}),
  }
}
