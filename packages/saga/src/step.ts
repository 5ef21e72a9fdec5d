/**
 * A step with an effect outside the database (a payment), in two short transactions around it:
 *
 *     claim   key in_progress, a new fence, a lease          COMMIT
 *     effect  the provider is called with a derived key      no transaction, no connection
 *     settle  only if the fence is still ours: result, rows of the application, events of the outbox    COMMIT
 *
 * A crash between them leaves `in_progress` with a lease that expires. The next caller takes over under a higher fence,
 * asks the provider for the earlier result (`reconcile`) or calls it again under the same derived key. So the effect
 * takes place once only if the provider honours that key; the database writes happen once in any case.
 * A definite refusal by the business is an outcome: committed, and replayed. Faults are thrown, and retried up to
 * `maxAttempts`; then the step is `parked` and waits for a person.
 *
 * Source: Brandur Leach, "Implementing Stripe-like Idempotency Keys in Postgres" (atomic phases).
 */

import type { Tx } from './database.ts'
import {
  AttemptsExhaustedError,
  BusinessError,
  LateRefusalError,
  LeaseEndedError,
  StepOvertakenError,
  StepSuspendedError,
} from './errors.ts'
import type { SagaKit } from './kit.ts'
import { refuseInTransaction } from './open-transactions.ts'
import { requireName, requirePositive, requireWhole } from './option-checks.ts'
import { canonicalJson, derivedKey, hashOfText } from './request-hash.ts'
import type {
  Refusal,
  StepContext,
  StepHandlers,
  StepHooks,
  StepOutcome,
  StepRequest,
} from './step-definition.ts'
import { type Claim, type Claimed, claimOrReplay, noteFailure, settle, surviving } from './step-record.ts'

const outsideInstead =
  'it commits its claim before the effect: call it before the transaction, or in a handler of the form { outside }'

export async function runIdempotentStep<V, R, F = Refusal>(
  kit: SagaKit,
  step: StepRequest,
  handlers: StepHandlers<V, R, F>,
  hooks: StepHooks<V> = {},
): Promise<StepOutcome<R, F>> {
  requireName('scope', step.scope)
  requireName('key', step.key)
  requirePositive({ leaseMs: step.leaseMs, ttlMs: step.ttlMs })
  requireWhole({ maxAttempts: step.maxAttempts })
  refuseInTransaction(kit.pool, 'runIdempotentStep', outsideInstead)
  const text = canonicalJson(step.request)
  const claim: Claim = { step, owner: kit.random.hex(16), hash: hashOfText(text), text }
  let askedMonoMs = 0
  const claimed = await surviving(kit, 3, () =>
    kit.transaction((tx) => {
      // Not before: the lease is not shorter by the wait for a connection.
      askedMonoMs = kit.clock.monoMs()
      return claimOrReplay(kit, tx, claim, hooks)
    }),
  )
  if (claimed.kind === 'parked') throw parkedError(kit, step, claimed.attempts, claimed.reason)
  if (claimed.kind === 'settled') {
    kit.emit({ kind: 'replayed', scope: step.scope, outcome: claimed.outcome })
    // What was recorded is what the handlers of this step returned.
    return { replayed: true, outcome: claimed.outcome, result: claimed.result } as StepOutcome<R, F>
  }
  if (claimed.attempt > 1)
    kit.emit({ kind: 'taken_over', scope: step.scope, key: step.key, attempt: claimed.attempt })
  return execute(kit, claim, claimed, askedMonoMs + claimed.leftMs, handlers, hooks)
}

async function execute<V, R, F>(
  kit: SagaKit,
  claim: Claim,
  claimed: Claimed,
  untilMonoMs: number,
  handlers: StepHandlers<V, R, F>,
  hooks: StepHooks<V>,
): Promise<StepOutcome<R, F>> {
  const { step } = claim
  const lease = leaseSignal(kit, step, untilMonoMs)
  const context: StepContext = {
    scope: step.scope,
    key: step.key,
    idempotencyKey: derivedKey([step.scope, step.key]),
    fencingToken: step.fencingToken ?? claimed.fence,
    attempt: claimed.again ? Math.max(2, claimed.attempt) : 1,
    signal: lease.signal,
  }
  let answer: Answer<V> | undefined
  try {
    answer = await askProvider(step, context, handlers, hooks).finally(lease.end)
    if (answer.kind === 'no') {
      const { error } = answer
      const { reject = async () => refusal(error) } = handlers
      const no = (tx: Tx) => reject(tx, error, context)
      return (await settle(kit, claim, claimed, 'failed', hooks, no)) as StepOutcome<R, F>
    }
    const { value } = answer
    const yes = (tx: Tx) => handlers.commit(tx, value, context)
    return (await settle(kit, claim, claimed, 'completed', hooks, yes)) as StepOutcome<R, F>
  } catch (thrown) {
    // A consumer would take it for the outcome of its message, and the effect would be forgotten.
    const error =
      thrown instanceof BusinessError ? new LateRefusalError(`${step.scope} ${step.key}`, thrown) : thrown
    const parkedAfter = isOvertaken(error)
      ? undefined
      : await noteFailure(kit, claim, claimed, error, hooks.parked)
    // An abandoned effect reports its own end; a refusal leaves nothing to undo.
    const abandoned = answer === undefined && context.signal.aborted
    if (!abandoned && answer?.kind !== 'no') await hooks.unsettled?.(answer?.value, context)
    throw parkedAfter === undefined ? error : parkedError(kit, step, parkedAfter, error)
  }
}

type Answer<V> =
  | { readonly kind: 'yes'; readonly value: V }
  | { readonly kind: 'no'; readonly error: BusinessError }

async function askProvider<V>(
  step: StepRequest,
  context: StepContext,
  handlers: Pick<StepHandlers<V, unknown, unknown>, 'effect' | 'reconcile'>,
  hooks: StepHooks<V>,
): Promise<Answer<V>> {
  const work = async () => {
    const earlier = context.attempt > 1 ? await handlers.reconcile?.(context) : undefined
    return earlier ?? (await handlers.effect(context))
  }
  const abandoned = (working: Promise<V>) =>
    void working.then(
      (value) => hooks.unsettled?.(value, context),
      (error) => (error instanceof BusinessError ? undefined : hooks.unsettled?.(undefined, context)),
    )
  try {
    const value = await untilAborted(context.signal, step, work, abandoned)
    return { kind: 'yes', value }
  } catch (error) {
    if (error instanceof BusinessError) return { kind: 'no', error }
    throw error
  }
}

/** The step is no longer ours to settle. (A resource whose fence refused the commit is an ordinary fault.) */
function isOvertaken(error: unknown): boolean {
  return error instanceof StepOvertakenError || error instanceof StepSuspendedError
}

function refusal({ code, message, details }: BusinessError): Refusal {
  return { code, message, details }
}

/** Aborts a tenth before the end of the lease: an effect that reacts at once ends before another process begins. */
function leaseSignal(
  kit: SagaKit,
  step: StepRequest,
  untilMonoMs: number,
): { signal: AbortSignal; end: () => void } {
  const own = new AbortController()
  const leftMs = untilMonoMs - step.leaseMs * 0.1 - kit.clock.monoMs()
  const end = () => own.abort(new LeaseEndedError(`${step.scope} ${step.key}`))
  // With no time left the effect does not begin.
  if (leftMs <= 0) end()
  const timer = kit.clock.timer(Math.max(0, leftMs), end)
  const signal = step.signal === undefined ? own.signal : AbortSignal.any([own.signal, step.signal])
  return { signal, end: () => timer.cancel() }
}

/** Does not wait for an effect that ignores its signal; `onAbandoned` gets its promise. */
async function untilAborted<V>(
  signal: AbortSignal,
  step: StepRequest,
  work: () => Promise<V>,
  onAbandoned: (working: Promise<V>) => void,
): Promise<V> {
  signal.throwIfAborted()
  const working = work()
  const over = Promise.withResolvers<never>()
  const abandon = () => {
    onAbandoned(working)
    over.reject(new LeaseEndedError(`${step.scope} ${step.key}`, { cause: signal.reason }))
  }
  signal.addEventListener('abort', abandon, { once: true })
  if (signal.aborted) abandon()
  try {
    return await Promise.race([working, over.promise])
  } finally {
    signal.removeEventListener('abort', abandon)
  }
}

function parkedError(
  kit: SagaKit,
  step: StepRequest,
  attempts: number,
  cause: unknown,
): AttemptsExhaustedError {
  const what = `${step.scope} ${step.key}`
  kit.emit({ kind: 'parked', what, error: cause })
  return new AttemptsExhaustedError(what, attempts, { cause })
}
