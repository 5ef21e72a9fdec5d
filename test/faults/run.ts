/**
 * One fault run: traffic, faults one after the other in an order that the seed decides, then everything is healed and has to
 * go on, and the history is judged.
 *
 * A run in which a fault overlapped no operation, or did nothing where it was done, is invalid, not green.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { seededRandom } from '../support/seeded-random.ts'
import { auditNodes } from './checkers/surroundings.ts'
import type { Violation } from './checkers/violation.ts'
import { Clients } from './clients.ts'
import { oneSlowNode, type QuorumLoss, quorumLoss } from './experiments.ts'
import { choose, type Fault, type FaultContext } from './fault.ts'
import { FAULTS, faultsNamed, LAST_FAULT } from './faults.ts'
import { History, monoMs } from './history.ts'
import { checkRecovery, judge, type RunReport } from './judge.ts'
import { Load } from './load.ts'
import { LEASE_MS, openStage, type Stage } from './stage.ts'

export type RunOptions = {
  readonly seed: number
  /** New faults begin for so long; healing and judging come after it. */
  readonly lastsMs: number
  /** Only these, each once, in an order that the seed decides. */
  readonly only?: readonly string[]
  readonly historyFile?: string
  /** Measures as well (`experiments.ts`): how long the quorum is taken away. */
  readonly quorumLostForMs?: number
  readonly tell?: (line: string) => void
  /** Where each sidecar's log goes; nowhere if not given. */
  readonly logFolder?: string
}

/** From when on a run has time for a rolling restart. */
const LONG_RUN_MS = 300_000

/** From when on a run does every fault once, also where that takes longer than it was given. */
const WHOLE_RUN_MS = 480_000

/**
 * Retention, the lease of a claim before it, and an hour: what was written while the clock of a node was that far ahead (F16c)
 * stays for that much longer on this node, because Redis expires by its wall clock.
 */
const TTL_MS_MAX = 86_400_000 + LEASE_MS + 3_600_000 + 60_000

export async function runFaults(options: RunOptions): Promise<RunReport> {
  const { seed, tell = () => {} } = options
  const random = seededRandom(seed)
  const history = new History(options.historyFile)
  await using stage = await openStage({
    fraction: () => random.fraction(),
    // The nodes 0 to 2 keep a file, 0 of them at each write; 3 and 4 keep nothing.
    redisConfig: (node) => [
      `appendonly ${node <= 2 ? 'yes' : 'no'}`,
      `appendfsync ${node === 0 ? 'always' : 'everysec'}`,
      // A replica gets its data at once (F19).
      'repl-diskless-sync-delay 0',
    ],
  })
  await using clients = new Clients(stage, history)
  const load = new Load(clients, stage.sidecarCount, random)
  const broken: Violation[] = []
  const context = contextOf(stage, clients, history, load, () => random.fraction(), broken)

  const untilMs = monoMs() + options.lastsMs
  load.start()
  await pause(1_500)
  const order = orderOf(options, context.fraction)
  const notRun: string[] = []
  let at = 0
  for (; at < order.length || (options.only === undefined && monoMs() < untilMs); at += 1) {
    const fault = order[at % order.length]
    if (fault === undefined) break
    // Each once where the time allows; a shorter run says which it left out.
    const tooLong = fault.long === true && options.lastsMs < LONG_RUN_MS
    const overtime = monoMs() >= untilMs && options.lastsMs < WHOLE_RUN_MS
    if ((overtime || tooLong) && options.only === undefined) notRun.push(fault.id)
    else await inject(fault, context, broken, tell)
  }
  if (options.only === undefined || faultsNamed(options.only).includes(LAST_FAULT)) {
    // What only nodes knew that forget is not asked for again.
    await inject(LAST_FAULT, context, broken, tell)
    load.forgetEarlierKeys()
  }
  await load.stop()

  tell('healed: everything has to go on')
  await stage.heal()
  clients.healed = true
  await stage.ready()
  await goesOn(context, load)
  const latencies = options.quorumLostForMs === undefined ? [] : await oneSlowNode(context, 20, 200)
  load.start()
  const loss =
    options.quorumLostForMs === undefined ? undefined : await quorumLoss(context, options.quorumLostForMs)
  if (loss !== undefined) {
    history.fault(windowOfLoss(loss))
    broken.push(...checkRecovery(loss))
  }
  await load.stop()
  broken.push(...(await auditNodes(stage.admin, TTL_MS_MAX)))
  if (options.logFolder !== undefined) {
    for (const [index, log] of stage.logs.entries()) {
      writeFileSync(join(options.logFolder, `sidecar-${index}.log`), log)
    }
  }
  return judge(options.seed, stage, history, broken, notRun, latencies, loss)
}

function orderOf({ only }: RunOptions, fraction: () => number): readonly Fault[] {
  const faults = only === undefined ? FAULTS : faultsNamed(only).filter((fault) => fault !== LAST_FAULT)
  return choose(fraction, faults.length, faults.length).flatMap((at) => faults[at] ?? [])
}

function contextOf(
  stage: Stage,
  clients: Clients,
  history: History,
  load: Load,
  fraction: () => number,
  broken: Violation[],
): FaultContext {
  return {
    stage,
    clients,
    history,
    fraction,
    freshKey: () => load.freshKey(),
    recentKeys: (count) => load.recentKeys(count),
    demand: async (promise, withinMs, condition) => {
      const deadlineMs = monoMs() + withinMs
      for (;;) {
        if (await condition().catch(() => false)) return
        if (monoMs() >= deadlineMs) break
        await pause(100)
      }
      broken.push({
        checker: 'progress',
        key: '',
        detail: `not within ${withinMs.toFixed(0)} ms: ${promise}`,
      })
    },
  }
}

async function inject(
  fault: Fault,
  context: FaultContext,
  broken: Violation[],
  tell: (line: string) => void,
): Promise<void> {
  const { stage, history } = context
  const { id, what } = fault
  const fromMs = monoMs()
  let bites = 0
  try {
    bites = await fault.inject(context)
  } catch (cause) {
    broken.push({
      checker: 'harness',
      key: id,
      detail: cause instanceof Error ? cause.message : String(cause),
    })
  }
  await stage.heal()
  history.fault({ id, what, fromMs, untilMs: monoMs(), bites })
  tell(`${id.padEnd(5)} ${((monoMs() - fromMs) / 1_000).toFixed(1).padStart(5)} s  bit ${bites}  ${what}`)
  await stage
    .ready(3)
    .catch((cause: Error) => broken.push({ checker: 'progress', key: id, detail: cause.message }))
}

/** L5 and S5: within five seconds everything succeeds, and what was acknowledged is still known. */
async function goesOn(context: FaultContext, load: Load): Promise<void> {
  const { stage, clients, demand, history, freshKey } = context
  for (const sidecar of stage.sidecars.keys()) {
    await demand('success within 5 s of healing', 5_000, async () => {
      const answer = await clients.submit({ sidecar, key: freshKey() })
      return answer.type === 'ok' && answer.says === 'created'
    })
  }
  const keys = load.recentKeys(600)
  for (let from = 0; from < keys.length; from += 20) {
    const answers = await Promise.all(
      keys.slice(from, from + 20).map((key, at) => clients.submit({ sidecar: at % stage.sidecarCount, key })),
    )
    history.saw('acknowledged completions asked for again', answers.length)
  }
}

function windowOfLoss({ lostForMs, recoveredMs }: QuorumLoss) {
  const untilMs = monoMs()
  const fromMs = untilMs - lostForMs - recoveredMs - 8_000
  return { id: 'F2', what: 'the quorum is lost and comes back', fromMs, untilMs, bites: 3 }
}
