/**
 * A step as its caller defines it: its identity, its handlers, and its outcome. `step.ts` runs it.
 */
import type { Tx } from './database.ts'
import type { BusinessError } from './errors.ts'

export type StepRequest = {
  readonly scope: string
  readonly key: string
  readonly request: unknown
  /** The effect must end within it; its signal aborts a little before. */
  readonly leaseMs: number
  /** All claims, including those of crashed processes. Default 5. */
  readonly maxAttempts?: number
  /** How long repetitions get the outcome. Default 24 hours; 90 days in a handler of the form `{ outside }`. */
  readonly ttlMs?: number
  /** The token of a lock that the caller holds; default: one from the database's own sequence. */
  readonly fencingToken?: number
  /** Further reasons to stop, for example the loss of a lock. */
  readonly signal?: AbortSignal
  /** Keep the request itself, so that `recovery.ts` can pass it on after a crash. Default false. */
  readonly keepRequest?: boolean
}

export type StepContext = {
  readonly scope: string
  readonly key: string
  /** For the provider: the same in every attempt, and in every process. */
  readonly idempotencyKey: string
  readonly fencingToken: number
  /** 1, or more if an earlier attempt failed or vanished. */
  readonly attempt: number
  readonly signal: AbortSignal
}

/** What a definite refusal is recorded as, unless `reject` says otherwise. */
export type Refusal = { readonly code: string; readonly message: string; readonly details: unknown }

export type StepHandlers<V, R, F = Refusal> = {
  /** Outside any transaction. Throw `BusinessError` for a definite refusal. */
  readonly effect: (context: StepContext) => Promise<V>
  /** Inside the settling transaction, together with the outcome. */
  readonly commit: (tx: Tx, value: V, context: StepContext) => Promise<R>
  /** What a definite refusal writes and returns. Default: the error's code, message and details as the result. */
  readonly reject?: (tx: Tx, error: BusinessError, context: StepContext) => Promise<F>
  /** Called first from the second attempt on: the provider's result of the earlier attempt; undefined: none. */
  readonly reconcile?: (context: StepContext) => Promise<V | undefined>
}

/** `failed` is a definite refusal by the business. A fault is thrown, and is no outcome. */
export type StepOutcome<R, F = Refusal> =
  | { readonly replayed: boolean; readonly outcome: 'completed'; readonly result: R }
  | { readonly replayed: boolean; readonly outcome: 'failed'; readonly result: F }

/** What a saga adds to the two transactions (`saga-step.ts`). */
export type StepHooks<V> = {
  readonly claimed?: (tx: Tx, context: { readonly attempt: number }) => Promise<void>
  readonly settled?: (tx: Tx, outcome: 'completed' | 'failed', resultText: string) => Promise<void>
  /** The step waits for a person. In the transaction that says so, and again whenever a caller finds it like that. */
  readonly parked?: (tx: Tx, reason: string) => Promise<void>
  /**
   * The effect has ended and its outcome is not written, or not by us: a compensation may have run before the effect
   * took place. `value` is undefined if it is unknown whether it did. Must not reject: its caller may no longer wait
   * for it.
   */
  readonly unsettled?: (value: V | undefined, context: StepContext) => Promise<void>
}
