/**
 * A step of a saga and its compensation, in whichever order they arrive.
 *
 * Owns when each changes the rows of `saga_steps` (`saga-step-rows.ts`), which are the fence between the two. The row
 * `running` is committed together with the claim, before the effect: so a crash in the effect leaves something to
 * compensate. A compensation that comes before its step leaves `suspended`, and the step then refuses to run. A step
 * that was compensated before it settles undoes its own effect once more.
 *
 *     pending → running → done → compensating → compensated
 *                       → failed (refused by the business; nothing to undo) → compensated
 *     absent | pending → suspended
 *
 * Source: Seata, TCC fence (idempotence, hanging, empty rollback); Restate, compensation registered before the step.
 */

import { keepProcessAlive } from './ambient.ts'
import { followSteps, type ListedSaga } from './choreography.ts'
import { jitteredDelayMs, pause } from './core.ts'
import type { Tx } from './database.ts'
import { BusinessError, LeaseEndedError, NonRetryableError, SagaConfigError } from './errors.ts'
import { longTtlMs } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import { type LockManager, withLocks } from './locks.ts'
import { requireName } from './option-checks.ts'
import { derivedKey } from './request-hash.ts'
import {
  bar,
  begin,
  compensationScope,
  end,
  keyOf,
  park,
  type StepRow,
  setStatus,
  statusOf,
  stepScope,
} from './saga-step-rows.ts'
import { runIdempotentStep } from './step.ts'
import type { Refusal, StepContext, StepHandlers, StepOutcome } from './step-definition.ts'

export type CompensationContext<R = unknown> = StepContext & {
  readonly sagaId: string
  readonly step: string
  /** The key under which the step called the provider: the provider knows the effect by it. */
  readonly stepKey: string
  /** The result of the step; undefined if it is unknown whether it took effect. */
  readonly stepResult: R | undefined
}

/** Undoes a step. Must also be right if the step never took effect: that may be unknown. */
export type Compensation = {
  readonly effect?: (context: CompensationContext) => Promise<void>
  readonly commit?: (tx: Tx, context: CompensationContext) => Promise<void>
}

export type SagaStepRequest = ListedSaga & {
  readonly step: string
  /** The message or input that requests it. */
  readonly request: unknown
  readonly leaseMs: number
  readonly maxAttempts?: number
  readonly position?: number
} & (
    | { readonly resources?: never; readonly lockManager?: LockManager }
    /** Locked while the step runs. */
    | { readonly resources: readonly string[]; readonly lockManager: LockManager }
  )

export type SagaStepHandlers<V, R, F = Refusal> = StepHandlers<V, R, F> & {
  readonly compensate?: Compensation
}

/** What moves with the steps: the saga's row, unless a runner moves it. */
export type Following = (kit: SagaKit, tx: Tx, saga: ListedSaga) => Promise<void>

/** A step of a saga that messages drive. The handlers of a runner's saga are called by the runner. */
export function processSagaStep<V, R, F = Refusal>(
  kit: SagaKit,
  request: SagaStepRequest,
  handlers: SagaStepHandlers<V, R, F>,
): Promise<StepOutcome<R, F>> {
  return runSagaStep(kit, request, handlers, followSteps)
}

export async function runSagaStep<V, R, F>(
  kit: SagaKit,
  request: SagaStepRequest,
  handlers: SagaStepHandlers<V, R, F>,
  follow: Following,
): Promise<StepOutcome<R, F>> {
  const { sagaId, step, leaseMs, resources = [], lockManager } = request
  requireName('sagaId', sagaId)
  requireName('step', step)
  const execute = (held?: { fencingToken: number; signal: AbortSignal }) =>
    runIdempotentStep<V, R, F>(
      kit,
      {
        scope: stepScope,
        key: keyOf(sagaId, step),
        request: request.request,
        leaseMs,
        // The saga's log must answer for as long as the saga is readable.
        ttlMs: longTtlMs,
        ...(request.maxAttempts === undefined ? {} : { maxAttempts: request.maxAttempts }),
        ...held,
      },
      handlers,
      {
        claimed: async (tx, { attempt }) => {
          await begin(kit, tx, request, attempt)
          await follow(kit, tx, request)
        },
        settled: async (tx, outcome, text) => {
          await end(kit, tx, request, outcome === 'completed' ? 'done' : 'failed', text)
          await follow(kit, tx, request)
        },
        parked: async (tx, reason) => {
          await park(kit, tx, request, reason)
          await follow(kit, tx, request)
        },
        unsettled: (value, context) =>
          undoLate(kit, compensationContext(context, sagaId, step, value), leaseMs, handlers.compensate),
      },
    )
  if (resources.length === 0) return execute()
  if (lockManager === undefined)
    throw new SagaConfigError(
      `step ${step} names resources and has no lockManager; give it one (createPostgresLocks(kit), createQuorumLocks(client)), or leave resources out`,
    )
  return withLocks(kit, lockManager, resources, { leaseMs }, execute)
}

/** About 15 s, as for settling; then a person has to look, because no process will. */
const undoTries = 12
const undoBackoff = { initialMs: 50, maxMs: 2_500 }

/**
 * Undoes an effect that took place, or may have, after its compensation, which does not run again. Leaves alone what
 * another process has executed, or is executing, under the same key: it is the same effect.
 */
async function undoLate(
  kit: SagaKit,
  context: CompensationContext,
  leaseMs: number,
  compensation: Compensation | undefined,
): Promise<void> {
  const { effect } = compensation ?? {}
  if (effect === undefined) return
  const { sagaId, step } = context
  const release = keepProcessAlive()
  for (let attempt = 1; ; attempt += 1) {
    // Its own signal: the step's may have ended with its lease.
    const abort = new AbortController()
    const timer = kit.clock.timer(leaseMs, () =>
      abort.abort(new LeaseEndedError(`undoing ${sagaId} ${step}`)),
    )
    try {
      const status = await kit.transaction((tx) => statusOf(kit, tx, sagaId, step))
      if (isUndone(status)) await effect({ ...context, signal: abort.signal })
      break
    } catch (error) {
      kit.emit({ kind: 'saga_step_failed', sagaId, step, error })
      if (attempt === undoTries) {
        kit.emit({ kind: 'parked', what: `the late effect of step ${step} of saga ${sagaId}`, error })
        break
      }
      await pause(kit.clock, jitteredDelayMs(undoBackoff, attempt - 1, kit.random))
    } finally {
      timer.cancel()
    }
  }
  release()
}

/** According to the saga's log, the step has no effect. */
function isUndone(status: string): boolean {
  return status === 'compensating' || status === 'compensated' || status === 'failed'
}

type CompensationRequest = StepRow & ListedSaga & { readonly leaseMs: number; readonly maxAttempts?: number }

/**
 * Undoes a step: once if it took effect or may have; not at all if it surely did not.
 * @throws OperationInProgressError while the step itself runs
 * @throws StepIrreversibleError if it is too late for that
 */
export function compensateSagaStep(
  kit: SagaKit,
  request: CompensationRequest,
  compensation: Compensation,
): Promise<'compensated' | 'suspended'> {
  return undoSagaStep(kit, request, compensation, followSteps)
}

export async function undoSagaStep(
  kit: SagaKit,
  request: CompensationRequest,
  compensation: Compensation,
  follow: Following,
): Promise<'compensated' | 'suspended'> {
  const { sagaId, step, leaseMs, maxAttempts = 50 } = request
  const barred = await kit.transaction(async (tx) => {
    const found = await bar(kit, tx, request)
    await follow(kit, tx, request)
    return found
  })
  if (barred.kind !== 'undo') return barred.kind
  await runIdempotentStep(
    kit,
    {
      scope: compensationScope,
      key: keyOf(sagaId, step),
      request: null,
      leaseMs,
      maxAttempts,
      ttlMs: longTtlMs,
    },
    {
      effect: async (context) => {
        const own = compensationContext(context, sagaId, step, barred.stepResult)
        await compensation.effect?.(own).catch(noIsNoOutcome)
      },
      commit: async (tx, _value, context) => {
        const own = compensationContext(context, sagaId, step, barred.stepResult)
        await compensation.commit?.(tx, own).catch(noIsNoOutcome)
        await setStatus(kit, tx, sagaId, step, 'compensated')
        await follow(kit, tx, request)
      },
    },
    {
      parked: async (tx, reason) => {
        await park(kit, tx, request, reason)
        await follow(kit, tx, request)
      },
    },
  )
  return 'compensated'
}

/** A refused step is an outcome. A refused compensation is a fault that only a person can fix. */
function noIsNoOutcome(error: unknown): never {
  if (!(error instanceof BusinessError)) throw error
  throw new NonRetryableError(error.message, { cause: error })
}

function compensationContext(
  context: StepContext,
  sagaId: string,
  step: string,
  stepResult: unknown,
): CompensationContext {
  const key = keyOf(sagaId, step)
  const idempotencyKey = derivedKey([compensationScope, key])
  return { ...context, idempotencyKey, sagaId, step, stepResult, stepKey: derivedKey([stepScope, key]) }
}
