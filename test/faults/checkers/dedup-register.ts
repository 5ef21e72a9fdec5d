/**
 * Requests of one identity as a write-once register: the first recorded answer is the answer of every later request.
 *
 * Owns the model of S2, S5, S6 and S10; the search is `linearizability.ts`. An answer marked `unstored` may be recorded
 * later, and a request of unknown outcome may have been recorded with an unseen answer. So may a request that was
 * executed and told "in progress": the other one may find its answer on some node and record it.
 */

import type { Execution, Operation, Submission } from '../history.ts'
import { linearize, type Model, type Timed } from './linearizability.ts'
import { byKey, type Violation } from './violation.ts'

type State = { readonly content: string; readonly body: string | undefined } | undefined
type Op = Timed & {
  readonly content: string
  readonly effect: 'created' | 'replayed' | 'unknown'
  readonly body: string
}

const MODEL: Model<State, Op> = {
  initial: undefined,
  step: (state, { effect, content, body }) => {
    switch (effect) {
      case 'created':
        return state === undefined ? { content, body } : undefined
      case 'unknown':
        return state === undefined ? { content, body: body === '' ? undefined : body } : undefined
      case 'replayed':
        if (state === undefined || state.content !== content) return undefined
        return state.body === undefined || state.body === body ? { content, body } : undefined
    }
  },
  nameOf: (state) => (state === undefined ? '' : `${state.content} ${state.body ?? '?'}`),
}

export function checkDedupRegister(
  operations: readonly Operation[],
  executions: readonly Execution[],
): readonly Violation[] {
  const executed = new Set(executions.map(({ op }) => op))
  const submissions = operations.filter((operation): operation is Submission => operation.f === 'submit')
  return [...byKey(submissions, ({ tenant, key }) => `${tenant}/${key}`)].flatMap(
    ([key, ofKey]): Violation[] => {
      const found = [...checkMismatches(key, ofKey)]
      const verdict = linearize(
        ofKey.flatMap((one) => asOp(one, executed)),
        MODEL,
      )
      if (verdict !== 'linearizable') {
        const checker = verdict === 'violated' ? 'dedup-register' : 'dedup-register-undecided'
        found.push({ checker, key, detail: ofKey.slice(0, 12).map(describe).join('; ') })
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
