/**
 * The plan of one history: its operations and its faults, each with a time. Pure data, drawn from a seed.
 *
 * Owns the mixture: how often each fault happens, how close together. A plan is all that a run needs besides the code,
 * so a failing one can be made smaller (`shrink.ts`) and kept. Bounds on memory loss (assumption A1) are not drawn
 * here: the world refuses a loss that would break them, unless the plan allows it (`overwhelm`).
 */

import { type Dice, streamOf } from './dice.ts'
import { type Drain, type Drains, drainScenario } from './drains.ts'
import {
  leapOf,
  nodeOfAnOutcomeLeaps,
  SCENARIO_PROCESSES,
  SCENARIOS,
  type Scenario,
  sourceOfCopyingLeaps,
} from './scenarios.ts'
import { APART, SELDOM, SITUATIONS, type Situation } from './situations.ts'

/** The record whose holder is the sweeper. */
export const LEADERSHIP = 'dedup::office:sweeper'

export const LEASE_MS = 1_000
/** The longest lease of any claim, for which a quarantine waits. */
export const LONGEST_LEASE_MS = 1_500
export const RETENTION_MS = 60_000
/** 5 % of the lease, the most that the start-up relations allow. */
export const NODE_DEADLINE_MS = 50
export const MAX_TOKEN_AHEAD_MS = 50
/** No faults from here on. */
export const HEAL_MS = 9_000

/** What the simulated application does with one request. */
export type Work = {
  readonly ends: 'answers' | 'fails' | 'never_sent' | 'no_answer' | 'lost_before'
  readonly ms: number
}

export type Operation =
  | {
      readonly kind: 'request'
      readonly atMs: number
      readonly process: number
      readonly key: number
      /** The body that the client sends under the key. */
      readonly content: number
      readonly leaseMs: number
      readonly waitMs: number
      readonly takeover: 'reexecute' | 'indeterminate'
      readonly onQuorumLoss: 'fail-closed' | 'fail-open' | 'local'
      readonly work: Work
      /** The same content under another key must not be executed (mode `both`). */
      readonly marked?: true
      /** Requests of one entity are executed one after the other. */
      readonly entities?: readonly number[]
    }
  | {
      /** A client of the reservation API: claims, keeps, writes with its token while it holds, and ends as planned. */
      readonly kind: 'reservation'
      readonly atMs: number
      readonly process: number
      readonly key: number
      readonly content: number
      readonly leaseMs: number
      readonly workMs: number
      readonly ends:
        | 'completes'
        | 'completes_twice'
        | 'completes_later'
        | 'releases'
        | 'vanishes'
        | 'late_complete'
        | 'late_release'
    }
  | {
      /** A session that reserves several records as one; any process serves its later calls. */
      readonly kind: 'session'
      readonly atMs: number
      readonly process: number
      readonly keys: readonly number[]
      readonly entities: readonly number[]
      readonly content: number
      /** The session; the same one may reserve again what it holds. */
      readonly session: number
      readonly leaseMs: number
      readonly workMs: number
      /** Which processes serve its later calls. */
      readonly servedBy: number
      readonly ends: 'completes' | 'completes_again' | 'releases' | 'vanishes'
    }
  | { readonly kind: 'read'; readonly atMs: number; readonly process: number; readonly key: number }
  | {
      /** An operator looks at a record, thinks, and decides about it. */
      readonly kind: 'decision'
      readonly atMs: number
      readonly process: number
      readonly key: number
      readonly decides: 'end' | 'complete' | 'forget' | 'ask' | 'requeue' | 'discard' | 'discard_completed'
      /** The promise that the operator says out to be broken (`even-though`). */
      readonly says?: 'live' | 'completed'
      /** It decides under the token that it saw. */
      readonly expects: boolean
      readonly thinksMs: number
      readonly dry?: true
    }

export type Fault =
  /** The node restarts with all or nearly all of its data. Only in plans with `drains`. */
  | Drain
  /** The node's process stops and goes on (SIGSTOP, SIGCONT); messages wait. */
  | { readonly kind: 'node_pause'; readonly atMs: number; readonly node: number; readonly ms: number }
  /** It dies and restarts after `ms` with the first `memory` of its writes (1: all, 0: none). */
  | {
      readonly kind: 'node_crash'
      readonly atMs: number
      readonly node: number
      readonly ms: number
      readonly memory: number
    }
  | { readonly kind: 'node_flush'; readonly atMs: number; readonly node: number }
  /** Its machine is set back by `ms`, memory and processes included. Nothing happens to a node that votes. */
  | { readonly kind: 'node_rewind'; readonly atMs: number; readonly node: number; readonly ms: number }
  /** It evicts each record with this chance, for want of memory. Nothing happens to a node that votes. */
  | { readonly kind: 'node_evict'; readonly atMs: number; readonly node: number; readonly chance: number }
  | { readonly kind: 'node_step'; readonly atMs: number; readonly node: number; readonly ms: number }
  /** Its clock jumps ahead: its promises may have expired. Only in plans in which clocks are watched. */
  | { readonly kind: 'node_leap'; readonly atMs: number; readonly node: number; readonly ms: number }
  | { readonly kind: 'process_pause'; readonly atMs: number; readonly process: number; readonly ms: number }
  | { readonly kind: 'process_crash'; readonly atMs: number; readonly process: number }
  | { readonly kind: 'process_step'; readonly atMs: number; readonly process: number; readonly ms: number }
  /** Messages between a process and a node are lost, in both directions or on the way back only. */
  | {
      readonly kind: 'partition'
      readonly atMs: number
      readonly process: number
      readonly node: number
      readonly ms: number
      readonly way: 'both' | 'replies'
    }
  /** Its memory is full: it refuses new claims, or every write that grows. */
  | {
      readonly kind: 'node_full'
      readonly atMs: number
      readonly node: number
      readonly ms: number
      readonly refuses: 'new_records' | 'writes'
    }
  /** Every node restarts empty at once. Only in plans in which processes keep membership. */
  | { readonly kind: 'all_wiped'; readonly atMs: number; readonly ms: number }
  /** Messages of a process to a node are held up, and arrive when this is over. */
  | {
      readonly kind: 'delay'
      readonly atMs: number
      readonly process: number
      readonly node: number
      readonly ms: number
    }
  /** The process that brings a node back dies; another takes over at once. */
  | { readonly kind: 'rejoin_crash'; readonly atMs: number }

export type Plan = {
  readonly seed: number
  /** Of each group. */
  readonly nodeCount: number
  /** Quorum groups, one by default; the nodes of the first come first. */
  readonly groups?: number
  /** Processes keep the membership of their cluster; `new`: it is founded within the history. */
  readonly cluster?: 'founded' | 'new'
  /** Resumed processes handle messages before timers. */
  readonly answersFirst?: boolean
  /** How far the clocks of all groups but the first are ahead. */
  readonly groupsAheadMs?: number
  /** Default: {@link RETENTION_MS}. */
  readonly retentionMs?: number
  readonly network: {
    readonly latencyMs: number
    readonly jitterMs: number
    readonly lossRate: number
    readonly duplicateRate: number
    /** Share of messages that arrive much later, so that others overtake them. */
    readonly lateRate: number
    readonly lateMs: number
    /** The same for the copies of a rejoin; default: none. */
    readonly lateCallRate?: number
  }
  readonly processes: readonly { readonly ratePpm: number; readonly wallOffsetMs: number }[]
  readonly nodes: readonly { readonly ratePpm: number; readonly wallOffsetMs: number }[]
  readonly operations: readonly Operation[]
  readonly faults: readonly Fault[]
  /** More nodes may lose memory than the promises allow for: then only promises without A1 are checked. */
  readonly overwhelm: boolean
  /**
   * Processes have the breaker of the quorum and the memory of outcomes, as in production. In the other plans every
   * request reaches the nodes, where most faults show.
   */
  readonly whole: boolean
  /** Processes watch the clocks of the nodes, which jump ahead here. In the other plans the rules hold without. */
  readonly watched: boolean
  /** Nodes keep heartbeats and restart with their data. In the other plans every restarted node has forgotten. */
  readonly drains?: Drains
  /** An elected process looks for orphans: `tells` writes dead letters, `asks` queries the application first. */
  readonly sweep: 'no' | 'tells' | 'asks'
}

/** Clock rates of any two actors differ by less than 1 % (assumption A2); the rest is for small steps. */
const RATE_MAX_PPM = 4_000

/**
 * Drawn apart, so that plans without clock jumps and situations are the same as before these existed.
 *
 * @param only every plan follows this situation
 */
export function planOf(seed: number, only?: string): Plan {
  for (const { stream, rate, situations } of only === undefined ? APART : []) {
    const dice = streamOf(seed, stream)
    if (dice.chance(rate)) return situated(seed, dice, dice.pick(Object.values(situations)))
  }
  const situations = streamOf(seed, 'situations')
  if (only !== undefined || situations.chance(SITUATION_RATE)) return situationOf(seed, situations, only)
  const drained = streamOf(seed, 'drains')
  if (drained.chance(DRAIN_RATE)) return drainingPlan(drained, seed)
  const dice = streamOf(seed, 'leaps')
  return dice.chance(LEAP_RATE) ? withLeaps(dice, planWithoutLeaps(seed)) : planWithoutLeaps(seed)
}

/** Share of plans that follow a situation. */
const SITUATION_RATE = 0.2

function situationOf(seed: number, dice: Dice, only: string | undefined): Plan {
  const names = Object.keys(SITUATIONS)
  const drawn = dice.pick(names)
  const name = only ?? (SELDOM.has(drawn) && dice.chance(0.6) ? dice.pick(names) : drawn)
  const all: typeof SITUATIONS = Object.assign({}, SITUATIONS, ...APART.map(({ situations }) => situations))
  const situation = all[name]
  if (situation === undefined)
    throw new RangeError(`no situation ${only}: there are ${Object.keys(all).join(', ')}`)
  return situated(seed, dice, situation)
}

function situated(seed: number, dice: Dice, situation: Situation): Plan {
  const nodeCount = dice.chance(0.35) ? 3 : 5
  const { operations, faults, late, change = {} } = situation(dice, nodeCount)
  const scenario = late === undefined ? { operations, faults } : { operations, faults, late }
  const plan = outlined(seed, dice, change.nodeCount ?? nodeCount, scenario, change.groups)
  return { ...plan, sweep: 'no', ...change, network: { ...plan.network, ...change.network } }
}

/** Share of plans with restarts. */
const DRAIN_RATE = 0.08

function drainingPlan(dice: Dice, seed: number): Plan {
  const nodeCount = dice.chance(0.25) ? 3 : 5
  const { drains, ...scenario } = drainScenario(dice, nodeCount)
  const plan = outlined(seed, dice, nodeCount, scenario)
  // Clocks agree within the tolerated step to the end of the history; else nodes just wait.
  const nodes = plan.nodes.map(() => ({
    ratePpm: dice.between(-400, 400),
    wallOffsetMs: dice.between(-5, 5),
  }))
  return { ...plan, nodes, drains, sweep: 'no', overwhelm: dice.chance(0.2) }
}

/** Share of plans with forward clock jumps of nodes. */
const LEAP_RATE = 0.08

function withLeaps(dice: Dice, plan: Plan): Plan {
  if (dice.chance(0.5)) return leapingPlan(dice, plan)
  const times = plan.operations.map(({ atMs }) => atMs)
  const leaps = Array.from({ length: dice.between(1, 2) }, (): Fault => {
    const atMs = Math.min(HEAL_MS - 500, dice.pick(times) + dice.pick([1, 60, 400, 1_200]) * dice.fraction())
    return leapOf(dice, atMs, dice.between(0, plan.nodeCount - 1))
  })
  return { ...plan, watched: true, faults: inOrder([...plan.faults, ...leaps]) }
}

function planWithoutLeaps(seed: number): Plan {
  const dice = streamOf(seed, 'plan')
  const nodeCount = dice.chance(0.25) ? 3 : 5
  const processCount = dice.between(2, 3)
  const keyCount = dice.chance(0.75) ? 1 : 2
  const calm = dice.chance(0.1)
  const clock = () => ({
    ratePpm: dice.between(-RATE_MAX_PPM, RATE_MAX_PPM),
    wallOffsetMs: dice.chance(0.85) ? dice.between(-20, 20) : dice.between(-5_000, 5_000),
  })
  const processes = Array.from({ length: processCount }, clock)
  const nodes = Array.from({ length: nodeCount }, () => ({
    ratePpm: dice.between(-RATE_MAX_PPM, RATE_MAX_PPM),
    wallOffsetMs: dice.between(-20, 20),
  }))
  const stormy = dice.chance(0.35)
  const network = {
    latencyMs: dice.pick([0.3, 1, 3, 8]),
    jitterMs: dice.pick([0.2, 2, 10, 30]),
    lossRate: calm ? 0 : stormy ? dice.pick([0.1, 0.25, 0.4]) : dice.pick([0, 0, 0.02]),
    duplicateRate: calm ? 0 : dice.pick([0, 0.05, 0.3]),
    lateRate: calm ? 0 : dice.pick([0, 0.02, 0.15]),
    lateMs: dice.pick([30, 100, 1_500, 4_000]),
  }
  if (dice.chance(SCENARIO_RATE)) return scenarioOf(seed, dice)
  const operations = operationsOf(dice, processCount, keyCount)
  const faultCount = calm ? 0 : dice.between(0, 7)
  const times = operations.map((operation) => operation.atMs)
  const faults = Array.from({ length: faultCount }, () =>
    faultOf(dice, { processCount, nodeCount, times }),
  ).sort((a, b) => a.atMs - b.atMs)
  const overwhelm = dice.chance(0.04)
  const whole = dice.chance(0.5)
  return {
    seed,
    nodeCount,
    network,
    processes,
    nodes,
    operations,
    faults,
    overwhelm,
    whole,
    watched: false,
    sweep: sweepOf(dice),
  }
}

/** Few plans sweep: elections alone send more messages than everything else together. */
function sweepOf(dice: Dice): Plan['sweep'] {
  return dice.chance(0.88) ? 'no' : dice.pick(['tells', 'asks', 'asks'])
}

/** Share of plans that follow an outline. */
const SCENARIO_RATE = 0.3

function scenarioOf(seed: number, dice: Dice): Plan {
  const outline = dice.pick(SCENARIOS)
  const nodeCount = outline.length === 1 || dice.chance(0.5) ? 3 : 5
  return outlined(seed, dice, nodeCount, outline(dice, nodeCount))
}

function leapingPlan(dice: Dice, { seed }: Plan): Plan {
  const copying = dice.chance(0.2)
  const nodeCount = !copying && dice.chance(0.5) ? 3 : 5
  const scenario = copying ? sourceOfCopyingLeaps(dice) : nodeOfAnOutcomeLeaps(dice, nodeCount)
  return { ...outlined(seed, dice, nodeCount, scenario), watched: true }
}

function outlined(
  seed: number,
  dice: Dice,
  nodeCount: number,
  { operations, faults, late }: Scenario,
  groups = 1,
): Plan {
  const actors = (count: number) =>
    Array.from({ length: count }, () => ({
      ratePpm: dice.between(-RATE_MAX_PPM, RATE_MAX_PPM),
      wallOffsetMs: dice.between(-10, 10),
    }))
  return {
    seed,
    nodeCount,
    network: {
      latencyMs: dice.pick([0.3, 1]),
      jitterMs: dice.pick([0.2, 2]),
      lossRate: dice.pick([0, 0, 0.02]),
      duplicateRate: dice.pick([0, 0.1]),
      lateRate: late?.lateRate ?? 0,
      lateMs: late?.lateMs ?? 0,
    },
    processes: actors(SCENARIO_PROCESSES),
    nodes: actors(nodeCount * groups),
    operations: inOrder(operations),
    faults: inOrder(faults),
    overwhelm: false,
    whole: dice.chance(0.3),
    watched: false,
    sweep: sweepOf(dice),
  }
}

function inOrder<T extends { readonly atMs: number }>(happening: readonly T[]): readonly T[] {
  return [...happening].sort((a, b) => a.atMs - b.atMs)
}

function operationsOf(dice: Dice, processCount: number, keyCount: number): Operation[] {
  const policies = Array.from(
    { length: keyCount },
    (): Policy => ({
      takeover: dice.chance(0.12) ? 'indeterminate' : 'reexecute',
      onQuorumLoss: dice.chance(0.65) ? 'fail-closed' : dice.pick(['fail-open', 'local', 'local']),
    }),
  )
  const count = dice.between(3, 9)
  let atMs = 50
  const operations: Operation[] = []
  for (let made = 0; made < count; made += 1) {
    // Mostly bursts, because only overlapping operations can go wrong; sometimes after the lease of the one before.
    atMs += dice.chance(0.6) ? dice.fraction() * 30 : dice.fraction() * 1.6 * LEASE_MS
    atMs = Math.min(atMs, HEAL_MS - 1_000)
    operations.push(operationOf(dice, atMs, dice.between(0, processCount - 1), policies))
  }
  return operations
}

/** Settings that all requests of one key share. */
type Policy = Pick<Extract<Operation, { kind: 'request' }>, 'takeover' | 'onQuorumLoss'>

function operationOf(dice: Dice, atMs: number, process: number, policies: readonly Policy[]): Operation {
  const key = dice.between(0, policies.length - 1)
  const content = dice.chance(0.93) ? 0 : 1
  const leaseMs = dice.chance(0.85) ? LEASE_MS : LONGEST_LEASE_MS
  const roll = dice.fraction()
  if (roll < 0.08) return { kind: 'read', atMs, process, key }
  if (roll < 0.25) {
    const ends = dice.pick([
      'completes',
      'completes_twice',
      'releases',
      'vanishes',
      'late_complete',
      'late_release',
    ] as const)
    const workMs = dice.pick([0, 5, 50, 700, 2_500])
    return { kind: 'reservation', atMs, process, key, content, leaseMs, workMs, ends }
  }
  const ends = dice.pick([
    'answers',
    'answers',
    'answers',
    'answers',
    'fails',
    'never_sent',
    'no_answer',
    'lost_before',
  ] as const)
  const ms = ends === 'never_sent' ? dice.pick([0, 2]) : dice.pick([0, 2, 20, 300, 2_200])
  const waitMs = dice.pick([0, 0, 200, 1_500])
  return {
    kind: 'request',
    atMs,
    process,
    key,
    content,
    leaseMs,
    waitMs,
    ...(policies[key] as Policy),
    work: { ends, ms },
  }
}

function faultOf(
  dice: Dice,
  { processCount, nodeCount, times }: { processCount: number; nodeCount: number; times: readonly number[] },
): Fault {
  // Near an operation, or anywhere.
  const atMs = dice.chance(0.7)
    ? Math.max(0, dice.pick(times) + dice.pick([-5, 1, 4, 15, 60, 400, 1_200]) * dice.fraction())
    : dice.fraction() * (HEAL_MS - 500)
  const node = dice.between(0, nodeCount - 1)
  const process = dice.between(0, processCount - 1)
  const roll = dice.fraction()
  if (roll < 0.1) return { kind: 'node_pause', atMs, node, ms: dice.pick([30, 200, 1_200, 3_000]) }
  if (roll < 0.3) {
    const memory = dice.pick([0, 0, 0.5, 0.9, 1])
    return { kind: 'node_crash', atMs, node, ms: dice.pick([1, 50, 1_500]), memory }
  }
  if (roll < 0.38) return { kind: 'node_flush', atMs, node }
  if (roll < 0.46) return { kind: 'node_step', atMs, node, ms: dice.pick([-30_000, -1_500, -3, 1]) }
  if (roll < 0.62) {
    return { kind: 'process_pause', atMs, process, ms: dice.pick([10, 120, 600, 1_300, 4_000]) }
  }
  if (roll < 0.7) return { kind: 'process_crash', atMs, process }
  if (roll < 0.78) {
    return {
      kind: 'process_step',
      atMs,
      process,
      ms: dice.pick([-3_600_000, -1_500, -40, 40, 1_500, 3_600_000]),
    }
  }
  if (roll < 0.97) {
    const way = dice.chance(0.7) ? 'both' : 'replies'
    return { kind: 'partition', atMs, process, node, ms: dice.pick([20, 100, 800, 3_000]), way }
  }
  return { kind: 'rejoin_crash', atMs }
}
