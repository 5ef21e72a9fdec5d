/**
 * Everything that the kit uses of the sidecar's core: types for time and randomness, waiting between tries, and
 * the notation of operators' tokens.
 *
 * The only file of the package that reaches out of it. What it exports, and what that imports, is built into the
 * package; the architecture test names those files.
 */

export type { Clock, Random, Timer } from '../../../src/core/clock.ts'
export { type OperatorToken, parseOperatorTokens } from '../../../src/core/operator/operator-tokens.ts'
export {
  type Backoff,
  jitteredDelayMs,
  pause,
  whenAborted,
  within,
} from '../../../src/core/retry.ts'
