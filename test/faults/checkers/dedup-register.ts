/**
 * Requests of one identity as a write-once register: the first recorded answer is the answer of every later request.
 *
 * Owns the model of S2, S5, S6 and S10; the search is `linearizability.ts`. An answer marked `unstored` may be recorded
 * later, and a request of unknown outcome may have been recorded with an unseen answer. So may a request that was
 * executed and told "in progress": the other one may find its answer on some node and record it. Only an operator makes
 * the register empty again, or writes another answer into it (`decisions.ts`).
 */

import { type Decision, type Execution, NOT_KEPT, type Operation, type Submission } from '../history.ts'
import { decisionsOf, describeDecision, type Step, stepsOf } from './decisions.ts'
import { linearize, type Model, type Timed } from './linearizability.ts'
import { byKey, type Violation } from './violation.ts'

type Recorded = {
  /** Undefined: by hand, for a request of which no answer has shown the content yet. */
  readonly content: string | undefined
  /** Undefined: not seen yet. */
  readonly body: string | undefined
}

type State = {
  readonly recorded: Recorded | undefined
  /** It was perhaps forgotten by some nodes alone, and comes back where another one shows it. */
  readonly mayReturn: Recorded | undefined
}

type Op = Timed & {
  readonly content: string
  readonly effect: 'created' | 'replayed' | 'unknown' | 'forgotten' | 'by-hand'
  readonly body: string
  /** Of an operator: what the record was. */
  readonly was?: Decision['was']
}

const EMPTY: State = { recorded: undefined, mayReturn: undefined }

const MODEL: Model<State, Op> = {
  initial: EMPTY,
  step: (state, op) => {
    const { effect, content, body } = op
    const { recorded, mayReturn } = state
    switch (effect) {
      case 'created':
        return recorded === undefined ? { ...EMPTY, recorded: { content, body } } : undefined
      case 'unknown':
        return recorded === undefined
          ? { ...EMPTY, recorded: { content, body: body === '' ? undefined : body } }
          : undefined
      case 'replayed': {
        const shown = recorded ?? mayReturn
        if (shown === undefined || (shown.content ?? content) !== content) return undefined
        return (shown.body ?? body) === body ? { ...EMPTY, recorded: { content, body } } : undefined
      }
      case 'forgotten':
        return forgotten(state, op)
      case 'by-hand':
        return byHand(state, op)
    }
  },
  nameOf: ({ recorded, mayReturn }) => `${nameOf(recorded)} ${nameOf(mayReturn)}`,
}

function forgotten({ recorded, mayReturn }: State, { was, optional }: Op): State | undefined {
  if (was !== 'completed') return recorded === undefined ? { recorded, mayReturn } : undefined
  const known = recorded ?? mayReturn
  if (known === undefined) return undefined
  return optional ? { recorded: undefined, mayReturn: known } : EMPTY
}

/** It replaces an outcome only where the operator saw one. */
function byHand({ recorded, mayReturn }: State, { was, body }: Op): State | undefined {
  const known = was === 'completed' ? (recorded ?? mayReturn) : recorded
  if ((was === 'completed') !== (known !== undefined)) return undefined
  return { ...EMPTY, recorded: { content: known?.content, body } }
}

function nameOf(recorded: Recorded | undefined): string {
  return recorded === undefined ? '' : `${recorded.content ?? '?'} ${recorded.body ?? '?'}`
}

export function checkDedupRegister(
  operations: readonly Operation[],
  executions: readonly Execution[],
): readonly Violation[] {
  const executed = new Set(executions.map(({ op }) => op))
  const submissions = operations.filter((operation): operation is Submission => operation.f === 'submit')
  const decided = byKey(decisionsOf(operations, 'request'), ({ tenant, key }) => `${tenant}/${key}`)
  // Also where nothing is said to be decided: then no 410 may be shown.
  const discarded = new Set(
    operations.flatMap((one) => (one.f === 'operator-discard' ? [`${one.tenant}/${one.key}`] : [])),
  )
  return [...byKey(submissions, ({ tenant, key }) => `${tenant}/${key}`)].flatMap(
    ([key, ofKey]): Violation[] => {
      const found = [...checkMismatches(key, ofKey)]
      const decisions = decided.get(key) ?? []
      const ops = [
        ...ofKey.flatMap((one) => asOp(one, executed)),
        ...(discarded.has(key) ? ofKey.flatMap(asNotKept) : []),
        ...decisions.flatMap(stepsOf).flatMap(asStep),
      ]
      const verdict = linearize(ops, MODEL)
      if (verdict !== 'linearizable') {
        const checker = verdict === 'violated' ? 'dedup-register' : 'dedup-register-undecided'
        const said = [...ofKey.slice(0, 12).map(describe), ...decisions.map(describeDecision)]
        found.push({ checker, key, detail: said.join('; ') })
      }
      return found
    },
  )
}

function asOp(submission: Submission, executed: ReadonlySet<number>): Op[] {
  const { startMs, content } = submission
  const unknown = (body: string): Op[] => [
    { startMs, endMs: Number.POSITIVE_INFINITY, optional: true, content, effect: 'unknown', body },
  ]
  if (submission.type === 'info') return unknown('')
  const { endMs, body, says } = submission
  switch (says) {
    case 'created':
    case 'replayed':
      return [{ startMs, endMs, optional: false, content, effect: says, body }]
    case 'unstored':
      return unknown(body)
    case 'indeterminate':
      return unknown('')
    case 'in-progress':
      return executed.has(submission.op) ? unknown('') : []
    default:
      return []
  }
}

/** 410. It may also be an answer that was too large to be kept: where no operator discards it nothing follows from it. */
function asNotKept(one: Submission): Op[] {
  if (one.type === 'info' || one.code !== 'response-not-stored') return []
  const { startMs, endMs, content } = one
  return [{ startMs, endMs, optional: false, content, effect: 'replayed', body: NOT_KEPT }]
}

/** Ending a claim leaves the register as it is. */
function asStep({ what, decision, ...times }: Step): Op[] {
  if (what === 'ended') return []
  return [{ ...times, effect: what, was: decision.was, content: '', body: decision.result ?? '' }]
}

/** S10: 422 only where the key was used with other content. */
function* checkMismatches(key: string, ofKey: readonly Submission[]): Generator<Violation> {
  for (const one of ofKey) {
    if (one.type !== 'ok' || one.status !== 422) continue
    if (!ofKey.some((other) => other.content !== one.content && other.startMs < one.endMs)) {
      yield {
        checker: 'dedup-register',
        key,
        detail: `422, and no other content was ever sent: ${describe(one)}`,
      }
    }
  }
}

export function describe(one: Submission): string {
  const answer = one.type === 'ok' ? `${one.status} ${one.says} ${one.body.slice(0, 60)}` : one.reason
  return `#${one.op} sidecar ${one.sidecar} ${one.startMs.toFixed(0)}-${one.endMs.toFixed(0)}: ${answer}`
}
