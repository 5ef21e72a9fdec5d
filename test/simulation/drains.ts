/**
 * Plans of restarts: nodes restart one after another with their data, as machines are drained.
 *
 * Owns the outlines: which claims are held when the first one goes, how a disk syncs, which volume is set back or
 * empty. A disk that syncs periodically loses the last acknowledged writes; one that syncs each write loses none.
 */

import type { Dice } from './dice.ts'
import { type Fault, LEASE_MS, type Operation } from './plan.ts'
import { cut, request, type Scenario, shuffled } from './scenarios.ts'

export type Drain = {
  readonly kind: 'node_drain'
  readonly atMs: number
  readonly node: number
  /** Until the new process is there; 0: its data were flushed, and the process goes on. */
  readonly ms: number
  /** Writes of this many ms before its end are lost; Infinity: it comes back empty. */
  readonly losesMs: number
  /** Its volume was set back: even a node that syncs each write has lost that much. */
  readonly setBack: boolean
  /** Its clock differs by this much: it was started on another machine. */
  readonly stepMs: number
}

/** No older answer counts, in these plans as in production; here too a fraction of the quarantine. */
export const SIMULATED_ANSWER_MAX_AGE_MS = 200

/** Between two heartbeats of a node. */
export const SIMULATED_HEARTBEAT_MS = 100

/** The most that a disk loses that does not sync each write. */
const LOSES_MAX_MS = 400

/**
 * A volume set back by less than a few heartbeats looks as if the lost writes never happened. A lost message costs a call its
 * deadline, as long as a heartbeat lasts: ten heartbeats allow for several of them.
 */
const SET_BACK_MIN_MS = 1_000

export type Drains = {
  /** Per node: whether it syncs each write before its answer. */
  readonly durable: readonly boolean[]
}

export type DrainScenario = Scenario & { readonly drains: Drains }

export function drainScenario(dice: Dice, nodeCount: number): DrainScenario {
  const policy = dice.pick(['always', 'everysec', 'mixed', 'mixed'] as const)
  const durable = Array.from({ length: nodeCount }, () =>
    policy === 'mixed' ? dice.chance(0.5) : policy === 'always',
  )
  return dice.chance(0.35)
    ? claimInFlightWhileANodeIsDrained(dice, nodeCount, durable)
    : outcomeOfTheSmallestMajority(dice, nodeCount, durable)
}

/** Its nodes, or all, are drained one by one; duplicates use a process that sees at most one of its nodes. */
function outcomeOfTheSmallestMajority(
  dice: Dice,
  nodeCount: number,
  durable: readonly boolean[],
): DrainScenario {
  const order = shuffled(dice, nodeCount)
  const needed = (nodeCount + 1) / 2
  const holders = order.slice(0, needed)
  const askedMs = dice.pick([900, 1_900])
  const workMs = dice.pick([5, 5, 40, 600])
  const faults: Fault[] = cut(0, order.slice(needed), askedMs - 100, workMs + 150)
  const drained = dice.chance(0.6) ? holders : order
  const paceMs = dice.pick([60, 250, 700, 1_300])
  const setBack = dice.chance(0.4) ? dice.pick(drained) : undefined
  const wiped = dice.chance(0.25) ? dice.pick(drained) : undefined
  const moved = dice.chance(0.3)
  const flushed = dice.chance(0.5)
  let atMs = askedMs + workMs + 10 + dice.fraction() * 250
  for (const node of drained) {
    const losesMs = durable[node] === true ? 0 : dice.fraction() * LOSES_MAX_MS
    faults.push({
      kind: 'node_drain',
      atMs,
      node,
      ms: node === wiped && flushed ? 0 : dice.pick([1, 50, 300, 300, 2_500]),
      losesMs:
        node === wiped
          ? Number.POSITIVE_INFINITY
          : node === setBack
            ? Math.max(SET_BACK_MIN_MS, atMs - askedMs + dice.between(0, 250))
            : losesMs,
      setBack: node === setBack,
      stepMs: moved ? dice.between(-15, 15) : 0,
    })
    atMs += paceMs * (0.5 + dice.fraction())
  }
  if (dice.chance(0.15))
    faults.push({ kind: 'rejoin_crash', atMs: askedMs + workMs + dice.fraction() * 2_000 })
  const operations: Operation[] = [request(askedMs, 0, workMs)]
  const seen = dice.pick(holders)
  const hidden = holders.filter((node) => node !== seen)
  let laterMs = askedMs + workMs + 300 + dice.fraction() * 1_500
  for (let later = 0; later < 5; later += 1) {
    const process = dice.between(1, 2)
    operations.push(request(laterMs, process, dice.pick([2, 300])))
    faults.push(...cut(process, dice.chance(0.7) ? hidden : [dice.pick(order)], laterMs - 20, 400))
    laterMs += dice.pick([100, 500, LEASE_MS + 200])
  }
  return { operations, faults, drains: { durable } }
}

/** A node answers a claim, forgets it, and is back before the others learn of that claim, which counts its vote. */
function claimInFlightWhileANodeIsDrained(
  dice: Dice,
  nodeCount: number,
  durable: readonly boolean[],
): DrainScenario {
  const order = shuffled(dice, nodeCount)
  const needed = (nodeCount + 1) / 2
  const voters = order.slice(0, needed)
  const forgetful = voters[0] ?? 0
  const askedMs = 900
  const workMs = dice.between(400, 900)
  const faults: Fault[] = [
    ...cut(0, order.slice(needed), askedMs - 10, 3_000),
    ...cut(1, voters.slice(1), askedMs - 10, 3_000),
    {
      kind: 'node_drain',
      atMs: askedMs + 1 + dice.fraction() * 8,
      node: forgetful,
      ms: 1,
      losesMs: dice.between(20, 120),
      setBack: false,
      stepMs: 0,
    },
  ]
  const operations = [request(askedMs, 0, workMs)]
  for (let later = 0; later < 4; later += 1)
    operations.push(request(askedMs + 20 + dice.fraction() * workMs, 1, dice.pick([2, 200])))
  const lossy = durable.map((one, node) => one && node !== forgetful)
  return { operations, faults, late: { lateRate: 0.6, lateMs: 45 }, drains: { durable: lossy } }
}
