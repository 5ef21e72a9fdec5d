/**
 * One fault run: traffic, faults one after the other in an order that the seed decides, then everything is healed and
 * has to succeed, and the history is judged.
 *
 * A run in which a fault overlapped no operation, or did nothing where it was done, is invalid, not green.
 */

import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { auditNodes } from './checkers/surroundings.ts'
import type { Violation } from './checkers/violation.ts'
import { Clients } from './clients.ts'
import { type Latencies, oneSlowNode, type QuorumLoss, quorumLoss } from './experiments.ts'
import type { Fault, FaultContext } from './fault.ts'
import { FAULTS, faultsNamed, LAST_FAULTS } from './faults.ts'
import { History, monoMs } from './history.ts'
import { backTo, DidNotComeBack, inject } from './inject.ts'
import { checkRecovery, judge, notDecided, type RunReport } from './judge.ts'
import { Load } from './load.ts'
import { checkWithPorcupine, violationsOf } from './porcupine/porcupine.ts'
import { loadSeedOf, PURPOSE, streamOf, turnsOf } from './sequence.ts'
import { LEASE_MS, NODES, openStage, type Stage, type StageOptions } from './stage.ts'

export type RunOptions = {
  readonly seed: number
  /** New faults begin for this long; healing and judging come after it. */
  readonly lastsMs: number
  /** Only these, each once, in an order that the seed decides. */
  readonly only?: readonly string[]
  /** Instead of the named faults, for a test of the run itself. */
  readonly faults?: readonly Fault[]
  /** From the healing of a fault until the sidecars see a majority that votes; default {@link BACK_WITHIN_MS}. */
  readonly backWithinMs?: number
  readonly historyFile?: string
  /** Measures as well (`experiments.ts`): how long the quorum is taken away. */
  readonly quorumLostForMs?: number
  readonly tell?: (line: string) => void
  /** For the log of each sidecar; default: no log. */
  readonly logFolder?: string
  /** Another build or setting than that of a run. */
  readonly stage?: Pick<StageOptions, 'main' | 'settings'>
}

/** From when on a run has time for a rolling restart. */
const LONG_RUN_MS = 300_000

/** From when on a run does every fault once, even beyond its time. */
const WHOLE_RUN_MS = 480_000

/**
 * Retention, the lease of a claim before it, and an hour: a record that was written while the clock of a node was that
 * far ahead (F16c) stays that much longer on this node, because Redis expires by its wall clock.
 */
const TTL_MS_MAX = 86_400_000 + LEASE_MS + 3_600_000 + 60_000

/** A run ends with an error at twice its time and this much more. */
const OVERTIME_MS_MAX = 900_000

/** After the last fault, for what its operator has not decided yet: some twenty times what it takes. */
const DECIDED_WITHIN_MS = 60_000

/** From the healing of a fault until every sidecar sees a voting majority: quarantine, copying, a busy machine. */
const BACK_WITHIN_MS = 60_000

export async function runFaults(options: RunOptions): Promise<RunReport> {
  const { seed, tell = () => {} } = options
  const history = new History(options.historyFile)
  await using stage = await openStage({
    ...options.stage,
    operated: true,
    fraction: streamOf(seed, PURPOSE.links),
    // The nodes 0 to 2 keep a file, node 0 syncs each write; 3 and 4 keep no file.
    redisConfig: (node) => [
      `appendonly ${node <= 2 ? 'yes' : 'no'}`,
      `appendfsync ${node === 0 ? 'always' : 'everysec'}`,
      // A replica gets its data at once (F19).
      'repl-diskless-sync-delay 0',
    ],
  })
  await using clients = new Clients(stage, history)
  const load = new Load(clients, stage.sidecarCount, loadSeedOf(seed), true)
  const broken: Violation[] = []
  const context = contextOf(stage, clients, history, load, streamOf(seed, PURPOSE.load), broken)
  const notRun: string[] = []
  const measured: Measured = { latencies: [], loss: undefined }
  try {
    load.start()
    await pause(1_500)
    await takeTurns(options, context, load, notRun, broken)
    await everyKindDecided(history)
    await load.stop()
    tell('healed: everything has to go on')
    await stage.heal()
    const last = history.faults.at(-1)
    await backTo(
      context,
      NODES,
      options.backWithinMs ?? BACK_WITHIN_MS,
      `the healing of everything, ${last?.id} the last of it`,
    )
    clients.healed = true
    await goesOn(context, load)
    if (options.quorumLostForMs !== undefined)
      await measure(context, load, options.quorumLostForMs, measured, broken)
    broken.push(...(await auditNodes(stage.admin, TTL_MS_MAX)))
  } catch (cause) {
    if (!(cause instanceof DidNotComeBack)) throw cause
    tell(cause.message)
    broken.push({ checker: 'did-not-come-back', key: '', detail: cause.message })
    await load.stop()
  }
  if (options.logFolder !== undefined) {
    for (const [index, log] of stage.logs.entries()) {
      writeFileSync(join(options.logFolder, `sidecar-${index}.log`), log)
    }
  }
  history.close(stage.application.executions(), LEASE_MS)
  const judged = judge(seed, stage, history, broken, notRun, measured.latencies, measured.loss)
  const report = { ...judged, invalid: [...judged.invalid, ...notDecided(history.operations)] }
  return options.historyFile === undefined ? report : withPorcupine(report, options.historyFile)
}

/** Drawings are left beside the history. */
async function withPorcupine(report: RunReport, historyFile: string): Promise<RunReport> {
  const drawings = join(dirname(historyFile), 'porcupine')
  rmSync(drawings, { recursive: true, force: true })
  const porcupine = await checkWithPorcupine(historyFile, drawings)
  return { ...report, porcupine, violations: [...report.violations, ...violationsOf(porcupine)] }
}

/** @throws DidNotComeBack */
async function takeTurns(
  options: RunOptions,
  context: FaultContext,
  load: Load,
  notRun: string[],
  broken: Violation[],
): Promise<void> {
  const { seed, only, lastsMs, tell = () => {}, backWithinMs = BACK_WITHIN_MS } = options
  const startMs = monoMs()
  const deadlineMs = startMs + 2 * lastsMs + OVERTIME_MS_MAX
  const faults = options.faults ?? faultsOfRun(only)
  const eachOnce = only !== undefined || options.faults !== undefined
  let at = 0
  for (const { fault, fraction } of turnsOf(seed, faults)) {
    if (at >= faults.length && (eachOnce || monoMs() >= startMs + lastsMs)) break
    if (monoMs() >= deadlineMs) throw new DidNotComeBack(`after ${at} faults the run was past its deadline`)
    at += 1
    // Each once where the time allows; a shorter run lists the others.
    const tooLong = fault.long === true && lastsMs < LONG_RUN_MS
    const overtime = monoMs() >= startMs + lastsMs && lastsMs < WHOLE_RUN_MS
    if ((overtime || tooLong) && !eachOnce) notRun.push(fault.id)
    else await inject(fault, { ...context, fraction }, { broken, tell, backWithinMs })
  }
  if (options.faults !== undefined) return
  const named = only === undefined ? LAST_FAULTS : faultsNamed(only)
  for (const [index, fault] of LAST_FAULTS.entries()) {
    if (!named.includes(fault)) continue
    const dice = { ...context, fraction: streamOf(seed, PURPOSE.last - index) }
    await inject(fault, dice, { broken, tell, backWithinMs })
    // Keys that only forgetful nodes knew are not sent again.
    load.forgetEarlierKeys()
  }
}

/** A run of one short fault goes on until its operator has decided of each kind; where that takes too long it is invalid. */
async function everyKindDecided({ operations }: History): Promise<void> {
  const untilMs = monoMs() + DECIDED_WITHIN_MS
  while (notDecided(operations).length > 0 && monoMs() < untilMs) await pause(100)
}

type Measured = { latencies: readonly Latencies[]; loss: QuorumLoss | undefined }

async function measure(
  context: FaultContext,
  load: Load,
  lostForMs: number,
  measured: Measured,
  broken: Violation[],
): Promise<void> {
  measured.latencies = await oneSlowNode(context, 20, 200)
  load.start()
  const loss = await quorumLoss(context, lostForMs)
  measured.loss = loss
  context.history.fault(windowOfLoss(loss))
  broken.push(...checkRecovery(loss))
  await load.stop()
}

function faultsOfRun(only: readonly string[] | undefined): readonly Fault[] {
  return only === undefined ? FAULTS : faultsNamed(only).filter((fault) => !LAST_FAULTS.includes(fault))
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
    lose: () => load.forgetEarlierKeys(),
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

/** L5 and S5: within five seconds every request succeeds, and acknowledged ones are still known. */
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
