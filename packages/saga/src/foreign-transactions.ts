/**
 * The transaction of a query builder or ORM as the kit's `Tx`: the same connection, the same commit.
 *
 * Owns the translation of `query(text, values)` and of its answer, each in a few lines over the library's own documented
 * way to send SQL. Rows have the names that PostgreSQL gives them, whatever the application has the library make of its own.
 * Loads no library: what is needed of one is an argument. A client of `pg` needs none of this, because it is a `Tx` as it is.
 */
import {
  isConnectionLoss,
  noteSqlState,
  type QueryAnswer,
  type Row,
  sqlStateOf,
  type Tx,
} from './database.ts'

/** One `Tx` for each transaction, so that calls which name the same one take turns on its connection. */
const known = new WeakMap<object, Tx>()

type Query = (text: string, values: readonly unknown[]) => Promise<QueryAnswer>

function txOf(transaction: object, query: Query): Tx {
  const before = known.get(transaction)
  if (before !== undefined) return before
  const tx: Tx = {
    query: async <R extends Row>(text: string, values: unknown[] = []) => {
      try {
        return (await query(text, values)) as QueryAnswer<R>
      } catch (error) {
        noteSqlState(error, stateWithin(error))
        throw error
      }
    },
  }
  known.set(transaction, tx)
  return tx
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html: connection_failure. */
const connectionFailure = '08006'

/**
 * What the server said: in the library's error, in its cause (Drizzle), or beside a code of the library's (Prisma). Where it said
 * nothing, because the connection is gone, the driver did.
 */
function stateWithin(error: unknown): string | undefined {
  for (let one = error as Loose; typeof one === 'object' && one !== null; one = one.cause) {
    const { meta } = one
    for (const code of [meta?.code, meta?.driverAdapterError?.cause?.originalCode, one.code]) {
      const state = sqlStateOf({ code })
      // P0000 to P0004 are PL/pgSQL's; the others are Prisma's.
      if (state !== undefined && !/^P[1-9]/.test(state)) return state
    }
    // TypeORM lets go of a connection that has ended, and then says no more than that.
    if (isConnectionLoss(one) || one.name === 'QueryRunnerAlreadyReleasedError') return connectionFailure
  }
  return undefined
}

/** The text between the parameters, and the parameters in the order of the text. */
function pieces(text: string, values: readonly unknown[]): { texts: readonly string[]; values: unknown[] } {
  const { texts, numbers } = parametersOf(text)
  return { texts, values: numbers.map((number) => values[number - 1]) }
}

// biome-ignore lint/suspicious/noExplicitAny: the libraries' own types differ between their versions
type Loose = any

/** `db.transaction((tx) => … fromDrizzle(tx, sql) …)` of `drizzle-orm/node-postgres`. */
export function fromDrizzle(tx: { execute(query: Loose): PromiseLike<Loose> }, sql: Loose): Tx {
  return txOf(tx, async (text, values) => {
    const { texts, values: inOrder } = pieces(text, values)
    const chunks = texts.flatMap((piece, index) =>
      index === 0 ? [sql.raw(piece)] : [sql.param(inOrder[index - 1]), sql.raw(piece)],
    )
    const { rows, rowCount } = await tx.execute(sql.join(chunks))
    return { rows, rowCount }
  })
}

type KyselyExecutor = {
  executeQuery(query: Loose): Promise<{ rows: unknown[]; numAffectedRows?: bigint | undefined }>
}

/** `db.transaction().execute((trx) => … fromKysely(trx, CompiledQuery) …)`, on its PostgresDialect. */
export function fromKysely(
  trx: KyselyExecutor & { withoutPlugins(): KyselyExecutor },
  compiledQuery: { raw(sql: string, parameters: unknown[]): unknown },
): Tx {
  // CamelCasePlugin renames the columns of rows, those of SQL text as well.
  const bare = trx.withoutPlugins()
  return txOf(trx, async (text, values) => {
    const { rows, numAffectedRows } = await bare.executeQuery(compiledQuery.raw(text, [...values]))
    return { rows: rows as Row[], rowCount: Number(numAffectedRows ?? rows.length) }
  })
}

/** `knex.transaction((trx) => … fromKnex(trx) …)`, on its client `pg`. */
export function fromKnex(trx: {
  raw(sql: string, bindings: Loose): PromiseLike<Loose> & { on(event: string, listener: Loose): unknown }
}): Tx {
  return txOf(trx, async (text, values) => {
    const { texts, values: inOrder } = pieces(text, values)
    const sql = texts.map((piece) => piece.replaceAll('?', '\\?')).join('?')
    const query = trx.raw(sql, inOrder)
    // The application's `postProcessResponse` renames columns; the event has the answer as the driver gave it.
    let answer: Loose
    query.on('query-response', (_processed: unknown, { response }: Loose) => {
      answer = response
    })
    const processed = await query
    const { rows, rowCount } = answer ?? processed
    return { rows, rowCount }
  })
}

/** `prisma.$transaction((tx) => … fromPrisma(tx) …)`. */
export function fromPrisma(tx: {
  $queryRawUnsafe(query: string, ...values: Loose[]): PromiseLike<unknown>
  $executeRawUnsafe(query: string, ...values: Loose[]): PromiseLike<number>
}): Tx {
  return txOf(tx, async (text, given) => {
    // Its own text of an instant is UTC without saying so, and PostgreSQL takes that for the time zone of the session.
    const values = given.map((value) => (value instanceof Date ? value.toISOString() : value))
    // It answers a statement either with rows or with their number.
    if (!answersWithRows(text)) return { rows: [], rowCount: await tx.$executeRawUnsafe(text, ...values) }
    const rows = (await tx.$queryRawUnsafe(text, ...values)) as Row[]
    return { rows, rowCount: rows.length }
  })
}

/** `dataSource.transaction((manager) => … fromTypeOrm(manager) …)`. */
export function fromTypeOrm(manager: {
  readonly queryRunner?:
    | { query(sql: string, parameters: Loose[], structured: true): Promise<Loose> }
    | undefined
}): Tx {
  const { queryRunner } = manager
  if (queryRunner === undefined)
    throw new TypeError(
      'fromTypeOrm needs the manager of a transaction: dataSource.transaction((manager) => …)',
    )
  return txOf(queryRunner, async (text, values) => {
    const { records, affected } = await queryRunner.query(text, [...values], true)
    return { rows: records, rowCount: affected ?? records.length }
  })
}

/** What is no SQL inside SQL: literals, quoted names and comments, in which a `$1` is no parameter and a word no verb. */
const token = new RegExp(
  [
    String.raw`(?<![\w$])[eE]'(?:[^'\\]|\\[\s\S]|'')*'`,
    `'(?:[^']|'')*'`,
    `"(?:[^"]|"")*"`,
    String.raw`--[^\n]*`,
    String.raw`\/\*[\s\S]*?\*\/`,
    String.raw`(?<![\w$])\$(?<tag>[A-Za-z_]\w*)?\$[\s\S]*?\$\k<tag>\$`,
    String.raw`(?<![\w$])\$(?<parameter>\d+)`,
  ].join('|'),
  'g',
)

/** The text between the parameters, and their numbers in the order of the text: `$2, $1, $2` are three. */
export function parametersOf(text: string): {
  readonly texts: readonly string[]
  readonly numbers: readonly number[]
} {
  const texts: string[] = []
  const numbers: number[] = []
  let from = 0
  for (const { 0: found, index, groups } of text.matchAll(token)) {
    if (groups?.parameter === undefined) continue
    texts.push(text.slice(from, index))
    numbers.push(Number(groups.parameter))
    from = index + found.length
  }
  return { texts: [...texts, text.slice(from)], numbers }
}

/** Whether the statement itself answers with rows, whatever the ones inside it do. */
export function answersWithRows(text: string): boolean {
  let outer = text.replace(token, (found) => (/^(--|\/\*)/.test(found) ? ' ' : "''"))
  for (let before = ''; before !== outer; ) {
    before = outer
    outer = outer.replace(/\((?:[^()]+)\)/g, '()')
  }
  if (/\bRETURNING\b/i.test(outer)) return true
  if (/^\s*WITH\b/i.test(outer)) return !/\)\s*(INSERT|UPDATE|DELETE|MERGE)\b/i.test(outer)
  return /^\s*(\(|(SELECT|SHOW|VALUES|TABLE|EXPLAIN|FETCH)\b)/i.test(outer)
}
