/**
 * The rows of sagas: inserted, taken by a runner, moved, read, and changed by an operator.
 *
 * Owns the SQL of `saga_instances`. A runner holds an instance by a lease; every write names its owner, so a runner
 * whose lease has expired changes nothing. What a step may do is still decided by `saga-step.ts`.
 */
import { deadLettersOf, retryMessageDriven } from './choreography.ts'
import { isoText, rowsWritten, type Tx } from './database.ts'
import { IdempotencyKeyReuseError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { requireName } from './option-checks.ts'
import { canonicalJson, hashOfText, sameHash } from './request-hash.ts'
import { askAgain, type StepStatus, unparkSagaSteps } from './saga-step-rows.ts'
import { withCreationContext } from './trace-context.ts'

/** A runner, or the messages that services send each other. */
export type DrivenBy = 'runner' | 'messages'

export const sagaStatuses = ['running', 'completed', 'compensating', 'compensated', 'parked'] as const
export type SagaStatus = (typeof sagaStatuses)[number]

/** One line of a list. */
export type SagaSummary = {
  readonly sagaId: string
  /** Empty for a saga that messages drive and whose steps do not say `saga`. */
  readonly name: string
  readonly status: SagaStatus
  readonly drivenBy: DrivenBy
  /** Why it is being compensated or was parked. */
  readonly reason: string | null
  readonly lastError: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

export type SagaView = Omit<SagaSummary, 'createdAt' | 'updatedAt'> & {
  /** null where messages drive the saga: each step has its own request. */
  readonly input: unknown
  /** Where messages drive the saga: the open dead letters among those that ran its steps. `retrySaga` replays them. */
  readonly deadLetters: readonly number[]
  readonly attempts: number
  readonly nextAttemptAt: Date | null
  readonly traceId: string | null
  readonly steps: readonly {
    readonly name: string
    readonly status: StepStatus
    readonly attempts: number
    readonly result: unknown
    readonly lastError: string | null
  }[]
}

export type StartSaga<I = unknown> = { readonly sagaId: string; readonly input: I }

/** In the caller's transaction: the saga begins when that commits. The same id with another input is an error. */
export async function insertSaga(
  kit: SagaKit,
  tx: Tx,
  name: string,
  stepNames: readonly string[],
  { sagaId, input }: StartSaga,
): Promise<boolean> {
  requireName('sagaId', sagaId)
  const s = kit.schema
  const text = canonicalJson(input)
  const hash = hashOfText(`${name}\0${text}`)
  const headers = withCreationContext({}, name, sagaId)
  const inserted = await tx.query(
    `INSERT INTO ${s}.saga_instances AS i (saga_id, name, status, input, request_hash, headers)
     VALUES ($1, $2, 'running', $3::text::json, $4, $5::text::jsonb)
     ON CONFLICT (saga_id) DO UPDATE SET name = EXCLUDED.name, status = 'running', input = EXCLUDED.input,
       request_hash = EXCLUDED.request_hash, headers = EXCLUDED.headers, driven_by = 'runner', expires_at = NULL,
       reason = NULL, last_error = NULL, next_attempt_at = clock_timestamp()
       -- A step of it came before its begin.
       WHERE i.driven_by = 'messages' AND i.next_attempt_at = 'infinity'`,
    [sagaId, name, text, hash, JSON.stringify(headers)],
  )
  if (rowsWritten(inserted) === 0) {
    const { rows } = await tx.query<{ request_hash: Uint8Array }>(
      `SELECT request_hash FROM ${s}.saga_instances WHERE saga_id = $1`,
      [sagaId],
    )
    if (!sameHash(rows[0]!.request_hash, hash)) throw new IdempotencyKeyReuseError(`saga ${name}`, sagaId)
    return false
  }
  await tx.query(
    `INSERT INTO ${s}.saga_steps (saga_id, step, status, position)
     SELECT $1, step, 'pending', position FROM unnest($2::text[]) WITH ORDINALITY AS t (step, position)
     ON CONFLICT DO NOTHING`,
    [sagaId, stepNames],
  )
  return true
}

/** @property reason why it was turned back, now or before an operator let it go */
export type Taken = Pick<SagaView, 'sagaId' | 'name' | 'drivenBy' | 'input' | 'attempts' | 'reason'> & {
  readonly status: 'running' | 'compensating'
  readonly headers: Readonly<Record<string, string>>
}

/** Sagas that are due and have no runner, or whose runner vanished. */
export async function takeSagas(
  kit: SagaKit,
  owner: string,
  names: { readonly definitions: readonly string[]; readonly parts: readonly string[] },
  leaseMs: number,
  limit: number,
): Promise<readonly Taken[]> {
  const s = kit.schema
  type Row = Omit<Taken, 'sagaId' | 'input' | 'headers'> & { saga_id: string; input: string; headers: string }
  const { rows } = await kit.query<Row>(
    `UPDATE ${s}.saga_instances SET owner = $1, lease_until = clock_timestamp() + $3 * interval '1 ms'
     WHERE saga_id IN (SELECT saga_id FROM ${s}.saga_instances
       WHERE status IN ('running', 'compensating') AND name = ANY(CASE driven_by WHEN 'runner' THEN $2::text[] ELSE $5::text[] END)
         AND next_attempt_at <= clock_timestamp() AND lease_until <= clock_timestamp()
       ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED)
     RETURNING saga_id, name, status, driven_by AS "drivenBy", input::text AS input, attempts, reason, headers::text AS headers`,
    [owner, names.definitions, leaseMs, limit, names.parts],
  )
  return rows.map(({ saga_id: sagaId, input, headers, ...row }) => ({
    ...row,
    sagaId,
    input: JSON.parse(input),
    headers: JSON.parse(headers),
  }))
}

/** Renews the lease; false if the saga is no longer ours or its status has changed. */
export async function keepSaga(
  kit: SagaKit,
  owner: string,
  { sagaId, status }: Pick<Taken, 'sagaId' | 'status'>,
  leaseMs: number,
): Promise<boolean> {
  const { rowCount } = await kit.query(
    `UPDATE ${kit.schema}.saga_instances SET lease_until = clock_timestamp() + $4 * interval '1 ms'
     WHERE saga_id = $1 AND owner = $2 AND status = $3 AND lease_until > clock_timestamp()`,
    [sagaId, owner, status, leaseMs],
  )
  return rowCount === 1
}

export type Move = {
  readonly status: SagaStatus
  readonly attempts: number
  readonly delayMs?: number
  readonly lastError?: string
  readonly reason?: string
  /** For the final states: how long the saga remains readable. */
  readonly keepMs?: number
}

/** Saves the new state and releases the instance; false if another runner has moved it meanwhile. */
export async function moveSaga(kit: SagaKit, owner: string, saga: Taken, move: Move): Promise<boolean> {
  const { rowCount } = await kit.query(
    `UPDATE ${kit.schema}.saga_instances
     SET status = $4, attempts = $5, next_attempt_at = clock_timestamp() + $6 * interval '1 ms', last_error = $7,
         reason = coalesce($8, reason), expires_at = clock_timestamp() + $9 * interval '1 ms',
         owner = NULL, lease_until = '-infinity', updated_at = clock_timestamp()
     WHERE saga_id = $1 AND owner = $2 AND status = $3`,
    [
      saga.sagaId,
      owner,
      saga.status,
      move.status,
      move.attempts,
      move.delayMs ?? 0,
      move.lastError ?? null,
      move.reason ?? null,
      move.keepMs ?? null,
    ],
  )
  return rowCount === 1
}

export async function stepsOf(kit: SagaKit, sagaId: string): Promise<SagaView['steps']> {
  type Row = Omit<SagaView['steps'][number], 'result'> & { readonly result: string | null }
  const { rows } = await kit.query<Row>(
    `SELECT step AS name, status, attempts, result::text AS result, last_error AS "lastError" FROM ${kit.schema}.saga_steps
     WHERE saga_id = $1 ORDER BY position, created_at`,
    [sagaId],
  )
  return rows.map((row) => ({ ...row, result: row.result === null ? null : JSON.parse(row.result) }))
}

type InstanceRow = Pick<SagaView, 'name' | 'status' | 'drivenBy' | 'reason' | 'attempts' | 'lastError'> & {
  readonly input: string
  readonly nextAttemptAt: string | null
  readonly traceparent: string | null
}

export async function getSaga(kit: SagaKit, sagaId: string): Promise<SagaView | undefined> {
  const { rows } = await kit.query<InstanceRow>(
    `SELECT name, status, driven_by AS "drivenBy", input::text AS input, reason, attempts, last_error AS "lastError",
            ${isoText('next_attempt_at')} AS "nextAttemptAt", headers->>'traceparent' AS traceparent
     FROM ${kit.schema}.saga_instances WHERE saga_id = $1`,
    [sagaId],
  )
  if (rows[0] === undefined) return undefined
  const { input, nextAttemptAt, traceparent, ...row } = rows[0]
  // Of what messages drive, a runner has only an operator's compensation, and its instant is finite.
  const going = row.status === 'running' || row.status === 'compensating'
  return {
    sagaId,
    ...row,
    input: JSON.parse(input),
    nextAttemptAt: going && nextAttemptAt !== null ? new Date(nextAttemptAt) : null,
    traceId: /^00-([0-9a-f]{32})-/.exec(traceparent ?? '')?.[1] ?? null,
    steps: await stepsOf(kit, sagaId),
    deadLetters: row.drivenBy === 'runner' ? [] : await deadLettersOf(kit, sagaId, ['dead', 'replaying']),
  }
}

export type SagaFilter = {
  readonly statuses?: readonly SagaStatus[] | undefined
  readonly name?: string | undefined
  /** Default 100. */
  readonly limit?: number
  /** The last id of the page before. */
  readonly after?: string | undefined
}

/** In the order of their ids, a page at a time. */
export async function listSagas(kit: SagaKit, filter: SagaFilter = {}): Promise<readonly SagaSummary[]> {
  type Row = Omit<SagaSummary, 'createdAt' | 'updatedAt'> & { createdAt: string; updatedAt: string }
  const { rows } = await kit.query<Row>(
    `SELECT saga_id AS "sagaId", name, status, driven_by AS "drivenBy", reason, last_error AS "lastError",
            ${isoText('created_at')} AS "createdAt", ${isoText('updated_at')} AS "updatedAt"
     FROM ${kit.schema}.saga_instances
     WHERE ($1::text[] IS NULL OR status = ANY($1)) AND ($2::text IS NULL OR name = $2) AND ($3::text IS NULL OR saga_id > $3)
     ORDER BY saga_id LIMIT $4`,
    [filter.statuses ?? null, filter.name ?? null, filter.after ?? null, filter.limit ?? 100],
  )
  return rows.map((row) => ({
    ...row,
    createdAt: new Date(row.createdAt),
    updatedAt: new Date(row.updatedAt),
  }))
}

/**
 * A parked saga continues where it stopped: forward, repeating a refused step, or with its compensation. Where messages
 * drive it, those of its messages that have become dead letters come again.
 */
export async function retrySaga(kit: SagaKit, sagaId: string): Promise<boolean> {
  const s = kit.schema
  return kit.transaction(async (tx) => {
    const driven = await tx.query<{ status: SagaStatus }>(
      `SELECT status FROM ${s}.saga_instances
       WHERE saga_id = $1 AND driven_by = 'messages' AND next_attempt_at = 'infinity' FOR UPDATE`,
      [sagaId],
    )
    if (driven.rows[0] !== undefined)
      return retryMessageDriven(kit, tx, sagaId, driven.rows[0].status === 'parked')
    const { rows } = await tx.query<{ status: SagaStatus }>(
      `UPDATE ${s}.saga_instances SET attempts = 0, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp(),
         status = CASE WHEN driven_by = 'messages' OR EXISTS (SELECT 1 FROM ${s}.saga_steps t WHERE t.saga_id = $1
                                    AND t.status IN ('compensating', 'compensated', 'suspended'))
                  THEN 'compensating' ELSE 'running' END
       WHERE saga_id = $1 AND status = 'parked' RETURNING status`,
      [sagaId],
    )
    if (rows[0] === undefined) return false
    await unparkSagaSteps(kit, tx, sagaId)
    if (rows[0].status === 'running') await askAgain(kit, tx, sagaId)
    return true
  })
}

/**
 * Compensates a saga that is running or parked. Where messages drive it, also one whose steps here are done, by a runner
 * that has its part (`defineSagaPart`): what this service did is undone, and the events of its compensations do the rest.
 */
export async function compensateSaga(kit: SagaKit, sagaId: string, reason: string): Promise<boolean> {
  return kit.transaction(async (tx) => {
    const { rowCount } = await tx.query(
      `UPDATE ${kit.schema}.saga_instances
       SET status = 'compensating', reason = $2, attempts = 0, next_attempt_at = clock_timestamp(), owner = NULL,
           lease_until = '-infinity', updated_at = clock_timestamp()
       WHERE saga_id = $1 AND (status IN ('running', 'parked')
         OR driven_by = 'messages' AND status IN ('completed', 'compensating') AND next_attempt_at = 'infinity')`,
      [sagaId, reason],
    )
    if (rowCount === 1) await unparkSagaSteps(kit, tx, sagaId)
    return rowCount === 1
  })
}
