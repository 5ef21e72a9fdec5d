/**
 * The entry point for what people do with sagas and dead letters: `import { sagaHandler } from '@fencepost/saga/admin'`. The
 * command `fencepost-saga` serves the same. No module of the package imports it.
 */

export {
  type Decider,
  type Decision,
  type DecisionNote,
  decide,
  listDecisions,
} from './operations/decisions.ts'
export { type SagaGauges, sagaGauges } from './operations/gauges.ts'
export { type SagaHandlerOptions, sagaHandler } from './operations/handler.ts'
export type { Operator } from './operations/operators.ts'
