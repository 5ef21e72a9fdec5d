/**
 * What PostgreSQL refuses because something was not set up: the login, the database, the tables, the rights. Each by a
 * name of its own, with what to do, instead of as an outage that passes.
 *
 * Only for the kit's own statements: a handler's may miss tables of its own.
 */
import { sqlStateOf } from './database.ts'
import { DatabaseRefusedError, SchemaMissingError } from './errors.ts'
import type { SagaKit } from './kit.ts'

/** https://www.postgresql.org/docs/current/errcodes-appendix.html: undefined schema, table and column. */
const missingStates: readonly unknown[] = ['3F000', '42P01', '42703']

const refusals: Readonly<Record<string, string>> = {
  '28000': 'check the user of the pool, and pg_hba.conf',
  '28P01': 'check the user and the password of the pool',
  '3D000': 'create the database, or correct its name in the pool’s settings',
  '42501': 'grant the user of the pool its rights on the schema and its tables',
}

/** The error itself if it is none of these. */
export function explained(kit: Pick<SagaKit, 'schemaName'>, error: unknown): unknown {
  const state = sqlStateOf(error)
  if (missingStates.includes(state)) return new SchemaMissingError(kit.schemaName, { cause: error })
  const advice = state === undefined ? undefined : refusals[state]
  return advice === undefined
    ? error
    : new DatabaseRefusedError(String((error as Error).message), advice, { cause: error })
}

const setUp = new WeakSet<SagaKit>()

/**
 * Refuses to begin on a database that can never work. One that is away now is none of them: what begins waits for it. Asked of each kit
 * until it is so, because tables are never taken back.
 * @throws SchemaMissingError
 * @throws DatabaseRefusedError
 */
export async function requireSetUp(kit: SagaKit): Promise<void> {
  if (setUp.has(kit)) return
  let publishes: boolean
  try {
    await kit.query(`SELECT parked FROM ${kit.schema}.saga_steps LIMIT 0`)
    // What handlers and steps publish needs it. Asked in a way that takes no right on the outbox.
    const { rows } = await kit.query(
      `SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'scheduled' AND NOT attisdropped`,
      [`${kit.schema}.outbox`],
    )
    publishes = rows.length > 0
  } catch (error) {
    const reason = explained(kit, error)
    if (reason !== error) throw reason
    return
  }
  if (!publishes) throw new SchemaMissingError(kit.schemaName)
  setUp.add(kit)
}
