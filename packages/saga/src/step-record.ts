/**
 * The record of a step: its two transactions, its takeover, its failure, as SQL.
 *
 * Owns every write of a step to `idempotency_keys`. Each names owner and fence, so a process that comes back late
 * changes nothing.
 * Transitions: absent → in_progress → completed | failed | parked; in_progress → in_progress by takeover after the lease,
 * under a higher fence; parked → in_progress by an operator.
 */
import { jitteredDelayMs, pause } from './core.ts'
import { isOutage, safeInteger, type Tx } from './database.ts'
import { errorJson, errorText } from './error-meaning.ts'
import {
  IdempotencyKeyReuseError,
  LeaseEndedError,
  NonRetryableError,
  OperationInProgressError,
  StepOvertakenError,
} from './errors.ts'
import { serialised, ttlOf } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import { sameHash } from './request-hash.ts'
import type { StepHooks, StepRequest } from './step-definition.ts'

export type Claimed = {
  readonly kind: 'claimed'
  readonly fence: number
  /** Since a person has looked, where one had to. */
  readonly attempt: number
  /** An earlier attempt may have had its effect, also where a person has let the count begin anew. */
  readonly again: boolean
  /** Of the lease, from the statement that answered. */
  readonly leftMs: number
}
type Settled = {
  readonly kind: 'settled'
  readonly outcome: 'completed' | 'failed'
  readonly result: unknown
}
/** `reason`: of its last attempt. */
type Parked = { readonly kind: 'parked'; readonly attempts: number; readonly reason: string }
/** Of which type the result is says the outcome, and that is known to the caller of the step alone. */
type Written = {
  readonly replayed: boolean
  readonly outcome: 'completed' | 'failed'
  readonly result: unknown
}
export type Claim = {
  readonly step: StepRequest
  readonly owner: string
  readonly hash: Buffer
  readonly text: string
}

/** Attempts of a step that does not say how many. */
export const maxAttemptsDefault = 5

/** Tries of the settling transaction after a lost connection: about 15 s, a restart of the database. */
const settleTries = 12
const settleBackoff = { initialMs: 50, maxMs: 2_500 }

/** First transaction. */
export async function claimOrReplay(
  kit: SagaKit,
  tx: Tx,
  claim: Claim,
  hooks: Pick<StepHooks<unknown>, 'claimed' | 'parked'>,
): Promise<Claimed | Settled | Parked> {
  const { step, owner, hash, text } = claim
  const { scope, key, leaseMs, maxAttempts = maxAttemptsDefault } = step
  const s = kit.schema
  const inserted = await tx.query(
    `INSERT INTO ${s}.idempotency_keys AS k (scope, key, request_hash, status, owner, fence, locked_until, request, expires_at)
     VALUES ($1, $2, $3, 'in_progress', $4, nextval('${s}.fencing_tokens'),
             clock_timestamp() + $5 * interval '1 ms', $6, clock_timestamp() + $7 * interval '1 ms')
     ON CONFLICT (scope, key) DO UPDATE
       SET request_hash = EXCLUDED.request_hash, status = 'in_progress', owner = EXCLUDED.owner, fence = EXCLUDED.fence,
           locked_until = EXCLUDED.locked_until, attempts = 1, request = EXCLUDED.request, result = NULL, error = NULL,
           created_at = clock_timestamp(), updated_at = clock_timestamp(), expires_at = EXCLUDED.expires_at
       WHERE k.status IN ('completed', 'failed') AND k.expires_at < clock_timestamp()
     RETURNING fence`,
    [scope, key, hash, owner, leaseMs, step.keepRequest ? text : null, ttlOf(step)],
  )
  if (inserted.rows[0] !== undefined) {
    await hooks.claimed?.(tx, { attempt: 1 })
    const fence = safeInteger(inserted.rows[0].fence)
    return { kind: 'claimed', fence, attempt: 1, again: false, leftMs: leaseMs }
  }
  const row = await lockRow(tx, s, scope, key)
  if (!sameHash(row.request_hash, hash)) throw new IdempotencyKeyReuseError(scope, key)
  const parked = async (): Promise<Parked> => {
    const reason = row.error ?? noEnd
    await hooks.parked?.(tx, reason)
    return { kind: 'parked', attempts: row.attempts, reason }
  }
  switch (row.status) {
    case 'completed':
    case 'failed':
      return { kind: 'settled', outcome: row.status, result: JSON.parse(row.result) }
    case 'parked':
      return parked()
    case 'in_progress':
      // Our own claim: the connection was lost during its COMMIT. One that has expired meanwhile is taken over like any other.
      if (row.owner === owner && row.remaining_ms > 0)
        return {
          kind: 'claimed',
          fence: safeInteger(row.fence),
          attempt: row.attempts,
          again: row.attempts > 1 || row.error !== null,
          leftMs: row.remaining_ms,
        }
      if (row.remaining_ms > 0) throw new OperationInProgressError(`${scope} ${key}`, row.remaining_ms)
      if (row.attempts >= maxAttempts) {
        await park(tx, s, claim)
        return parked()
      }
      return takeOver(kit, tx, claim, hooks.claimed)
  }
}

async function takeOver(
  kit: SagaKit,
  tx: Tx,
  { step, owner }: Claim,
  claimedHook: StepHooks<unknown>['claimed'],
): Promise<Claimed> {
  const s = kit.schema
  const { rows } = await tx.query<{ fence: string; attempts: number }>(
    `UPDATE ${s}.idempotency_keys
     SET owner = $3, fence = nextval('${s}.fencing_tokens'), attempts = attempts + 1,
         locked_until = clock_timestamp() + $4 * interval '1 ms', updated_at = clock_timestamp()
     WHERE scope = $1 AND key = $2 RETURNING fence, attempts`,
    [step.scope, step.key, owner, step.leaseMs],
  )
  const { fence, attempts } = rows[0]!
  await claimedHook?.(tx, { attempt: attempts })
  return { kind: 'claimed', fence: safeInteger(fence), attempt: attempts, again: true, leftMs: step.leaseMs }
}

type KeyRow = {
  request_hash: Uint8Array
  status: 'in_progress' | 'completed' | 'failed' | 'parked'
  owner: string
  fence: string
  attempts: number
  result: string
  remaining_ms: number
  error: string | null
}

const noEnd = 'no attempt came to an end: its process died, or lost the database'

async function lockRow(tx: Tx, s: string, scope: string, key: string): Promise<KeyRow> {
  const { rows } = await tx.query<KeyRow>(
    `SELECT request_hash, status, owner, fence, attempts, result::text AS result, error->>'message' AS error,
            (extract(epoch FROM locked_until - clock_timestamp()) * 1000)::float8 AS remaining_ms
     FROM ${s}.idempotency_keys WHERE scope = $1 AND key = $2 FOR UPDATE`,
    [scope, key],
  )
  if (rows[0] === undefined) throw new StepOvertakenError(`${scope} ${key}`)
  return rows[0]
}

/** Second transaction, repeated after a lost connection: the row says whether it happened. */
export function settle(
  kit: SagaKit,
  { step, owner }: Claim,
  { fence }: Claimed,
  outcome: 'completed' | 'failed',
  hooks: Pick<StepHooks<unknown>, 'settled'>,
  write: (tx: Tx) => Promise<unknown>,
): Promise<Written> {
  const { scope, key } = step
  return surviving(kit, settleTries, () =>
    kit.transaction(async (tx) => {
      const row = await lockRow(tx, kit.schema, scope, key)
      if (row.owner !== owner || safeInteger(row.fence) !== fence || row.status === 'parked') {
        kit.emit({ kind: 'fenced_out', what: `${scope} ${key}` })
        throw new StepOvertakenError(`${scope} ${key}`)
      }
      if (row.status !== 'in_progress')
        return { replayed: false, outcome: row.status, result: JSON.parse(row.result) }
      const text = serialised(await write(tx))
      await hooks.settled?.(tx, outcome, text)
      // Retention counts from here: the step may have been parked for longer than that. What recovers a step may have less of it.
      await tx.query(
        `UPDATE ${kit.schema}.idempotency_keys
         SET status = $3, result = $4, error = NULL, request = NULL, updated_at = clock_timestamp(),
             expires_at = greatest(expires_at, clock_timestamp() + $5 * interval '1 ms')
         WHERE scope = $1 AND key = $2`,
        [scope, key, outcome, text, ttlOf(step)],
      )
      return { replayed: false, outcome, result: JSON.parse(text) }
    }),
  )
}

/**
 * Ends the claim at once if the attempt is surely over, so that the next need not wait for the lease; an effect that
 * was abandoned while it ran keeps its lease. Returns the number of attempts if that was the last.
 */
export async function noteFailure(
  kit: SagaKit,
  claim: Claim,
  { fence, attempt }: Claimed,
  error: unknown,
  parkedHook: StepHooks<unknown>['parked'],
): Promise<number | undefined> {
  const { step, owner } = claim
  const last = attempt >= (step.maxAttempts ?? maxAttemptsDefault) || error instanceof NonRetryableError
  try {
    const rowCount = await inOneTransaction(kit, last ? parkedHook : undefined, errorText(error), [
      `UPDATE ${kit.schema}.idempotency_keys
       SET error = $5, status = CASE WHEN $6 THEN 'parked' ELSE status END,
           locked_until = CASE WHEN $7 THEN clock_timestamp() ELSE locked_until END, updated_at = clock_timestamp()
       WHERE scope = $1 AND key = $2 AND owner = $3 AND fence = $4 AND status = 'in_progress'`,
      [step.scope, step.key, owner, fence, errorJson(error), last, !(error instanceof LeaseEndedError)],
    ])
    if (last && rowCount === 1) return attempt
  } catch {
    // The database is away: the lease expires, and the first error is the one to report.
  }
  return undefined
}

/** The statement alone, or together with what has to be said where it parks the step. */
async function inOneTransaction(
  kit: SagaKit,
  parkedHook: StepHooks<unknown>['parked'],
  reason: string,
  statement: readonly [text: string, values: unknown[]],
): Promise<number | null> {
  if (parkedHook === undefined) return (await kit.query(...statement)).rowCount
  return kit.transaction(async (tx) => {
    const { rowCount } = await tx.query(...statement)
    if (rowCount === 1) await parkedHook(tx, reason)
    return rowCount
  })
}

async function park(tx: Tx, s: string, { step }: Claim): Promise<void> {
  await tx.query(
    `UPDATE ${s}.idempotency_keys SET status = 'parked', updated_at = clock_timestamp() WHERE scope = $1 AND key = $2`,
    [step.scope, step.key],
  )
}

/** Resets a parked step to its first attempt, after a person has looked. An abandoned effect keeps its lease. */
export async function unparkStep(kit: SagaKit, scope: string, key: string): Promise<boolean> {
  const { rowCount } = await kit.query(
    `UPDATE ${kit.schema}.idempotency_keys
     SET status = 'in_progress', attempts = 0, owner = '', updated_at = clock_timestamp()
     WHERE scope = $1 AND key = $2 AND status = 'parked'`,
    [scope, key],
  )
  return rowCount === 1
}

export async function surviving<T>(kit: SagaKit, tries: number, run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run()
    } catch (error) {
      if (!isOutage(error) || attempt === tries) throw error
      await pause(kit.clock, jitteredDelayMs(settleBackoff, attempt - 1, kit.random))
    }
  }
}
