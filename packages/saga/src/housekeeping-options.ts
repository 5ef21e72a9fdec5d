/** How often the kit cleans its tables, and for how long it keeps what has ended. Owns the defaults' limits and their check. */
import { SagaConfigError } from './errors.ts'
import { requirePositive, requireWhole } from './option-checks.ts'

export type RetentionOptions = {
  /** Rows per statement. Default 1000. */
  readonly batchSize?: number
  /** Batches per table and run; the next run continues. Default 100. */
  readonly maxBatches?: number
  /** How long replayed and discarded dead letters are kept. Default 30 days. */
  readonly deadLettersMs?: number
}

export type HousekeepingOptions = RetentionOptions & {
  /** Between two runs of all processes together. Default 5 minutes, at least 1 s. */
  readonly intervalMs?: number
  /**
   * Dead letters that no one has decided on are discarded after this time, as by `discardDeadLetters`: what waits behind
   * them goes on without them. Default: never.
   */
  readonly expireDeadLettersMs?: number
}

const intervalMinMs = 1_000

export function requireHousekeeping(options: HousekeepingOptions | false): void {
  if (options === false) return
  const { intervalMs = intervalMinMs, ...others } = options
  if (!(intervalMs >= intervalMinMs))
    throw new SagaConfigError(
      `housekeeping.intervalMs: ${intervalMs} (at least ${intervalMinMs} ms expected)`,
    )
  requireRetention(others, 'housekeeping.')
  requirePositive({ 'housekeeping.expireDeadLettersMs': others.expireDeadLettersMs })
}

export function requireRetention(
  { batchSize, maxBatches, deadLettersMs }: RetentionOptions,
  group = '',
): void {
  requireWhole({ [`${group}batchSize`]: batchSize, [`${group}maxBatches`]: maxBatches })
  requirePositive({ [`${group}deadLettersMs`]: deadLettersMs })
}
