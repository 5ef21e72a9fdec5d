/**
 * A rolling upgrade and the way back, under load: the earlier version alone, both, this one alone, both, and the earlier one again.
 *
 * The load, its history and its judge are those of the fault runs (`test/faults/`): new requests, duplicates at any sidecar, other
 * content under a known key, reservations made at one sidecar and ended at others. In each phase a node loses its memory or its process
 * under the sidecars of that phase, so that either version enrols it, and requests recorded in earlier phases are sent again. Where both
 * versions run, a pair of them tries every crossing beside the load.
 *
 * No fault is a cause for a second execution here: one is a violation.
 */
import { auditNodes } from '../faults/checkers/surroundings.ts'
import type { Violation } from '../faults/checkers/violation.ts'
import { Clients } from '../faults/clients.ts'
import { History } from '../faults/history.ts'
import { judge, type RunReport } from '../faults/judge.ts'
import { Load } from '../faults/load.ts'
import { LEASE_MS, NODES, openStage, type Stage } from '../faults/stage.ts'
import { eventually } from '../support/eventually.ts'
import { type Crossed, cross, describe } from './cross.ts'
import type { Version } from './pair.ts'

const SIDECARS = 3

type Versions = { readonly earlier: Version; readonly own: Version }

type Phase = {
  readonly name: string
  /** How many of the sidecars are of this version. */
  readonly own: number
  /** The node that restarts in it, and whether its memory is lost. */
  readonly node: number
  readonly emptied: boolean
}

/** `own` goes up and down again: an upgrade that is rolled back. */
const PHASES: readonly Phase[] = [
  { name: 'the earlier version alone', own: 0, node: 0, emptied: true },
  { name: 'both, on the way there', own: 2, node: 3, emptied: true },
  { name: 'this version alone', own: SIDECARS, node: 1, emptied: true },
  { name: 'both, on the way back', own: 1, node: 0, emptied: false },
  { name: 'the earlier version again', own: 0, node: 4, emptied: true },
]

type SkewOptions = {
  readonly seed: number
  /** Operations of the load in each phase, between its rollout and what else happens in it. */
  readonly operations: number
  /** Rows of the crossings that are tried in the phases with both versions; default: all. */
  readonly crossings?: readonly string[]
  readonly historyFile?: string
  readonly tell?: (line: string) => void
}

type SkewReport = {
  readonly report: RunReport
  readonly crossed: readonly Crossed[]
  /** Replays of requests that were recorded in any phase until then. */
  readonly askedAgain: number
}

/** From a change until every sidecar sees all nodes vote: quarantine, copying, a busy machine. */
const READY_MS = 180_000

/** Of the requests of all phases, so many are sent again in each. */
const ASKED_AGAIN_MAX = 150

/** Retention, the lease before it, and a minute: a node keeps nothing for longer. */
const TTL_MS_MAX = 86_400_000 + LEASE_MS + 60_000

export async function runSkew({ earlier, own }: Versions, options: SkewOptions): Promise<SkewReport> {
  const { seed, operations, crossings, historyFile, tell = () => {} } = options
  const history = new History(historyFile)
  await using stage = await openStage({
    sidecars: SIDECARS,
    main: earlier.main,
    // Nodes 0 to 2 keep a file, so that one of them comes back with its data.
    redisConfig: (node) => [`appendonly ${node <= 2 ? 'yes' : 'no'}`],
  })
  await using clients = new Clients(stage, history)
  const load = new Load(clients, SIDECARS, seed)
  const broken: Violation[] = []
  const crossed: Crossed[] = []
  let askedAgain = 0
  let versions: readonly Version[] = Array.from({ length: SIDECARS }, () => earlier)
  load.start()
  try {
    for (const phase of PHASES) {
      tell(phase.name)
      const wanted = Array.from({ length: SIDECARS }, (_, at) => (at < phase.own ? own : earlier))
      versions = await roll(stage, versions, wanted)
      await moreOperations(history, operations)
      await loseNode(stage, phase)
      if (phase.own > 0 && phase.own < SIDECARS) {
        const results = await cross([earlier, own], stage.servers.urls, crossings)
        for (const one of results)
          tell(`  ${one.failure === undefined ? 'as expected' : 'FAILED'}  ${describe(one)}`)
        crossed.push(...results)
      }
      askedAgain += await askAgain(clients, load.recorded, broken)
    }
  } finally {
    await load.stop()
  }
  broken.push(...(await auditNodes(stage.admin, TTL_MS_MAX)))
  history.close(stage.application.executions(), LEASE_MS)
  return { report: judge(seed, stage, history, broken, [], [], undefined), crossed, askedAgain }
}

/**
 * One sidecar after another, each when all vote again, as a Deployment does it.
 *
 * @returns the versions of the sidecars now
 */
async function roll(
  stage: Stage,
  from: readonly Version[],
  to: readonly Version[],
): Promise<readonly Version[]> {
  for (const [index, version] of to.entries()) {
    if (from[index] === version) continue
    await stage.endSidecar(index, 'SIGTERM')
    await stage.startSidecar(index, version.main)
    await stage.ready(NODES, READY_MS)
  }
  return to
}

async function moreOperations(history: History, count: number): Promise<void> {
  const before = history.operations.length
  await eventually(`${count} operations`, () => history.operations.length >= before + count, {
    withinMs: 120_000,
  })
}

/** Its process ends, and it comes back with its data or without; the sidecars of the phase bring it back to voting. */
async function loseNode(stage: Stage, { node, emptied }: Phase): Promise<void> {
  await stage.servers.kill(node)
  await stage.restartNode(node, { emptied })
  await stage.ready(NODES, READY_MS)
}

/** Evenly from all that was recorded yet, at another sidecar each: nothing acknowledged may be lost. */
async function askAgain(clients: Clients, recorded: readonly string[], broken: Violation[]): Promise<number> {
  const step = Math.max(1, Math.floor(recorded.length / ASKED_AGAIN_MAX))
  const keys = recorded.filter((_, at) => at % step === 0)
  let replayed = 0
  for (let from = 0; from < keys.length; from += 10) {
    const answers = await Promise.all(
      keys.slice(from, from + 10).map((key, at) => clients.submit({ sidecar: (from + at) % SIDECARS, key })),
    )
    for (const answer of answers) {
      // No answer, or 503 where a quorum was late, says nothing of the record; how many were replayed is in the report.
      if (answer.type !== 'ok' || answer.status === 503) continue
      if (answer.says === 'replayed') replayed += 1
      else
        broken.push({
          checker: 'recorded-and-lost',
          key: answer.key,
          detail: `recorded before, and answered ${answer.status} ${answer.says} by sidecar ${answer.sidecar}`,
        })
    }
  }
  return replayed
}
