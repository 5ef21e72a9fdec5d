/**
 * Finishes steps whose process died and whose caller does not come back: the application repeats them.
 *
 * Sagas and consumers come back by themselves (a saga is due, a message is redelivered). A step that ran on its own,
 * with `keepRequest`, goes to the handler of its scope, which calls `runIdempotentStep` again with the same key.
 */
import type { SagaKit } from './kit.ts'
import { requireWhole } from './option-checks.ts'

type Recoverable = {
  readonly scope: string
  readonly key: string
  readonly request: unknown
  readonly attempts: number
}

type RecoveryReport = {
  readonly recovered: number
  readonly failed: number
  /** Expired without a kept request or a handler: their callers must come back, or a person must look. */
  readonly leftAlone: number
  readonly parked: number
}

export async function runRecovery(
  kit: SagaKit,
  handlers: Readonly<Record<string, (step: Recoverable) => Promise<unknown>>>,
  limit = 100,
): Promise<RecoveryReport> {
  requireWhole({ limit })
  const s = kit.schema
  const { rows } = await kit.query<Omit<Recoverable, 'request'> & { readonly request: string }>(
    `SELECT scope, key, request::text AS request, attempts FROM ${s}.idempotency_keys
     WHERE status = 'in_progress' AND locked_until < clock_timestamp() AND scope = ANY($1) AND request IS NOT NULL
     ORDER BY locked_until LIMIT $2`,
    [Object.keys(handlers), limit],
  )
  let recovered = 0
  for (const { request, ...row } of rows) {
    const step: Recoverable = { ...row, request: JSON.parse(request) }
    try {
      await handlers[step.scope]!(step)
      recovered += 1
      kit.emit({ kind: 'recovered', scope: step.scope, key: step.key })
    } catch (error) {
      kit.emit({ kind: 'saga_error', error })
    }
  }
  const left = await kit.query<{ parked: number; alone: number }>(
    `SELECT count(*) FILTER (WHERE status = 'parked')::int AS parked,
            count(*) FILTER (WHERE status = 'in_progress' AND (request IS NULL OR NOT scope = ANY($1)))::int AS alone
     FROM ${s}.idempotency_keys WHERE status = 'parked' OR (status = 'in_progress' AND locked_until < clock_timestamp())`,
    [Object.keys(handlers)],
  )
  const { parked, alone } = left.rows[0]!
  return { recovered, failed: rows.length - recovered, leftAlone: alone, parked }
}
