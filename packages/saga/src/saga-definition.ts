/**
 * The definition of a saga: named steps in order, each with its compensation.
 *
 * Owns the form and its check. Steps before the pivot can be undone; the pivot decides; steps after it can only be
 * repeated until they succeed, so they need no compensation, and a refusal by the business there parks the saga for a
 * person.
 */
import type { Tx } from './database.ts'
import { type BusinessError, SagaConfigError } from './errors.ts'
import type { CompensationContext } from './saga-step.ts'
import type { StepContext } from './step-definition.ts'

export type SagaContext<I> = {
  readonly sagaId: string
  readonly input: I
  /** Results of the earlier steps, by name. */
  readonly results: Readonly<Record<string, unknown>>
}

export type SagaStepDefinition<I> = {
  readonly name: string
  /** Outside any transaction; its value is passed to `commit`. */
  readonly effect?: (context: StepContext & SagaContext<I>) => Promise<unknown>
  /** Called first from the second attempt on; undefined if the effect did not take place. */
  readonly reconcile?: (context: StepContext & SagaContext<I>) => Promise<unknown>
  /** In the transaction that settles the step; returns the step's result. Default: the effect's value. */
  readonly commit?: (tx: Tx, value: never, context: StepContext & SagaContext<I>) => Promise<unknown>
  readonly reject?: (tx: Tx, error: BusinessError, context: StepContext & SagaContext<I>) => Promise<unknown>
  readonly compensate?: {
    readonly effect?: (context: CompensationContext & SagaContext<I>) => Promise<void>
    readonly commit?: (tx: Tx, context: CompensationContext & SagaContext<I>) => Promise<void>
  }
  readonly pivot?: boolean
  /** Locked while the step runs, if the runner has a lock manager. */
  readonly resources?: (context: SagaContext<I>) => readonly string[]
  /** The effect must end within it. Default 30 s. */
  readonly leaseMs?: number
  readonly maxAttempts?: number
}

export type SagaDefinition<I> = { readonly name: string; readonly steps: readonly SagaStepDefinition<I>[] }

export function defineSaga<I>(name: string, steps: readonly SagaStepDefinition<I>[]): SagaDefinition<I> {
  const names = steps.map((step) => step.name)
  const twice = names.find((step, index) => names.indexOf(step) !== index)
  if (steps.length === 0) throw new SagaConfigError(`saga ${name} has no steps`)
  if (twice !== undefined) throw new SagaConfigError(`saga ${name} has two steps named ${twice}`)
  const pivot = steps.findIndex((step) => step.pivot === true)
  if (steps.some((step, index) => step.pivot === true && index !== pivot))
    throw new SagaConfigError(`saga ${name} has two pivots`)
  const never = steps.findIndex(
    (step, index) => pivot !== -1 && index >= pivot && step.compensate !== undefined,
  )
  if (never !== -1)
    throw new SagaConfigError(
      `saga ${name}: ${names[never]} is not before the pivot, its compensation would never run`,
    )
  return { name, steps }
}
