/** The verdict on a run: every checker over its history, and whether it proves anything. */

import { checkVerdicts, decisionsOf, isDone } from './checkers/decisions.ts'
import { checkDedupRegister } from './checkers/dedup-register.ts'
import {
  checkAnswers,
  checkNothingAfterRecorded,
  checkTokenOrder,
  countExecutions,
  type Repetition,
} from './checkers/executions.ts'
import { checkFencedMutex } from './checkers/fenced-mutex.ts'
import { checkAnswerTimes, checkExits, checkLogs } from './checkers/surroundings.ts'
import type { Violation } from './checkers/violation.ts'
import { type Latencies, messagesPerSecond, type QuorumLoss } from './experiments.ts'
import { MAY_LOSE_LEASE } from './faults.ts'
import {
  type Decision,
  type History,
  isDecision,
  monoMs,
  type Operation,
  type Submission,
} from './history.ts'
import type { PorcupineReport } from './porcupine/porcupine.ts'
import { ANSWER_WITHIN_MS, type Stage } from './stage.ts'

export type RunReport = {
  readonly seed: number
  readonly tookMs: number
  readonly history: History
  readonly operations: number
  readonly executions: number
  readonly answers: Readonly<Record<string, number>>
  readonly repetitions: readonly Repetition[]
  readonly violations: readonly Violation[]
  /** Why the run proves nothing, where it doesn't. */
  readonly invalid: readonly string[]
  /** Faults for which there was no time. */
  readonly notRun: readonly string[]
  readonly latencies: readonly Latencies[]
  readonly quorumLoss: QuorumLoss | undefined
  /** Undefined where no history was written. */
  readonly porcupine: PorcupineReport | undefined
}

/** The sights of every valid run. */
const SOMETIMES = ['created', 'replayed', 'mismatch', 'in-progress'] as const

/** How soon every sidecar succeeds again when a lost quorum is back. */
const RECOVERED_WITHIN_MS = 2_000

/** The most messages a second to a node as the quorum returns, as a multiple of the ordinary rate. */
const HERD_MAX = 2

/** L1 after L2: the traffic comes back at once, and not as a herd. */
export function checkRecovery(loss: QuorumLoss): readonly Violation[] {
  const { recoveredMs } = loss
  const { ordinary, returning } = messagesPerSecond(loss)
  const told = (detail: string): Violation => ({ checker: 'progress', key: 'quorum lost', detail })
  return [
    ...(recoveredMs > RECOVERED_WITHIN_MS
      ? [told(`the first success of the slowest sidecar came ${recoveredMs.toFixed(0)} ms after the quorum`)]
      : []),
    ...(returning > HERD_MAX * ordinary
      ? [
          told(
            `${returning} messages in one second to one node as the quorum came back, ${ordinary} ordinarily`,
          ),
        ]
      : []),
  ]
}

/** The remains of the stage. */
export type Judged = {
  readonly logs: readonly string[]
  readonly exits: Stage['exits']
  readonly application: Pick<Stage['application'], 'executions'>
}

export function judge(
  seed: number,
  stage: Judged,
  history: History,
  broken: readonly Violation[],
  notRun: readonly string[],
  latencies: readonly Latencies[],
  loss: QuorumLoss | undefined,
): RunReport {
  const { operations, faults } = history
  const executions = stage.application.executions()
  const decisions = decisionsOf(operations, 'request')
  const counted = countExecutions(executions, faults, MAY_LOSE_LEASE, 3_000, decisions)
  const keys = operations.flatMap((one) => (one.f === 'submit' ? [one.key] : []))
  const answers: Record<string, number> = {}
  for (const one of operations) {
    const name = nameOf(one)
    answers[name] = (answers[name] ?? 0) + 1
  }
  const violations = [
    ...broken,
    ...counted.violations,
    ...checkDedupRegister(operations, executions),
    ...checkFencedMutex(operations),
    ...checkTokenOrder(executions, operations),
    ...checkNothingAfterRecorded(executions, operations),
    ...checkAnswers(executions, operations),
    ...checkVerdicts(operations),
    ...checkAnswerTimes(operations, ANSWER_WITHIN_MS),
    ...checkLogs(stage.logs, [...new Set(keys)].slice(0, 500)),
    ...checkExits(stage.exits),
    ...checkLastAnswers(operations.filter((one): one is Submission => one.f === 'submit' && one.healed)),
  ]
  return {
    seed,
    tookMs: monoMs() - history.startedMs,
    history,
    operations: operations.length,
    executions: counted.executions,
    answers,
    repetitions: counted.repetitions,
    violations,
    invalid: [
      ...faults.filter(({ bites }) => bites === 0).map(({ id }) => `${id} bit nothing`),
      ...faults
        .filter((fault) => !operations.some((one) => one.startMs < fault.untilMs && one.endMs > fault.fromMs))
        .map(({ id }) => `${id} overlapped no operation`),
      ...SOMETIMES.filter((sight) => answers[sight] === undefined).map((sight) => `never seen: ${sight}`),
    ],
    notRun,
    latencies,
    quorumLoss: loss,
    porcupine: undefined,
  }
}

function nameOf(one: Operation): string {
  if (one.type === 'info') return 'lost'
  if (one.f === 'submit') return one.says || one.code || String(one.status)
  return isDecision(one) ? `${one.f} ${one.was} ${one.effect}` : one.f
}

const KINDS = [
  'operator-end',
  'operator-complete',
  'operator-forget',
  'operator-ask',
  'operator-requeue',
  'operator-discard',
] as const satisfies readonly Decision['f'][]

/** How often each kind was decided, as far as the operator was told; of asking: by what the application said. */
export function decidedKinds(operations: readonly Operation[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const one of operations) {
    if (!isDecision(one) || !isDone(one)) continue
    const name = `${one.f.slice('operator-'.length)}${one.said === undefined ? '' : ` (${one.said})`}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

/** What no operator of the run is known to have decided: nothing is known of it then. */
export function notDecided(operations: readonly Operation[]): readonly string[] {
  const done = new Set(operations.filter((one) => isDecision(one) && isDone(one)).map(({ f }) => f))
  return KINDS.filter((f) => !done.has(f)).map((f) => `never decided: ${f}`)
}

/** S5 once more, plainly: after the healing no acknowledged request is executed, refused or lost. */
function checkLastAnswers(healed: readonly Submission[]): readonly Violation[] {
  return healed.flatMap((one): Violation[] => {
    if (one.type === 'ok' && one.status !== 500 && one.status !== 502 && one.status !== 410) return []
    return [
      {
        checker: 'progress',
        key: one.key,
        detail: `#${one.op} after the healing: ${one.type === 'ok' ? one.status : one.reason}`,
      },
    ]
  })
}
