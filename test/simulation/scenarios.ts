/**
 * Plans that are not left to chance alone: the few situations in which a rarely needed rule decides.
 *
 * Owns their outlines; partitions and times are drawn. In most of them it matters which nodes a claim or an outcome
 * reached, so the network is quiet and partitions do the work.
 */

import type { Dice } from './dice.ts'
import { type Fault, LEASE_MS, type Operation } from './plan.ts'

export type Scenario = {
  readonly operations: readonly Operation[]
  readonly faults: readonly Fault[]
  /** Messages that come this much later; default: none. */
  readonly late?: { readonly lateRate: number; readonly lateMs: number }
}

type Outline = (dice: Dice, nodeCount: number) => Scenario

/** Every scenario has three processes. */
export const SCENARIO_PROCESSES = 3

export const SCENARIOS: readonly Outline[] = [
  outcomeOnAMinority,
  claimInFlightWhileANodeForgets,
  forgetsAgainWhileRejoining,
  copiedOutcomeBelowALaterClaim,
  laterRoundWithASmallerToken,
  workWithoutAQuorum,
]

/** An outcome reaches fewer than a majority; other claimants, each cut off from other nodes, meet it or don't. */
function outcomeOnAMinority(dice: Dice, nodeCount: number): Scenario {
  const order = shuffled(dice, nodeCount)
  const reached = dice.between(1, (nodeCount - 1) / 2)
  const workMs = dice.between(20, 200)
  const cutMs = 50 + workMs / 2
  const faults: Fault[] = cut(0, order.slice(reached), cutMs, 3_000)
  faults.push(endOf(dice, 0, 50 + workMs + 40))
  const operations = [request(50, 0, workMs)]
  let atMs = 50 + LEASE_MS + dice.between(20, 1_000)
  for (let later = 0; later < dice.between(2, 5); later += 1) {
    const process = dice.between(1, 2)
    const laterWorkMs = dice.pick([2, 20, 100, 1_500])
    operations.push(request(atMs, process, laterWorkMs))
    const hidden = shuffled(dice, nodeCount).slice(0, dice.between(0, (nodeCount - 1) / 2))
    faults.push(...cut(process, hidden, atMs - 5, laterWorkMs + 100))
    if (dice.chance(0.4)) {
      const unreached = shuffled(dice, nodeCount).slice(0, dice.between(1, nodeCount - 1))
      faults.push(...cut(process, unreached, atMs + laterWorkMs / 2 + 10, 2_000))
    }
    atMs += dice.pick([5, 60, LEASE_MS + 200, LEASE_MS * 2.5])
  }
  return { operations, faults }
}

/** A node votes for a claim, forgets it, and gets another claim while the first still counts its vote. */
function claimInFlightWhileANodeForgets(dice: Dice, nodeCount: number): Scenario {
  const order = shuffled(dice, nodeCount)
  const needed = (nodeCount + 1) / 2
  const voters = order.slice(0, needed)
  const others = order.slice(needed)
  const forgetful = voters[0] ?? 0
  const atMs = 50
  const workMs = dice.between(400, 900)
  const faults: Fault[] = [
    ...cut(0, others, atMs - 10, 3_000),
    ...cut(1, voters.slice(1), atMs - 10, 3_000),
    dice.chance(0.5)
      ? { kind: 'node_flush', atMs: atMs + dice.fraction() * 40, node: forgetful }
      : { kind: 'node_crash', atMs: atMs + dice.fraction() * 40, node: forgetful, ms: 1, memory: 0 },
  ]
  // Late to one voter: granted there after the records of the others were copied.
  const late = voters[1]
  if (late !== undefined)
    faults.push({ kind: 'node_pause', atMs: atMs - 1, node: late, ms: dice.between(5, 45) })
  const operations = [request(atMs, 0, workMs)]
  for (let later = 0; later < 4; later += 1) {
    operations.push(request(atMs + 20 + dice.fraction() * workMs, 1, dice.pick([2, 200])))
  }
  return { operations, faults }
}

/** An outcome has the smallest majority, and one of its nodes forgets, and forgets again just before it votes. */
function forgetsAgainWhileRejoining(dice: Dice, nodeCount: number): Scenario {
  const order = shuffled(dice, nodeCount)
  const needed = (nodeCount + 1) / 2
  const holders = order.slice(0, needed)
  const forgetful = holders[0] ?? 0
  const firstMs = 200
  const joinedMs = firstMs + 1_567
  const faults: Fault[] = [
    ...cut(0, order.slice(needed), 30, 600),
    { kind: 'node_flush', atMs: firstMs, node: forgetful },
    { kind: 'node_flush', atMs: joinedMs + dice.fraction() * 60, node: forgetful },
    ...cut(1, holders.slice(1), joinedMs, 5_000),
  ]
  const operations = [request(50, 0, 5)]
  for (let later = 0; later < 3; later += 1) {
    operations.push(request(joinedMs + 100 + dice.fraction() * 1_400, 1, 2))
  }
  return { operations, faults }
}

/** One node has an outcome, a later claim missed it, and a node of that claim forgets and gets copies of both. */
function copiedOutcomeBelowALaterClaim(dice: Dice): Scenario {
  const [holder = 0, forgetful = 1, third = 2] = shuffled(dice, 3)
  const workMs = dice.between(20, 60)
  const takeoverMs = 50 + LEASE_MS + dice.between(50, 300)
  const longMs = dice.between(2_300, 3_000)
  const faults: Fault[] = [
    ...cut(0, [forgetful, third], 50 + workMs / 2, 3_000),
    endOf(dice, 0, 50 + workMs + 30),
    ...cut(1, [holder], takeoverMs - 10, 6_000),
    { kind: 'node_crash', atMs: takeoverMs + dice.between(20, 200), node: forgetful, ms: 1, memory: 0 },
  ]
  const operations = [request(50, 0, workMs), request(takeoverMs, 1, longMs)]
  for (let later = 0; later < 3; later += 1) {
    operations.push(request(takeoverMs + 1_600 + dice.fraction() * 1_000, 2, 2))
  }
  return { operations, faults }
}

/** A claim needs a node whose clock is behind, and so a smaller token than its first round, whose messages come late. */
function laterRoundWithASmallerToken(dice: Dice, nodeCount: number): Scenario {
  const behind = shuffled(dice, nodeCount).slice(0, (nodeCount - 1) / 2)
  const faults: Fault[] = behind.map((node) => ({ kind: 'node_step', atMs: 1, node, ms: -30_000 }))
  const operations = [request(50, 0, dice.pick([300, 800]))]
  for (let later = 0; later < 4; later += 1) {
    operations.push(request(80 + dice.fraction() * 800, dice.between(1, 2), dice.pick([2, 200])))
  }
  return { operations, faults, late: { lateRate: 0.35, lateMs: dice.pick([80, 300]) } }
}

/** Processes lose the quorum, each for its own while, and execute without it what a route allows. */
function workWithoutAQuorum(dice: Dice, nodeCount: number): Scenario {
  const onQuorumLoss = dice.pick(['local', 'local', 'fail-open'] as const)
  const operations: Operation[] = []
  const faults: Fault[] = []
  for (const process of [0, 1, 2]) {
    const lost = shuffled(dice, nodeCount).slice(0, dice.between((nodeCount + 1) / 2, nodeCount))
    const atMs = 30 + dice.fraction() * 1_500
    faults.push(...cut(process, lost, atMs, dice.pick([600, 2_500])))
    for (let count = dice.between(1, 3); count > 0; count -= 1) {
      const work = {
        ends: dice.pick(['answers', 'answers', 'fails', 'no_answer'] as const),
        ms: dice.pick([2, 200]),
      }
      const content = dice.chance(0.9) ? 0 : 1
      operations.push({
        ...request(atMs + 20 + dice.fraction() * 1_800, process, 0),
        ...{ onQuorumLoss, work, content },
      } as Operation)
    }
    if (dice.chance(0.3)) faults.push(endOf(dice, process, atMs + dice.fraction() * 3_000))
  }
  return { operations, faults }
}

/**
 * An outcome, or a claim at work, has the smallest majority; the clock of one of its nodes jumps ahead, and other
 * claimants reach that node and not the rest.
 */
export function nodeOfAnOutcomeLeaps(dice: Dice, nodeCount: number): Scenario {
  const order = shuffled(dice, nodeCount)
  const needed = (nodeCount + 1) / 2
  const holders = order.slice(0, needed)
  const workMs = dice.pick([5, 5, 2_500])
  const leapMs = 1_500 + dice.fraction() * 1_500
  const faults: Fault[] = [
    ...cut(0, order.slice(needed), 1_000, 600),
    leapOf(dice, leapMs, holders[0] ?? 0),
    ...cut(1, holders.slice(1), leapMs - 20, dice.pick([400, 1_500, 4_000])),
  ]
  if (dice.chance(0.3))
    faults.push({ kind: 'process_crash', atMs: leapMs + dice.fraction() * 400, process: 1 })
  const operations = [request(1_050, 0, workMs)]
  for (let later = 0; later < 4; later += 1) {
    operations.push(
      request(
        leapMs + dice.pick([20, 300, 3_000]) * dice.fraction(),
        dice.between(1, 2),
        dice.pick([2, 200]),
      ),
    )
  }
  return { operations, faults }
}

/**
 * An outcome has the smallest majority of five; one of its nodes forgets, the clock of another jumps ahead just before
 * its records are copied to the first, and the third is suspended until both have rejoined.
 */
export function sourceOfCopyingLeaps(dice: Dice): Scenario {
  const [forgetful = 0, leaping = 1, still = 2, ...others] = shuffled(dice, 5)
  const flushMs = 3_000
  const copyingMs = flushMs + 1_567
  const faults: Fault[] = [
    ...cut(0, others, 1_000, 600),
    { kind: 'node_flush', atMs: flushMs, node: forgetful },
    { kind: 'node_pause', atMs: copyingMs - 150, node: still, ms: 4_500 },
    { kind: 'node_leap', atMs: copyingMs - dice.fraction() * 20, node: leaping, ms: 70_000 },
  ]
  const operations = [request(1_050, 0, 5)]
  for (let later = 0; later < 5; later += 1)
    operations.push(request(copyingMs + 2_000 + dice.fraction() * 2_000, dice.between(1, 2), 2))
  return { operations, faults }
}

/** Less than a lease, longer than any lease, or longer than any retention. */
export function leapOf(dice: Dice, atMs: number, node: number): Fault {
  return { kind: 'node_leap', atMs, node, ms: dice.pick([300, 2_000, 70_000, 70_000]) }
}

export function request(atMs: number, process: number, ms: number): Extract<Operation, { kind: 'request' }> {
  return {
    kind: 'request',
    atMs,
    process,
    key: 0,
    content: 0,
    leaseMs: LEASE_MS,
    waitMs: 0,
    takeover: 'reexecute',
    onQuorumLoss: 'fail-closed',
    work: { ends: 'answers', ms },
  }
}

export function cut(process: number, nodes: readonly number[], atMs: number, ms: number): Fault[] {
  return nodes.map((node) => ({ kind: 'partition', atMs: Math.max(0, atMs), process, node, ms, way: 'both' }))
}

/** The process dies, is stopped for long, or goes on. */
export function endOf(dice: Dice, process: number, atMs: number): Fault {
  if (dice.chance(0.5)) return { kind: 'process_crash', atMs, process }
  return { kind: 'process_pause', atMs, process, ms: dice.pick([10, 3_000]) }
}

export function shuffled(dice: Dice, count: number): number[] {
  const numbers = Array.from({ length: count }, (_, index) => index)
  for (let at = count - 1; at > 0; at -= 1) {
    const other = dice.between(0, at)
    const swapped = numbers[at] ?? at
    numbers[at] = numbers[other] ?? other
    numbers[other] = swapped
  }
  return numbers
}
