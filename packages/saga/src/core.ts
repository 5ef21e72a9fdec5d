/**
 * Everything that the kit takes of the sidecar's core: time and randomness as types, waiting between tries, and the port behind
 * which an operator's calls about sagas are answered.
 *
 * The only file of the package that reaches out of it. What stands here, and what that imports, is built into the package; the
 * architecture test names those files.
 */

export type { Clock, Random, Timer } from '../../../src/core/clock.ts'
export {
  type Backoff,
  jitteredDelayMs,
  pause,
  pauseUnless,
  whenAborted,
  within,
} from '../../../src/core/retry.ts'
export type { SagaAdmin, SagaAdminResult, SagaBacklog } from '../../../src/core/saga-admin.ts'
