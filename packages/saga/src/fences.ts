/**
 * The final check of who may write: a resource accepts a fencing token only if it has seen no higher one.
 *
 * A lock is an optimisation: its holder may be paused for longer than its lease and write afterwards. That is harmless
 * because the resource itself compares tokens, inside the transaction that writes. The same token may write again
 * (`<=`): one holder has many writes. All tokens for one resource must come from one source, either the lock manager or
 * the steps of this kit, because they count differently.
 *
 * Source: Martin Kleppmann, "How to do distributed locking" (2016).
 */
import { identifier, rowsWritten, type Tx, tableName } from './database.ts'
import { FencedOutError, SagaKitError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { requireName } from './option-checks.ts'

type Fence = { readonly resource: string; readonly fencingToken: number }

/** Raises the fence of a resource to this token, or throws {@link FencedOutError}. Locks its row until the commit. */
export async function assertFence(kit: SagaKit, tx: Tx, { resource, fencingToken }: Fence): Promise<void> {
  requireName('resource', resource)
  requireToken(fencingToken)
  const written = await tx.query(
    `INSERT INTO ${kit.schema}.fences AS f (resource, last_fencing_token) VALUES ($1, $2)
     ON CONFLICT (resource) DO UPDATE
       SET last_fencing_token = EXCLUDED.last_fencing_token, updated_at = clock_timestamp()
       WHERE f.last_fencing_token <= EXCLUDED.last_fencing_token`,
    [resource, fencingToken],
  )
  if (rowsWritten(written) === 1) return
  kit.emit({ kind: 'fenced_out', what: resource })
  throw new FencedOutError(resource)
}

type FencedUpdate = {
  /** `table` or `schema.table`, with the columns `id` and `last_fencing_token` (BIGINT, may be null). */
  readonly table: string
  readonly id: string | number
  readonly fencingToken: number
  /** Columns and their new values. */
  readonly set: Readonly<Record<string, unknown>>
}

/** The row to update does not exist: an error, because an UPDATE of no row looks like success. */
export class RowNotFoundError extends SagaKitError {
  constructor(table: string, id: string | number) {
    super('row_not_found', `${table} has no row with id ${id}`)
  }
}

/** Updates one row, unless a higher token has written it before. */
export async function fencedUpdate(kit: SagaKit, tx: Tx, update: FencedUpdate): Promise<void> {
  const { id, fencingToken, set } = update
  requireToken(fencingToken)
  const table = tableName(update.table)
  const columns = Object.keys(set).map((column, index) => `${identifier(column)} = $${index + 3}, `)
  const written = await tx.query(
    `UPDATE ${table} SET ${columns.join('')}last_fencing_token = $2
     WHERE id = $1 AND (last_fencing_token IS NULL OR last_fencing_token <= $2)`,
    [id, fencingToken, ...Object.values(set)],
  )
  if (rowsWritten(written) === 1) return
  const { rows } = await tx.query(`SELECT 1 FROM ${table} WHERE id = $1`, [id])
  if (rows.length === 0) throw new RowNotFoundError(update.table, id)
  kit.emit({ kind: 'fenced_out', what: `${update.table} ${id}` })
  throw new FencedOutError(`${update.table} ${id}`)
}

function requireToken(fencingToken: number): void {
  if (!Number.isSafeInteger(fencingToken) || fencingToken < 1)
    throw new RangeError(`not a fencing token: ${fencingToken} (a whole number from 1 to 2^53 - 1 expected)`)
}
