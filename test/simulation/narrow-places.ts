/**
 * Situations in which a promise was once broken outside of the simulation, each made frequent.
 *
 * Owns their outlines; processes and times are drawn, often so that it does not happen. As in `scenarios.ts` partitions
 * do the work: what matters is which nodes each process reaches.
 */

import type { Dice } from './dice.ts'
import { type Fault, LEASE_MS, type Operation } from './plan.ts'
import { cut, request, shuffled } from './scenarios.ts'
import type { Situation } from './situations.ts'

type Reservation = Extract<Operation, { kind: 'reservation' }>

function reservation(atMs: number, process: number, workMs: number, ends: Reservation['ends']): Reservation {
  return { kind: 'reservation', atMs, process, key: 0, content: 0, leaseMs: LEASE_MS, workMs, ends }
}

/** Up to as many nodes as may be away while a majority is up. */
function someAway(dice: Dice, nodeCount: number): number[] {
  return shuffled(dice, nodeCount).slice(0, dice.between(0, (nodeCount - 1) / 2))
}

/** One content arrives under several keys, through processes that each reach other nodes. */
function oneContentUnderSeveralKeys(dice: Dice, nodeCount: number) {
  const operations: Operation[] = []
  const faults: Fault[] = []
  let atMs = 50
  for (let made = dice.between(2, 5); made > 0; made -= 1) {
    const process = dice.between(0, 2)
    const workMs = dice.pick([2, 20, 300])
    const ends = dice.pick(['answers', 'answers', 'answers', 'fails', 'no_answer', 'never_sent'] as const)
    const key = dice.between(0, 2)
    operations.push({
      ...request(atMs, process, workMs),
      ...{ key, content: dice.chance(0.9) ? 0 : 1, marked: true, work: { ends, ms: workMs } },
    })
    if (dice.chance(0.8)) faults.push(...cut(process, someAway(dice, nodeCount), atMs - 5, workMs + 200))
    atMs += dice.pick([1, 60, 400, 1_300])
  }
  return { operations, faults }
}

/** Different contents race for one key, without faults. */
function contentsRace(dice: Dice) {
  const operations: Operation[] = []
  const racers = dice.between(2, 5)
  const atMs = 50
  for (let content = 0; content < racers; content += 1) {
    const askedMs = atMs + dice.fraction() * dice.pick([0.5, 5, 20])
    operations.push({
      ...request(askedMs, content % 3, dice.pick([2, 50])),
      ...{ content: content % dice.pick([3, 5]), waitMs: dice.pick([0, 1_500, 1_500]) },
    })
  }
  const latencyMs = dice.pick([0.3, 3, 8])
  const network = { latencyMs, jitterMs: dice.pick([1, 5, 10]), lossRate: 0, duplicateRate: 0, lateRate: 0 }
  return { operations, faults: [], change: { network, whole: false } }
}

/**
 * A process is suspended with answers to its completion waiting, longer than a node needs to forget and to vote again;
 * one of its messages is as late.
 */
function frozenWithAnswersWaiting(dice: Dice) {
  const [forgetful = 0, late = 1, third = 2] = shuffled(dice, 3)
  const workMs = dice.between(20, 60)
  // Two ways to the nodes and back, two short ones to the application.
  const completesMs = 50 + 2 * 8 + 1.4 + workMs
  const frozenMs = completesMs + dice.fraction() * 16
  const votesAgainMs = 300 + 1_567 + 300
  const overtakenMs = votesAgainMs + dice.between(0, 300)
  const wakesMs = overtakenMs + dice.between(600, 1_200)
  const faults: Fault[] = [
    ...cut(0, [third], completesMs - 10, 6_000),
    { kind: 'delay', atMs: completesMs - 10, process: 0, node: late, ms: overtakenMs + 300 - completesMs },
    { kind: 'process_pause', atMs: frozenMs, process: 0, ms: wakesMs - frozenMs },
    { kind: 'node_flush', atMs: 300, node: forgetful },
    ...cut(1, [late], overtakenMs - 20, 3_000),
  ]
  const operations = [
    request(50, 0, workMs),
    request(overtakenMs, 1, dice.pick([2, 20])),
    request(wakesMs + 400, 2, 2),
  ]
  return {
    operations,
    faults,
    change: { nodeCount: 3, answersFirst: true, network: { latencyMs: 8, jitterMs: 0.2, lossRate: 0 } },
  }
}

/** A reader reads while a record is held, renewed, completed or released on nodes other than those that it reaches. */
function looksWhileAnOutcomeSpreads(dice: Dice, nodeCount: number) {
  const workMs = dice.pick([5, 300, 900, 1_500])
  const atMs = 50
  const ends = dice.pick(['completes', 'completes', 'completes_later', 'releases', 'vanishes'] as const)
  const operations: Operation[] = [
    dice.chance(0.5) ? request(atMs, 0, workMs) : reservation(atMs, 0, workMs, ends),
  ]
  const faults: Fault[] = [
    ...cut(0, someAway(dice, nodeCount), dice.pick([0, atMs + workMs / 2]), workMs + 500),
  ]
  if (dice.chance(0.4)) operations.push(request(atMs + dice.fraction() * 2_000, 2, 20))
  for (let looks = dice.between(3, 8); looks > 0; looks -= 1) {
    const lookMs = atMs + dice.pick([0, workMs, workMs]) + dice.fraction() * dice.pick([10, 60, 1_500])
    const process = dice.between(1, 2)
    operations.push({ kind: 'read', atMs: lookMs, process, key: 0 })
    if (dice.chance(0.7)) faults.push(...cut(process, someAway(dice, nodeCount), lookMs - 3, 40))
  }
  return { operations, faults }
}

/** Claimants take an expired claim over in turn, each through its own nodes, and release it; a reader follows. */
function takeoversGivenBack(dice: Dice, nodeCount: number) {
  const operations: Operation[] = []
  const faults: Fault[] = []
  let atMs = 50
  for (let made = dice.between(3, 6); made > 0; made -= 1) {
    const process = dice.between(0, 2)
    const workMs = dice.pick([2, 50, 300])
    operations.push(
      reservation(atMs, process, workMs, dice.pick(['releases', 'releases', 'vanishes'] as const)),
    )
    if (dice.chance(0.8))
      faults.push(...cut(process, someAway(dice, nodeCount), atMs - 5, dice.pick([100, 600, 2_000])))
    atMs += dice.pick([20, 400, LEASE_MS - 100, LEASE_MS + 100])
  }
  for (let looks = dice.between(4, 8); looks > 0; looks -= 1) {
    const lookMs = 50 + LEASE_MS + dice.fraction() * (atMs + 500)
    operations.push({ kind: 'read', atMs: lookMs, process: dice.between(0, 2), key: 0 })
  }
  return { operations, faults }
}

/** Several race to take over a claim that expired, over nodes of unequal speed, and it is looked at meanwhile. */
function takeoversRace(dice: Dice) {
  const operations: Operation[] = [reservation(50, 0, 2, 'vanishes')]
  const expiredMs = 50 + LEASE_MS
  for (let racers = dice.between(2, 5); racers > 0; racers -= 1)
    operations.push({
      ...request(expiredMs + dice.fraction() * 100, dice.between(0, 2), dice.pick([50, 300])),
      waitMs: dice.pick([0, 1_500, 1_500]),
    })
  for (let looks = dice.between(4, 8); looks > 0; looks -= 1)
    operations.push({
      kind: 'read',
      atMs: expiredMs + dice.fraction() * 300,
      process: dice.between(0, 2),
      key: 0,
    })
  const network = {
    latencyMs: 1,
    jitterMs: dice.pick([5, 30]),
    lossRate: dice.pick([0.02, 0.1]),
    lateRate: 0,
  }
  return { operations, faults: [], change: { network } }
}

/** A holder completes after its lease, and a minority accepts; or it gets no answer, and repeats the completion. */
function completesTooLate(dice: Dice, nodeCount: number) {
  const late = dice.chance(0.6)
  const workMs = dice.pick([5, 50])
  const operations: Operation[] = [
    reservation(
      50,
      0,
      workMs,
      late ? 'late_complete' : dice.pick(['completes_later', 'completes_twice'] as const),
    ),
  ]
  const faults: Fault[] = []
  if (late) {
    // The claimant after the lease reaches some of the nodes, and may release it.
    const betweenMs = 50 + LEASE_MS + dice.between(60, 700)
    const ends = dice.pick(['releases', 'releases', 'vanishes'] as const)
    operations.push(reservation(betweenMs, 1, dice.pick([2, 50]), ends))
    faults.push(...cut(1, someAway(dice, nodeCount), betweenMs - 10, 400))
    if (dice.chance(0.3)) faults.push(...cut(0, someAway(dice, nodeCount), 50 + 2 * LEASE_MS, 400))
  } else {
    const away = shuffled(dice, nodeCount).slice(0, dice.between((nodeCount - 1) / 2, nodeCount - 1))
    faults.push(...cut(0, away, 50 + workMs / 2, workMs + dice.between(20, 300)))
  }
  for (let later = 0; later < 3; later += 1) {
    const askedMs = 400 + dice.fraction() * 2_600
    const process = dice.between(1, 2)
    operations.push(
      dice.chance(0.5) ? request(askedMs, process, 2) : reservation(askedMs, process, 2, 'completes'),
    )
    if (dice.chance(0.5)) faults.push(...cut(process, someAway(dice, nodeCount), askedMs - 5, 200))
  }
  return { operations, faults }
}

/** A copy of a rejoin arrives only after its node votes again and has granted other claims. */
function rejoinOvertaken(dice: Dice) {
  const [forgetful = 0, second = 1, third = 2] = shuffled(dice, 3)
  const flushMs = 200
  const copiedMs = flushMs + 1_567
  const nextMs = copiedMs + dice.between(300, 900)
  const ends = dice.pick(['fails', 'fails', 'fails', 'answers'] as const)
  const operations: Operation[] = [
    { ...request(50, 0, 0), work: { ends, ms: copiedMs + dice.between(0, 150) - 50 } },
  ]
  for (let next = 0; next < 3; next += 1)
    operations.push({
      ...request(nextMs + next * dice.between(20, 400), 1, dice.pick([500, 1_500])),
      content: dice.chance(0.9) ? 1 : 0,
    })
  for (let later = 0; later < 12; later += 1)
    operations.push(request(nextMs + 20 + dice.fraction() * 1_800, 2, dice.pick([2, 200])))
  const faults: Fault[] = [
    { kind: 'node_flush', atMs: flushMs, node: forgetful },
    ...cut(1, [third], nextMs - 10, 3_000),
    ...cut(2, [second], nextMs - 10, 3_000),
  ]
  const network = { lateCallRate: dice.pick([0.4, 0.7]), lateMs: dice.pick([1_000, 2_500]), lossRate: 0 }
  return { operations, faults, change: { nodeCount: 3, network } }
}

/** The clocks of one group, and of a process, are an hour ahead of the other group; one reservation spans both. */
function groupsWithClocksApart(dice: Dice) {
  const aheadMs = dice.pick([2_000, 3_600_000])
  const operations: Operation[] = []
  let atMs = 50
  for (let made = dice.between(2, 4); made > 0; made -= 1) {
    const ends = dice.pick(['completes', 'releases', 'vanishes'] as const)
    const [process, servedBy] = [dice.between(0, 2), dice.between(0, 2)]
    const entities = dice.chance(0.3) ? [0] : []
    const keys = shuffled(dice, 4).slice(0, dice.between(2, 4))
    const [leaseMs, workMs] = [LEASE_MS, dice.pick([2, 300, 1_300])]
    operations.push({
      kind: 'session',
      atMs,
      process,
      keys,
      entities,
      content: 0,
      session: made,
      leaseMs,
      workMs,
      servedBy,
      ends,
    })
    atMs += dice.pick([20, 700, 1_500])
  }
  const processes = [0, 1, 2].map((process) => ({
    ratePpm: dice.between(-1_000, 1_000),
    wallOffsetMs: process === 0 || dice.chance(0.3) ? aheadMs : dice.between(-10, 10),
  }))
  return {
    operations,
    faults: [],
    change: { groups: 2, groupsAheadMs: aheadMs, processes, network: { lossRate: 0 } },
  }
}

/** All nodes lose everything while processes that know them run; to a new process they look brand-new. */
function wipedBesideARunningProcess(dice: Dice) {
  const wipedMs = 1_200 + dice.fraction() * 1_000
  const downMs = dice.pick([5, 50, 800])
  const faults: Fault[] = [{ kind: 'all_wiped', atMs: wipedMs, ms: downMs }]
  // The process that knows better runs on, is suspended, or is dead.
  const ends = dice.pick(['runs', 'runs', 'stands', 'stands', 'dies'] as const)
  // The new process starts as soon as the nodes are back, before the others poll them again.
  const newMs = wipedMs + (ends === 'dies' ? dice.fraction() * downMs : downMs + dice.fraction() * 60)
  faults.push({ kind: 'process_crash', atMs: newMs, process: 1 })
  for (const process of [0, 2]) {
    const atMs = wipedMs - dice.fraction() * 200
    if (ends === 'stands')
      faults.push({ kind: 'process_pause', atMs, process, ms: dice.pick([1_000, 5_000, 5_000]) })
    // While no node is up to tell its successor.
    if (ends === 'dies')
      faults.push({ kind: 'process_crash', atMs: wipedMs + dice.fraction() * downMs, process })
  }
  const operations: Operation[] = [request(300 + dice.fraction() * 600, 0, dice.pick([5, 900, 2_500]))]
  for (let later = 0; later < 5; later += 1)
    operations.push(request(wipedMs + 100 + dice.fraction() * 6_000, dice.between(0, 2), dice.pick([5, 300])))
  return { operations, faults, change: { cluster: 'founded' as const, network: { lateRate: 0 } } }
}

/** Processes start together on nodes that are new, and one of them founds their cluster. */
function firstStart(dice: Dice) {
  const operations: Operation[] = []
  for (let asked = 0; asked < 4; asked += 1)
    operations.push(request(50 + dice.fraction() * 8_000, dice.between(0, 2), dice.pick([5, 300])))
  const faults: Fault[] = []
  if (dice.chance(0.5))
    faults.push({ kind: 'process_crash', atMs: dice.fraction() * 2_500, process: dice.between(0, 2) })
  return { operations, faults, change: { cluster: 'new' as const, network: { lateRate: 0 } } }
}

/** Nodes refuse new records, and later all writes; recorded requests are repeated, requests under way end. */
function memoryFull(dice: Dice, nodeCount: number) {
  const fullMs = 600 + dice.fraction() * 400
  const faults: Fault[] = shuffled(dice, nodeCount)
    .slice(0, dice.between(1, nodeCount))
    .flatMap((node): Fault[] => {
      const [atMs, ms] = [fullMs + dice.fraction() * 20, dice.between(1_500, 5_000)]
      const near: Fault = { kind: 'node_full', atMs, node, ms, refuses: 'new_records' }
      return dice.chance(0.5) ? [near] : [near, { ...near, atMs: atMs + 1_200, refuses: 'writes' }]
    })
  const operations: Operation[] = [request(50, 0, 5), { ...request(fullMs - 200, 1, 800), key: 1 }]
  for (let later = 0; later < 6; later += 1)
    operations.push({
      ...request(fullMs + dice.fraction() * 5_000, dice.between(0, 2), dice.pick([2, 300])),
      key: dice.pick([0, 0, 1, 2]),
    })
  return { operations, faults, change: { network: { lossRate: 0, duplicateRate: 0, lateRate: 0 } } }
}

export const NARROW_PLACES: Readonly<Record<string, Situation>> = {
  contents: oneContentUnderSeveralKeys,
  races: contentsRace,
  frozen: frozenWithAnswersWaiting,
  looks: looksWhileAnOutcomeSpreads,
  leftovers: takeoversGivenBack,
  takeovers: takeoversRace,
  refused: completesTooLate,
  overtaken: rejoinOvertaken,
  clocksApart: groupsWithClocksApart,
  wiped: wipedBesideARunningProcess,
  firstStart,
  full: memoryFull,
}
