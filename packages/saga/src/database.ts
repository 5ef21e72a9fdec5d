/**
 * What the kit needs of PostgreSQL: an object with `query(text, values)`, and a pool of `pg`.
 *
 * Owns the narrow interface that application code can satisfy with its own transaction (a query builder's, for
 * example), reading SQLSTATE, and quoting identifiers. All instants come from the database's clock
 * (`clock_timestamp()`), because several machines compare leases and share only the database.
 */
import type { Pool } from 'pg'
import { CommitOutcomeUnknownError, SagaConfigError } from './errors.ts'

export type Row = Record<string, unknown>

export type QueryAnswer<R extends Row = Row> = { readonly rows: R[]; readonly rowCount: number | null }

/**
 * A transaction, as far as the kit is concerned. Its statements send JSON as text (`$1::text::json`): a library that encodes values
 * by the types of their parameters would make JSON of it once more.
 */
export interface Tx {
  /** A pool has it: each of its queries may go to another connection, which is no transaction. */
  readonly totalCount?: never
  query<R extends Row = Row>(text: string, values?: unknown[]): Promise<QueryAnswer<R>>
}

/**
 * How many rows a statement has written, for what is decided by it. Who makes a `Tx` of their own library may leave it out, and
 * that must not read as "none": the work would count as done before, and never run.
 */
export function rowsWritten({ rowCount }: QueryAnswer): number {
  if (Number.isInteger(rowCount)) return rowCount as number
  throw new SagaConfigError(
    `the transaction's \`query\` answered a statement that writes with the rowCount ${String(rowCount)}; it has to say how many rows were written, as \`pg\` does`,
  )
}

export type { Pool }

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
export const sqlState = {
  serializationFailure: '40001',
  deadlockDetected: '40P01',
  lockNotAvailable: '55P03',
  queryCanceled: '57014',
  uniqueViolation: '23505',
  tooManyConnections: '53300',
  idleInTransaction: '25P03',
  transactionTimeout: '25P04',
  noTransaction: '25P01',
  failedTransaction: '25P02',
  readOnlyTransaction: '25006',
  diskFull: '53100',
} as const

/** By identity: of errors that have it elsewhere than in their `code`. */
const knownStates = new WeakMap<object, string>()

/** Notes the SQLSTATE of a library's own error, which the application gets as it is. */
export function noteSqlState(error: unknown, state: string | undefined): void {
  if (typeof error === 'object' && error !== null && state !== undefined) knownStates.set(error, state)
}

export function sqlStateOf(error: unknown): string | undefined {
  const known = typeof error === 'object' && error !== null ? knownStates.get(error) : undefined
  if (known !== undefined) return known
  const code = (error as { code?: unknown } | null)?.code
  // With a digit: EPIPE has five capitals as well.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined
}

const lossStates: readonly string[] = ['57P01', '57P02', '57P03', '57P05', sqlState.tooManyConnections]
const lossSentences =
  /connection (terminated|error|ended)|client (has encountered|was closed)|timeout exceeded when trying to connect/i

/**
 * The connection or the server is gone. The statement in flight may have taken effect.
 * Class 08 (connection exception), 57P01..57P03 (shut down, crash, starting up), 57P05 (idle for too long), 53300 (no connection is left),
 * sockets, sentences of pg, and of its pool when no connection is free.
 */
export function isConnectionLoss(error: unknown): boolean {
  const state = sqlStateOf(error)
  if (state !== undefined) return state.startsWith('08') || lossStates.includes(state)
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof code === 'string' && /^E(CONN|PIPE|TIMEDOUT|HOST|NET|NOENT)/.test(code)) return true
  return typeof message === 'string' && lossSentences.test(message)
}

/** By identity, because an error of the application may have the same code. */
const metOutage = new WeakSet<object>()

/** Marks an error during which the kit lost its connection, whatever the error itself says. */
export function markOutage(error: unknown): void {
  if (typeof error === 'object' && error !== null) metOutage.add(error)
}

/**
 * The session can only read: after a failover it may lead to a replica, and it does so for as long as it lives.
 * What changes that is a new connection.
 */
export function isReadOnly(error: unknown): boolean {
  return sqlStateOf(error) === sqlState.readOnlyTransaction
}

/** `query_timeout` of `pg`: the server has not answered, or not yet. Of a statement of the application it may be the statement's fault. */
function isUnanswered(error: unknown): boolean {
  return sqlStateOf(error) === undefined && (error as Error | null)?.message === 'Query read timeout'
}

/** A query of the kit's own: outside a transaction, or in one before any work of the application. */
export async function asked<T>(question: Promise<T>): Promise<T> {
  try {
    return await question
  } catch (error) {
    if (isConnectionLoss(error) || isReadOnly(error) || isUnanswered(error)) markOutage(error)
    throw error
  }
}

/**
 * The kit's own database was out of reach. The place that raised the error decides: a handler that cannot reach another
 * system throws the same codes, and that is the handler's failure. Only a full disk is nobody's, whichever statement meets it.
 */
export function isOutage(error: unknown): boolean {
  return (
    error instanceof CommitOutcomeUnknownError ||
    sqlStateOf(error) === sqlState.diskFull ||
    (typeof error === 'object' && error !== null && metOutage.has(error))
  )
}

const identifierPattern = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

/** Quotes one identifier. Unusual names are refused rather than escaped: they are more often a mistake. */
export function identifier(name: string): string {
  if (!identifierPattern.test(name))
    throw new SagaConfigError(
      `not an SQL identifier of letters, digits and _ (at most 63): ${JSON.stringify(name)}`,
    )
  return `"${name}"`
}

/** Quotes `table` or `schema.table`. */
export function tableName(name: string): string {
  return name.split('.').map(identifier).join('.')
}

/** As PostgreSQL can store it: its text has no NUL, and its jsonb no half of a surrogate pair. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\u{FFFD}').toWellFormed()
}

/**
 * SQL of an instant as ISO 8601 text; NULL if it is infinite. What the kit reads comes as text or as a small number: the
 * application's type parsers, and a query builder's, may make anything of timestamps, JSON and large numbers.
 */
export function isoText(column: string): string {
  return `CASE WHEN isfinite(${column}) THEN to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END`
}

/** BIGINT comes as text from `pg`; ours are tokens and identities below 2^53. */
export function safeInteger(value: unknown): number {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new RangeError(`not a safe integer: ${String(value)}`)
  return number
}
