/**
 * One fault of a run: injected, healed, and waited for, each within a time, so that an outage that outlasts its healing
 * ends the run with its name instead of hanging it.
 */

import type { Violation } from './checkers/violation.ts'
import { type Fault, type FaultContext, pause } from './fault.ts'
import { monoMs } from './history.ts'
import { NODES } from './stage.ts'

/** A fault is over within this; the longest restarts every node and waits for each. */
const FAULT_MS_MAX = 300_000

const MAJORITY = Math.floor(NODES / 2) + 1

/** The run cannot go on: names the last action, and what each sidecar has seen since. */
export class DidNotComeBack extends Error {}

/** @throws DidNotComeBack */
export async function inject(
  fault: Fault,
  context: FaultContext,
  run: {
    readonly broken: Violation[]
    readonly tell: (line: string) => void
    readonly backWithinMs: number
  },
): Promise<void> {
  const { stage, history } = context
  const { id, what } = fault
  const fromMs = monoMs()
  const windowOf = (bites: number) => ({ id, what, fromMs, untilMs: monoMs(), bites })
  let bites = 0
  try {
    bites = await inTime(fault.inject(context), `${id} (${what})`)
  } catch (cause) {
    if (cause instanceof DidNotComeBack) {
      history.fault(windowOf(bites))
      throw cause
    }
    run.broken.push({ checker: 'harness', key: id, detail: said(cause) })
  }
  await stage.heal().catch((cause: unknown) => {
    throw new DidNotComeBack(`what ${id} (${what}) did could not be undone: ${said(cause)}`)
  })
  history.fault(windowOf(bites))
  run.tell(`${id.padEnd(5)} ${((monoMs() - fromMs) / 1_000).toFixed(1).padStart(5)} s  bit ${bites}  ${what}`)
  await backTo(context, MAJORITY, run.backWithinMs, `the healing of ${id} (${what})`)
}

async function inTime<T>(work: Promise<T>, name: string): Promise<T> {
  const over = new AbortController()
  try {
    return await Promise.race([
      work,
      pause(FAULT_MS_MAX, undefined, { signal: over.signal }).then(() => {
        throw new DidNotComeBack(`${name} was not over after ${FAULT_MS_MAX / 1_000} s`)
      }),
    ])
  } finally {
    over.abort()
  }
}

/**
 * Waits until every sidecar sees this many voting nodes and executes a request: its view may be of before the fault.
 *
 * @throws DidNotComeBack where that takes too long
 */
export async function backTo(
  { stage, clients, freshKey }: FaultContext,
  votes: number,
  withinMs: number,
  after: string,
): Promise<void> {
  const untilMs = monoMs() + withinMs
  for (const sidecar of stage.sidecars.keys()) {
    for (;;) {
      const seen = await stage.votingNodes(sidecar).catch(() => 0)
      const answer = await clients.submit({ sidecar, key: freshKey() })
      const answered = answer.type === 'ok' ? `${answer.status} ${answer.says || answer.code}` : answer.reason
      if (seen >= votes && answer.type === 'ok' && answer.says === 'created') break
      if (monoMs() >= untilMs) {
        const all = await Promise.all(stage.sidecars.map((_, at) => stage.votingNodes(at).catch(() => 0)))
        throw new DidNotComeBack(
          `${withinMs / 1_000} s after ${after} there were not ${votes} voting nodes and an answer: of ${NODES} the sidecars see ${all.join(', ')}, and a request is answered ${answered}`,
        )
      }
      await pause(100)
    }
  }
}

function said(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
