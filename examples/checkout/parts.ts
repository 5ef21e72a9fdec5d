/**
 * What the parts of the three services have in common: the name of the saga, and how long a step may take.
 *
 * A service's part is its steps, each with what undoes it. A message runs or undoes a step (`run`, `undo`); an operator's
 * `fencepost-saga compensate` undoes all of a part, by the runner that each worker has.
 */
import {
  compensateSagaStep,
  defineSagaPart,
  processSagaStep,
  type SagaKit,
  type SagaPart,
  type SagaPartStep,
  type SagaStepHandlers,
} from '@fencepost/saga'
import type { Order } from './messages.ts'

const saga = 'checkout'
/** Short, so that this example recovers quickly; in production the longest that the provider may take. */
const leaseMs = 3_000
/** Crashes count, and here they are the subject. */
const maxAttempts = 1_000

/** Its compensation takes no order: an operator's has none, and the service's own rows say what was done. */
export type Step = Omit<SagaPartStep, 'leaseMs'>

export function partOf(steps: readonly Step[]): SagaPart {
  return defineSagaPart(
    saga,
    steps.map((step) => ({ ...step, leaseMs })),
  )
}

export function run<V>(
  kit: SagaKit,
  { name, compensate }: Step,
  order: Order,
  handlers: Omit<SagaStepHandlers<V, unknown, unknown>, 'compensate'>,
): Promise<unknown> {
  return processSagaStep(
    kit,
    { sagaId: order.orderId, saga, step: name, request: order, leaseMs, maxAttempts },
    { ...handlers, ...(compensate === undefined ? {} : { compensate }) },
  )
}

export function undo(kit: SagaKit, { name, compensate = {} }: Step, order: Order): Promise<unknown> {
  return compensateSagaStep(
    kit,
    { sagaId: order.orderId, saga, step: name, leaseMs, maxAttempts },
    compensate,
  )
}
