/** The handlers of a saga's step as calls of a step on its own: each gets the saga's context as well. */
import type { Tx } from './database.ts'
import type { BusinessError } from './errors.ts'
import type { SagaContext, SagaStepDefinition } from './saga-definition.ts'
import type { SagaView, Taken } from './saga-instances.ts'
import type { Compensation } from './saga-step.ts'

// biome-ignore lint/suspicious/noExplicitAny: the inputs of different sagas have nothing in common
export type AnyStep = SagaStepDefinition<any>

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
