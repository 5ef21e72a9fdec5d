/**
 * Plans beyond requests of a single key: several records at once, contents under several keys, several groups.
 *
 * Owns their outlines, and their other changes of the world. As in `scenarios.ts`, processes and times are drawn.
 */

import type { Dice } from './dice.ts'
import { NARROW_PLACES } from './narrow-places.ts'
import { operatorsDecide } from './operators.ts'
import { type Fault, LEASE_MS, LONGEST_LEASE_MS, type Operation, type Plan } from './plan.ts'
import { cut, endOf, request, SCENARIO_PROCESSES, type Scenario, shuffled } from './scenarios.ts'

export type Situation = (
  dice: Dice,
  nodeCount: number,
) => Scenario & {
  /** The differences to the plan of a scenario. */
  readonly change?: Partial<Omit<Plan, 'network'>> & { readonly network?: Partial<Plan['network']> }
}

export const SITUATIONS: Readonly<Record<string, Situation>> = {
  sessions: severalRecordsAtOnce,
  entities: requestsOfOneEntity,
  retention: retentionEnds,
  ...NARROW_PLACES,
}

/** Chosen by seeds of their own, the first of them that is: with each that came all other plans stayed as they were. */
export const APART: readonly {
  /** Of the dice that choose it. */
  readonly stream: string
  /** Share of the plans. */
  readonly rate: number
  readonly situations: Readonly<Record<string, Situation>>
}[] = [
  { stream: 'operators', rate: 0.04, situations: { decisions: operatorsDecide } },
  { stream: 'relearnt', rate: 0.01, situations: { relearnt: relearntAtItsEnd } },
  { stream: 'adoptedLate', rate: 0.01, situations: { adoptedLate: adoptedWhenItIsOver } },
  { stream: 'rewound', rate: 0.01, situations: { rewound: setBackWhileItWaits } },
  { stream: 'evicting', rate: 0.01, situations: { evicting: evictsWhileItWaits } },
]

/** Processes that inspect their nodes every second send more messages than everything else together. */
export const SELDOM: ReadonlySet<string> = new Set(['wiped', 'firstStart'])

const SOME_NETWORK = (dice: Dice) => ({
  lossRate: dice.pick([0, 0, 0.05, 0.2]),
  duplicateRate: dice.pick([0, 0.2]),
  lateRate: dice.pick([0, 0, 0.1]),
  lateMs: dice.pick([100, 1_500]),
})

/** Sessions reserve overlapping records, of one group or of two; some reserve again what they hold. */
function severalRecordsAtOnce(dice: Dice, nodeCount: number) {
  const groups = dice.chance(0.6) ? 2 : 1
  const operations: Operation[] = []
  const faults: Fault[] = []
  let atMs = 50
  for (let made = dice.between(2, 5); made > 0; made -= 1) {
    const [first = 0, second = 1] = shuffled(dice, 3)
    const keys = dice.chance(0.8) ? [first, second] : [first]
    const entities = dice.chance(0.4) ? [dice.between(0, 1)] : []
    const process = dice.between(0, SCENARIO_PROCESSES - 1)
    const session: Operation = {
      kind: 'session',
      atMs,
      process,
      keys,
      entities,
      content: 0,
      session: made,
      leaseMs: LEASE_MS,
      workMs: dice.pick([2, 20, 300, 900, 2_200]),
      servedBy: dice.between(0, SCENARIO_PROCESSES - 1),
      ends: dice.pick(['completes', 'completes', 'completes_again', 'releases', 'vanishes'] as const),
    }
    operations.push(session)
    if (dice.chance(0.3))
      operations.push({
        ...session,
        atMs: atMs + dice.fraction() * 300,
        process: (process + 1) % SCENARIO_PROCESSES,
      })
    if (dice.chance(0.4)) operations.push(request(atMs + dice.fraction() * 40, dice.between(0, 2), 20))
    const nodes = shuffled(dice, nodeCount * groups).slice(0, dice.between(0, (nodeCount - 1) / 2))
    if (dice.chance(0.5))
      faults.push(...cut(process, nodes, atMs + dice.fraction() * 100, dice.pick([60, 800])))
    if (dice.chance(0.2)) faults.push(endOf(dice, process, atMs + dice.fraction() * 1_200))
    atMs += dice.pick([2, 30, 700, 1_500])
  }
  return { operations, faults, change: { groups, network: SOME_NETWORK(dice) } }
}

/** Different requests work on the same entities, one after the other. */
function requestsOfOneEntity(dice: Dice, nodeCount: number) {
  const groups = dice.chance(0.4) ? 2 : 1
  const operations: Operation[] = []
  const faults: Fault[] = []
  let atMs = 50
  for (let made = dice.between(3, 7); made > 0; made -= 1) {
    const process = dice.between(0, SCENARIO_PROCESSES - 1)
    operations.push({
      ...request(atMs, process, dice.pick([2, 20, 300, 1_400])),
      key: dice.between(0, 3),
      waitMs: dice.pick([0, 200, 1_500]),
      entities: dice.chance(0.3) ? [0, 1] : [dice.between(0, 1)],
    })
    const nodes = shuffled(dice, nodeCount * groups).slice(0, dice.between(0, (nodeCount - 1) / 2))
    if (dice.chance(0.4))
      faults.push(...cut(process, nodes, atMs + dice.fraction() * 100, dice.pick([60, 800])))
    if (dice.chance(0.2)) faults.push(endOf(dice, process, atMs + dice.fraction() * 1_200))
    atMs += dice.pick([1, 5, 30, 700])
  }
  return { operations, faults, change: { groups, network: SOME_NETWORK(dice) } }
}

/** A retention ends while its key is claimed: the key starts over, on some nodes a little sooner than on others. */
function retentionEnds(dice: Dice, nodeCount: number) {
  // Longer than any message is late: what a holder sent for a claim of before the retention has arrived when it is over.
  const retentionMs = dice.pick([1_600, 2_000])
  const operations: Operation[] = []
  const faults: Fault[] = []
  let atMs = 50
  while (atMs < 8_000) {
    const process = dice.between(0, SCENARIO_PROCESSES - 1)
    const workMs = dice.pick([2, 2, 30, 700, 1_500])
    operations.push(
      dice.chance(0.15)
        ? { kind: 'read', atMs, process, key: 0 }
        : { ...request(atMs, process, workMs), waitMs: dice.pick([0, 0, 1_500]) },
    )
    // While one is answered with what is about to be forgotten, another comes, whose clock may be behind.
    if (dice.chance(0.4)) {
      const other = (process + 1) % SCENARIO_PROCESSES
      operations.push(request(atMs + dice.fraction() * 20, other, dice.pick([2, 300, 1_500])))
    }
    const nodes = shuffled(dice, nodeCount).slice(0, dice.between(0, (nodeCount - 1) / 2))
    if (dice.chance(0.4))
      faults.push(...cut(process, nodes, atMs + dice.fraction() * workMs, dice.pick([60, 800])))
    // The retention is short enough for a suspension to outlast it.
    if (dice.chance(0.1))
      faults.push({ kind: 'process_crash', atMs: atMs + dice.fraction() * 1_200, process })
    if (dice.chance(0.1))
      faults.push({ kind: 'node_flush', atMs: atMs + 20, node: dice.between(0, nodeCount - 1) })
    // Mostly just before or just after the one before is forgotten.
    atMs += dice.pick([5, 300, retentionMs - 15, retentionMs, retentionMs + 15]) + dice.fraction() * 30
  }
  // The memory of a process may keep an outcome a moment longer than the nodes.
  return { operations, faults, change: { retentionMs, whole: false, network: SOME_NETWORK(dice) } }
}

/**
 * Nodes forget one after the other around the end of a retention, while the outcome is repeated, and learn it from each
 * other again. The request is carried out once more; when that outcome is over as well, it is repeated a last time.
 */
function relearntAtItsEnd(dice: Dice, nodeCount: number) {
  const retentionMs = 1_600
  const endMs = 56 + retentionMs
  const workMs = 1_500
  const [first = 0, second = 1, third = 2] = shuffled(dice, nodeCount)
  // Mostly one client asks again through one process; another one asks beside it.
  const [one = 0, other = 1, last = 2] = shuffled(dice, SCENARIO_PROCESSES)
  const about = (atMs: number, spreadMs: number) => atMs + (dice.fraction() - 0.5) * spreadMs
  const flushed = (atMs: number, node: number): Fault => ({ kind: 'node_flush', atMs, node })
  const againMs = about(endMs + 310, dice.pick([100, 500]))
  const overMs = againMs + workMs + retentionMs
  const operations = [
    request(50, last, 2),
    request(about(endMs - 4, dice.pick([6, 6, 60, 900])), one, workMs),
    request(againMs, one, workMs),
    request(againMs + dice.fraction() * 20, other, 2),
    request(overMs + dice.pick([20, 300, 600]) * dice.fraction(), dice.chance(0.8) ? one : last, 2),
  ]
  const faults = [
    flushed(about(67, dice.pick([6, 6, 100])), first),
    flushed(about(endMs + 60, 160), second),
    ...(dice.chance(0.3) ? [flushed(endMs + 2_000 * dice.fraction(), third)] : []),
  ]
  const network = { latencyMs: 0.3, jitterMs: 2, lossRate: 0, duplicateRate: 0, lateRate: 0 }
  return { operations, faults, change: { retentionMs, whole: false, network } }
}

/**
 * Fewer than a majority have an outcome, at two tokens. Just before its end a third process gets the promises to adopt it, and what it
 * writes is late: the key has started over by then, under the smaller token of a process whose clock is behind.
 */
function adoptedWhenItIsOver(dice: Dice, nodeCount: number) {
  const retentionMs = 2_600
  const [workMs, adoptsMs] = [60, 1_100]
  const endMs = 50 + workMs + 3 + retentionMs
  const order = shuffled(dice, nodeCount)
  const first = order.slice(0, (nodeCount - 1) / 2)
  const shown = order.slice(0, (nodeCount + 1) / 2)
  const others = order.slice(shown.length)
  // Its promises are over when it writes, or would be if they ended with the outcome.
  const veryLate = dice.chance(0.5)
  const againMs = endMs - (veryLate ? dice.between(0, 30) : dice.between(200, 600))
  const arrivesMs = veryLate
    ? againMs + LEASE_MS + dice.between(70, 200)
    : Math.min(endMs + dice.between(20, 150), againMs + 900)
  const behindMs = veryLate ? arrivesMs - dice.between(5, 30) : endMs + dice.between(2, 20)
  const faults: Fault[] = [
    ...cut(0, order.slice(first.length), 80, 3_000),
    { kind: 'process_crash', atMs: 150, process: 0 },
    ...cut(1, [...first, ...others], adoptsMs + 1.5, 3_000),
    { kind: 'process_crash', atMs: adoptsMs + 10, process: 1 },
    ...(veryLate ? cut(2, others, againMs - 20, 3_000) : []),
    ...order.map(
      (node): Fault => ({
        kind: 'delay',
        atMs: againMs + 1.5,
        process: 2,
        node,
        ms: arrivesMs - againMs - 1.5,
      }),
    ),
    ...cut(1, dice.chance(0.7) ? shown.slice(0, 1) : [], arrivesMs + 1, 2_000),
  ]
  const operations = [
    request(50, 0, workMs),
    request(adoptsMs, 1, 2),
    request(againMs, 2, 2),
    request(behindMs, 0, veryLate ? 700 : 2),
    request(arrivesMs + dice.between(3, 150), 1, 2),
  ]
  const processes = [0, 1, 2].map((process) => ({
    ratePpm: dice.between(-1_000, 1_000),
    wallOffsetMs: process === 0 ? -3_000 : dice.between(-10, 10),
  }))
  const network = { latencyMs: 1, jitterMs: 0.2, lossRate: 0, duplicateRate: 0, lateRate: 0 }
  return { operations, faults, change: { retentionMs, whole: false, processes, network } }
}

function setBackWhileItWaits(dice: Dice, nodeCount: number) {
  return losesWhileItWaits(dice, nodeCount, (atMs, node) => ({
    kind: 'node_rewind',
    atMs,
    node,
    ms: dice.pick([3, 10, 30, 200]) * dice.fraction(),
  }))
}

function evictsWhileItWaits(dice: Dice, nodeCount: number) {
  return losesWhileItWaits(dice, nodeCount, (atMs, node) => ({
    kind: 'node_evict',
    atMs,
    node,
    chance: dice.pick([0.5, 1]),
  }))
}

/**
 * One of the smallest majority that has an outcome forgets it, and loses it once more about when the others have told it again. Who asks
 * later sees only that one of them.
 */
function losesWhileItWaits(dice: Dice, nodeCount: number, loss: (atMs: number, node: number) => Fault) {
  const order = shuffled(dice, nodeCount)
  const holders = order.slice(0, (nodeCount + 1) / 2)
  const forgetful = holders[0] ?? 0
  const askedMs = 300
  const workMs = dice.pick([2, 40])
  const faults = cut(0, order.slice(holders.length), askedMs - 100, workMs + 150)
  const forgetsMs = askedMs + workMs + 100 + dice.fraction() * 200
  faults.push(
    dice.chance(0.5)
      ? { kind: 'node_flush', atMs: forgetsMs, node: forgetful }
      : { kind: 'node_crash', atMs: forgetsMs, node: forgetful, ms: 1, memory: 0 },
  )
  // It is told records once no lease of before can run any more.
  const toldMs = forgetsMs + LONGEST_LEASE_MS + 60
  for (let times = dice.between(1, 3); times > 0; times -= 1)
    faults.push(loss(toldMs + dice.fraction() * dice.pick([40, 150]), forgetful))
  const operations = [request(askedMs, 0, workMs)]
  let laterMs = toldMs + 100 + dice.fraction() * 600
  for (let later = 0; later < 4; later += 1) {
    const process = dice.between(1, 2)
    operations.push(request(laterMs, process, dice.pick([2, 300])))
    faults.push(...cut(process, holders.slice(1), laterMs - 20, 400))
    laterMs += dice.pick([100, 500, LEASE_MS + 200])
  }
  return { operations, faults }
}
