/**
 * The definition of a saga: named steps in order, each with its compensation.
 *
 * Owns the form and its check. Steps before the pivot can be undone; the pivot decides; steps after it can only be
 * repeated until they succeed, so they need no compensation, and a refusal by the business there parks the saga for a
 * person.
 */
import type { Tx } from './database.ts'
import { type BusinessError, SagaConfigError } from './errors.ts'
import { requireName, requirePositive, requireWhole } from './option-checks.ts'
import type { SagaView, Taken } from './saga-instances.ts'
import type { Compensation, CompensationContext } from './saga-step.ts'
import type { StepContext } from './step-definition.ts'

export type SagaContext<I, Results = Readonly<Record<string, unknown>>> = {
  readonly sagaId: string
  readonly input: I
  /** Results of the earlier steps, by name; what JSON keeps of them. */
  readonly results: Results
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

export type SagaDefinition<I, Locks extends boolean = false> = {
  readonly name: string
  readonly steps: readonly SagaStepDefinition<I>[]
  /** For types alone: whether a step names resources, so that its runner needs a lock manager. */
  readonly locks?: Locks
}

/** A step whose types fit together: `commit` gets the effect's value, and later steps the result. */
export type TypedStep<I, Results, Name extends string, V, R> = Omit<
  SagaStepDefinition<I>,
  'name' | 'effect' | 'reconcile' | 'commit' | 'reject' | 'compensate' | 'resources'
> & {
  readonly name: Name
  readonly effect?: (context: StepContext & SagaContext<I, Results>) => Promise<V>
  readonly reconcile?: (context: StepContext & SagaContext<I, Results>) => Promise<V | undefined>
  /** Without an effect its value is null. */
  readonly commit?: (tx: Tx, value: V, context: StepContext & SagaContext<I, Results>) => Promise<R>
  readonly reject?: (
    tx: Tx,
    error: BusinessError,
    context: StepContext & SagaContext<I, Results>,
  ) => Promise<unknown>
  readonly compensate?: {
    readonly effect?: (context: CompensationContext<R> & SagaContext<I, Partial<Results>>) => Promise<void>
    readonly commit?: (
      tx: Tx,
      context: CompensationContext<R> & SagaContext<I, Partial<Results>>,
    ) => Promise<void>
  }
}

/** A saga that is defined step by step. Each `step` returns a further definition and changes none. */
export interface TypedSaga<I, Results, Locks extends boolean> extends SagaDefinition<I, Locks> {
  step<const Name extends string, V = null, R = V>(
    definition: TypedStep<I, Results, Name, V, R> & { readonly resources?: never },
  ): TypedSaga<I, Results & { readonly [K in Name]: R }, Locks>
  step<const Name extends string, V = null, R = V>(
    definition: TypedStep<I, Results, Name, V, R> & {
      readonly resources: (context: SagaContext<I, Results>) => readonly string[]
    },
  ): TypedSaga<I, Results & { readonly [K in Name]: R }, true>
}

type NoResults = Readonly<Record<never, never>>

/** Without steps: to be followed by `.step(…)`, whose types are inferred from each other. */
export function defineSaga<I>(name: string): TypedSaga<I, NoResults, false>
export function defineSaga<I>(name: string, steps: readonly SagaStepDefinition<I>[]): SagaDefinition<I>
export function defineSaga<I>(name: string, steps?: readonly SagaStepDefinition<I>[]): unknown {
  return steps === undefined ? typed<I>(name, []) : checked(name, steps)
}

function typed<I>(name: string, steps: readonly SagaStepDefinition<I>[]): unknown {
  return {
    name,
    steps,
    step: (definition: SagaStepDefinition<I>) => typed(name, checked<I>(name, [...steps, definition]).steps),
  }
}

function checked<I>(name: string, steps: readonly SagaStepDefinition<I>[]): SagaDefinition<I> {
  requireName('the name of a saga', name)
  for (const step of steps) requireName(`the name of a step of saga ${name}`, step.name)
  for (const { name: step, leaseMs, maxAttempts } of steps) {
    requirePositive({ [`leaseMs of step ${step} of saga ${name}`]: leaseMs })
    requireWhole({ [`maxAttempts of step ${step} of saga ${name}`]: maxAttempts })
  }
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

export type SagaPartStep = {
  readonly name: string
  readonly compensate?: Compensation
  /** Once it has been executed, no step of this part is undone, and an operator's compensation is parked. */
  readonly pivot?: boolean
  /** Default 30 s. */
  readonly leaseMs?: number
}

/** What a service can undo of a saga that messages drive, for a runner's `parts`. */
export type SagaPart = {
  /** As `saga` of its steps names it. */
  readonly name: string
  readonly steps: readonly SagaPartStep[]
}

/** The steps in the order in which they run here, which is not the order in which they are undone. */
export function defineSagaPart(name: string, steps: SagaPart['steps']): SagaPart {
  checked(name, steps as readonly SagaStepDefinition<never>[])
  return { name, steps }
}

/** The results of the steps that are done, in the types of their definition. */
export function sagaResults<I, Results, Locks extends boolean>(
  _definition: TypedSaga<I, Results, Locks>,
  { steps }: { readonly steps: readonly { name: string; status: string; result: unknown }[] },
): Partial<Results> {
  const done = steps.filter(({ status }) => status === 'done').map(({ name, result }) => [name, result])
  return Object.fromEntries(done) as Partial<Results>
}

// biome-ignore lint/suspicious/noExplicitAny: the inputs of different sagas have nothing in common
export type AnyStep = SagaStepDefinition<any>

/** The handlers of a saga's step as calls of a step on its own: each gets the saga's context as well. */
export function stepHandlers(step: AnyStep, context: SagaContext<unknown>) {
  const { commit, reject, reconcile } = step
  return {
    effect: (own: object) => step.effect?.({ ...own, ...context } as never) ?? Promise.resolve(null),
    commit: async (tx: Tx, value: unknown, own: object) =>
      commit === undefined ? value : commit(tx, value as never, { ...own, ...context } as never),
    compensate: compensationOf(step, context),
    ...(reject === undefined
      ? {}
      : {
          reject: (tx: Tx, error: BusinessError, own: object) =>
            reject(tx, error, { ...own, ...context } as never),
        }),
    ...(reconcile === undefined
      ? {}
      : { reconcile: (own: object) => reconcile({ ...own, ...context } as never) }),
  }
}

export function compensationOf({ compensate }: AnyStep, context: SagaContext<unknown>): Compensation {
  const { effect, commit } = compensate ?? {}
  return {
    ...(effect === undefined ? {} : { effect: (own) => effect({ ...own, ...context }) }),
    ...(commit === undefined ? {} : { commit: (tx, own) => commit(tx, { ...own, ...context }) }),
  }
}

export function contextOf({ sagaId, input }: Taken, log: SagaView['steps']): SagaContext<unknown> {
  return { sagaId, input, results: Object.fromEntries(log.map(({ name, result }) => [name, result])) }
}
