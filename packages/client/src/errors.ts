/**
 * What can go wrong with a reservation, as classes: test with `instanceof`, not by message.
 *
 *   FencepostError ─┬─ ConflictError ── EntityBusyError     another holder has it: later, perhaps
 *                   ├─ DuplicateError                       it was done: here is its result
 *                   ├─ MismatchError                        the key was used for another request
 *                   ├─ UndecidedError                       an earlier attempt ended without an outcome
 *                   ├─ LeaseLostError ─┬─ FencedError       it is no longer ours: stop
 *                   │                  └─ ReservationLostError   nobody knows it any more: look what was done
 *                   ├─ CompletionUndecidedError             it is unknown whether our result stands: reserve again to find out
 *                   ├─ QuorumUnavailableError               it cannot be known now; safe to send again
 *                   ├─ UnreachableError                     the sidecar did not answer
 *                   └─ RefusedError                         the call itself is wrong
 */

/** An RFC 9457 document of the sidecar, as far as this client reads it. */
export type ProblemDocument = {
  readonly code?: string
  readonly title?: string
  readonly detail?: string
  readonly status?: number
  readonly retry_after?: number
  readonly value?: string
  readonly entity?: string
  readonly result?: unknown
  readonly fencing_token?: number
  readonly attempt?: number
  readonly completed_at?: string
  readonly [member: string]: unknown
}

export class FencepostError extends Error {
  override readonly name: string = 'FencepostError'
  /** The answer's; 0 without an answer. */
  readonly status: number
  /** Code of the problem (docs/reference/problems.md); empty where the sidecar did not answer with one. */
  readonly code: string
  readonly problem: ProblemDocument

  /** The type `ErrorOptions` is unknown in a project whose `lib` ends before ES2022. */
  constructor(
    message: string,
    status: number,
    problem: ProblemDocument,
    options?: { readonly cause?: unknown },
  ) {
    super(message, options)
    this.status = status
    this.code = problem.code ?? ''
    this.problem = problem
  }
}

/** Another holder has it. */
export class ConflictError extends FencepostError {
  override readonly name: string = 'ConflictError'
  /** The value that conflicts. */
  readonly value: string | undefined
  readonly retryAfterMs: number

  constructor(message: string, status: number, problem: ProblemDocument) {
    super(message, status, problem)
    this.value = problem.value ?? problem.entity
    this.retryAfterMs = (problem.retry_after ?? 1) * 1_000
  }
}

/** Another holder works on one of the entities. */
export class EntityBusyError extends ConflictError {
  override readonly name = 'EntityBusyError'
}

/** It was done before. Do not do it again. */
export class DuplicateError extends FencepostError {
  override readonly name = 'DuplicateError'
  /** The result that its holder reported. */
  readonly result: unknown
  readonly fencingToken: number
  readonly attempt: number
  readonly completedAt: Date

  constructor(message: string, status: number, problem: ProblemDocument) {
    super(message, status, problem)
    this.result = problem.result
    this.fencingToken = problem.fencing_token ?? 0
    this.attempt = problem.attempt ?? 1
    this.completedAt = new Date(problem.completed_at ?? Number.NaN)
  }
}

/** The key was first used for another request. */
export class MismatchError extends FencepostError {
  override readonly name = 'MismatchError'
}

/** An earlier attempt ended without an outcome, and `takeover: 'indeterminate'` allows no other. */
export class UndecidedError extends FencepostError {
  override readonly name = 'UndecidedError'
}

/** No longer ours. Stop working: another holder may have begun. */
export class LeaseLostError extends FencepostError {
  override readonly name: string = 'LeaseLostError'
}

/** Too late to complete or release: a later holder decides. */
export class FencedError extends LeaseLostError {
  override readonly name = 'FencedError'
}

/**
 * No sidecar of this cluster knows the id: its nodes lost what they knew, or another cluster gave it out. Nobody took over,
 * and nobody will answer for it. Look whether the work was done before you reserve it again.
 */
export class ReservationLostError extends LeaseLostError {
  override readonly name = 'ReservationLostError'
}

/**
 * A later holder took over, and it is unknown whether our result stands: some node has it, or may have it. Neither undo
 * the work nor repeat it before that is known. `reserve` the same again: a {@link DuplicateError} has the result that
 * stands; a reservation means that none does yet, and its `attempt` is above 1, so check whether the effect took place.
 */
export class CompletionUndecidedError extends FencepostError {
  override readonly name = 'CompletionUndecidedError'
}

/** Fewer nodes replied than a decision needs, during the whole retry budget. */
export class QuorumUnavailableError extends FencepostError {
  override readonly name = 'QuorumUnavailableError'
}

/** The sidecar did not answer. The call may have taken effect. */
export class UnreachableError extends FencepostError {
  override readonly name = 'UnreachableError'
}

/** The sidecar refuses the call: its form, its token, its size, or too many others in flight. */
export class RefusedError extends FencepostError {
  override readonly name = 'RefusedError'
}

const CLASSES: Readonly<
  Record<string, new (message: string, status: number, problem: ProblemDocument) => FencepostError>
> = {
  'reservation-conflict': ConflictError,
  'entity-busy': EntityBusyError,
  'reservation-duplicate': DuplicateError,
  'key-reused': MismatchError,
  'outcome-undecided': UndecidedError,
  'lease-lost': LeaseLostError,
  'reservation-lost': ReservationLostError,
  fenced: FencedError,
  'completion-undecided': CompletionUndecidedError,
  'quorum-unavailable': QuorumUnavailableError,
}

export function errorFrom(status: number, problem: ProblemDocument): FencepostError {
  // Another server's document has a title, too; a code of these only fencepost has.
  const message =
    problem.detail ?? problem.title ?? `the answer with status ${status} is not one of fencepost`
  const { code = '' } = problem
  const Class = Object.hasOwn(CLASSES, code) ? CLASSES[code] : undefined
  return new (Class ?? RefusedError)(message, status, problem)
}
