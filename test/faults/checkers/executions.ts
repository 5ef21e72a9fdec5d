/**
 * The executions of the application, against the promise: once, or again with a cause and a higher `attempt`.
 *
 * Owns S2 (each execution beyond the first has a cause and says `attempt` 2 or more), S4 for tokens of executions, S7 and S9.
 */

import type { Decision, Execution, FaultWindow, Operation, Submission } from '../history.ts'
import { decisionsOf, mayFallBetween, takesBackExecutions } from './decisions.ts'
import { byKey, type Violation } from './violation.ts'

/** An execution beyond the first of its identity, and why. */
export type Repetition = { readonly key: string; readonly cause: string; readonly attempt: number }

export type Counted = {
  readonly executions: number
  readonly repetitions: readonly Repetition[]
  readonly violations: readonly Violation[]
}

/** Answers after which the key is free at once (docs/reference/http.md, "What is stored"). */
const RELEASES =
  /^status:(401|403|407|412|419|421|423|425|428|429|431|440|449|498|50[0135-9]|52[135-9]|5[13-9]\d)$/
/** From the answer of the application to its record: a fault that begins later is no cause. */
const SETTLED_AFTER_MS = 2_000
/** Answers of unknown effect: the lock stays until the lease ends. */
const BREAKS =
  /^(crash-|half-body|reset|wrong-length|huge-head|endless|status:(408|499|502|504|520|522|524)$)/

/**
 * @param mayLoseLease ids of faults during which a holder may lose its lease: by pause, crash, or a lost quorum
 * @param slowMs from when on an answer of the application is too late
 * @param decisions of operators about these requests
 */
export function countExecutions(
  executions: readonly Execution[],
  faults: readonly FaultWindow[],
  mayLoseLease: ReadonlySet<string>,
  slowMs: number,
  decisions: readonly Decision[] = [],
): Counted {
  const repetitions: Repetition[] = []
  const violations: Violation[] = []
  const decided = byKey(decisions, ({ tenant, key }) => `${tenant}/${key}`)
  for (const [key, ofKey] of byKey(executions, ({ tenant, key }) => `${tenant}/${key}`)) {
    const sorted = [...ofKey].sort((a, b) => a.startMs - b.startMs)
    for (const [index, later] of sorted.entries()) {
      const earlier = sorted[index - 1]
      if (earlier === undefined) continue
      const cause =
        causeOf(earlier, later, faults, mayLoseLease, slowMs) ??
        decisionBetween(earlier, later, decided.get(key) ?? [])
      if (cause !== undefined) {
        repetitions.push({ key, cause, attempt: later.attempt })
        continue
      }
      violations.push({
        checker: overlaps(earlier, later) ? 'interval-overlap' : 'counting',
        key,
        detail: `executed again without a cause: ${describeOf(earlier)}, then ${describeOf(later)}`,
      })
    }
  }
  return { executions: executions.length, repetitions, violations }
}

function causeOf(
  earlier: Execution,
  later: Execution,
  faults: readonly FaultWindow[],
  mayLoseLease: ReadonlySet<string>,
  slowMs: number,
): string | undefined {
  const { mode } = earlier
  if (RELEASES.test(mode))
    return later.startMs >= (earlier.endMs ?? 0) ? `the application answered ${mode}` : undefined
  // The token distinguishes an older holder that arrives late; the newer one has attempt 2 or more.
  const attempt = Math.max(earlier.token, later.token) === later.token ? later.attempt : earlier.attempt
  if (attempt < 2) return undefined
  if (BREAKS.test(mode) || earlier.endMs === undefined) return `the application broke off: ${mode}`
  const slow = /^slow:(\d+)$/.exec(mode)
  if (slow !== null && Number(slow[1]) >= slowMs) return 'the application answered too late'
  const settledMs = (earlier.endMs ?? later.startMs) + SETTLED_AFTER_MS
  const during = faults.find(
    ({ id, fromMs, untilMs }) =>
      mayLoseLease.has(id) && fromMs <= Math.min(later.startMs, settledMs) && untilMs >= earlier.startMs,
  )
  return during === undefined ? undefined : `${during.id} ${during.what}`
}

/**
 * A forgotten or requeued request is executed as a first attempt again; one whose claim was ended as a further one. The earlier request
 * may have been on its way to the application when its claim was decided about, and have arrived after the decision.
 */
function decisionBetween(
  earlier: Execution,
  later: Execution,
  decisions: readonly Decision[],
): string | undefined {
  const newer = later.token > earlier.token ? later : earlier
  const cause = decisions.find(
    (one) =>
      (mayFallBetween(one, earlier.startMs, later.startMs) ||
        (concernsClaimOf(one, earlier) && one.startMs <= later.startMs)) &&
      (takesBackExecutions(one) || (one.was === 'live' && newer.attempt >= 2)),
  )
  return cause === undefined ? undefined : `an operator's decision: ${cause.f.slice('operator-'.length)}`
}

function concernsClaimOf({ was, token }: Decision, execution: Execution): boolean {
  return was === 'live' && token === execution.token
}

function overlaps(earlier: Execution, later: Execution): boolean {
  return later.startMs < (earlier.endMs ?? earlier.startMs)
}

function describeOf({ op, token, attempt, mode, startMs, endMs }: Execution): string {
  return `#${op} token ${token} attempt ${attempt} ${mode} ${startMs.toFixed(0)}-${endMs?.toFixed(0) ?? 'never'}`
}

/**
 * S4: a request that is sent after an execution began gets a larger token than that execution. Overlapping requests are
 * not ordered: the older holder may arrive later, which is what tokens are for.
 */
export function checkTokenOrder(
  executions: readonly Execution[],
  operations: readonly Operation[],
): readonly Violation[] {
  const asked = new Map(operations.flatMap((one) => (one.f === 'submit' ? [[one.op, one.startMs]] : [])))
  const violations: Violation[] = []
  for (const [key, ofKey] of byKey(executions, ({ tenant, key }) => `${tenant}/${key}`)) {
    for (const earlier of ofKey) {
      for (const later of ofKey) {
        if (later === earlier) continue
        const inverted = (asked.get(later.op) ?? 0) > earlier.startMs && later.token <= earlier.token
        const reused = later.token === earlier.token && later.startMs > earlier.startMs
        if (inverted || reused) {
          const detail = `${describeOf(earlier)}, and later ${describeOf(later)}`
          violations.push({ checker: 'token-order', key, detail })
        }
      }
    }
  }
  return violations
}

/** S1, S8: no execution follows an answer that was recorded and shown, but where an operator had it forgotten. */
export function checkNothingAfterRecorded(
  executions: readonly Execution[],
  operations: readonly Operation[],
): readonly Violation[] {
  const shown = byKey(operations.filter(showsRecorded), ({ tenant, key }) => `${tenant}/${key}`)
  const decided = byKey(decisionsOf(operations, 'request'), ({ tenant, key }) => `${tenant}/${key}`)
  return executions.flatMap((execution): Violation[] => {
    const key = `${execution.tenant}/${execution.key}`
    const before = (shown.get(key) ?? []).filter(({ endMs }) => endMs < execution.startMs)
    const last = before.reduce<ShowsRecorded | undefined>(
      (latest, one) => (latest === undefined || one.startMs > latest.startMs ? one : latest),
      undefined,
    )
    if (last === undefined) return []
    const isExcused = (decided.get(key) ?? []).some(
      (one) =>
        (one.f === 'operator-forget' && mayFallBetween(one, last.startMs, execution.startMs)) ||
        // Its holder was fenced, and had begun, or begins without knowing.
        (one.was === 'live' && one.startMs <= execution.startMs && execution.token <= one.token),
    )
    if (isExcused) return []
    return [
      {
        checker: 'carried-out-after-recorded',
        key,
        detail: `${describeOf(execution)}, shown at ${last.endMs.toFixed(0)}`,
      },
    ]
  })
}

type ShowsRecorded = Submission & { readonly type: 'ok' }

function showsRecorded(one: Operation): one is ShowsRecorded {
  return one.f === 'submit' && one.type === 'ok' && (one.says === 'created' || one.says === 'replayed')
}

/** S7, S9: an answer shown as recorded is a whole answer to an execution of this very tenant, key and content. */
export function checkAnswers(
  executions: readonly Execution[],
  operations: readonly Operation[],
): readonly Violation[] {
  const answers = new Map<string, Execution[]>()
  for (const one of executions) answers.set(one.answer, [...(answers.get(one.answer) ?? []), one])
  const byHand = Map.groupBy(decisionsOf(operations, 'request'), ({ result }) => result)
  return operations.filter(showsRecorded).flatMap((one): Violation[] => {
    const key = `${one.tenant}/${one.key}`
    const writer = byHand.get(one.body)?.[0]
    if (writer?.tenant === one.tenant && writer.key === one.key && writer.startMs <= one.endMs) return []
    const from = answers.get(one.body)
    if (from === undefined)
      return [
        {
          checker: 'whole-answers',
          key,
          detail: `#${one.op} was shown an answer that no execution gave whole: ${one.body.slice(0, 80)}`,
        },
      ]
    if (
      from.some((each) => each.tenant === one.tenant && each.key === one.key && each.content === one.content)
    )
      return []
    return [
      {
        checker: 'scope',
        key,
        detail: `#${one.op} was shown the answer to ${from[0]?.tenant}/${from[0]?.key}`,
      },
    ]
  })
}
