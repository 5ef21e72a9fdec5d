/**
 * Brings the schema to the version of this code: forward only, all of it in one transaction.
 *
 * The advisory lock belongs to the transaction, not to the session: that works behind a pooler in transaction mode, and
 * a process that dies leaves no lock behind. Of two processes that start together one migrates; the other waits, finds
 * nothing left to do, and continues.
 * A database that is newer than this code is left as it is: what its migrations say decides whether this code may work on it, because a
 * service that calls `migrate` at its start has to start when it goes back, and when it restarts while a later one runs beside it.
 * Refuses: a newer database that this code does not work on, and a released migration that was edited.
 */
import { createHash } from 'node:crypto'
import { identifier, safeInteger, sqlState, sqlStateOf, type Tx } from './database.ts'
import { SagaConfigError, TablesBusyError } from './errors.ts'
import { partitionsDefault, requirePartitions, type SagaKit } from './kit.ts'
import { requirePositive } from './option-checks.ts'
import { type Migration, migrations } from './schema.ts'

const latestVersion = migrations.at(-1)!.version

type MigrationReport = {
  /** Versions applied by this call; with `dryRun`, those that would be. */
  readonly applied: readonly number[]
  /** Of the tables; later than this kit's own where a later kit has migrated them. */
  readonly version: number
}

/**
 * The SQL of every migration, for databases whose schema the application may not change. Each is applied where it is missing, so the same
 * text makes the tables and brings those of any version up to date.
 */
export function plans(schema: string, partitions = partitionsDefault): string {
  const s = identifier(schema)
  requirePartitions(partitions)
  return [
    'BEGIN;',
    'SET LOCAL statement_timeout = 0;',
    `SELECT pg_advisory_xact_lock(hashtextextended('${lockName(schema)}', 0));`,
    `SET LOCAL lock_timeout = ${lockWaitDefaultMs};`,
    `${prologue(s).join(';\n')};`,
    ...migrations.map(
      (migration) => `-- ${migration.version}: ${migration.name}
DO $fencepost$ BEGIN IF NOT EXISTS (SELECT FROM ${s}.schema_migrations WHERE version = ${migration.version}) THEN
${sqlOf(migration, s)}
${recorded(migration, s)};
END IF; END $fencepost$;`,
    ),
    `-- ${partitions} partitions, as the services have it; left alone where there are some
INSERT INTO ${s}.outbox_partitions (partition) SELECT generate_series(0, ${partitions - 1})
WHERE NOT EXISTS (SELECT FROM ${s}.outbox_partitions);`,
    'COMMIT;',
    '',
  ].join('\n\n')
}

type MigrateOptions = {
  /** Apply nothing, and report what would be applied. */
  readonly dryRun?: boolean
  /** Keep the number of partitions that the services have set. Default false. */
  readonly keepPartitions?: boolean
  /**
   * How long it waits for a table that a long transaction has, and with it every statement of the services that comes after. Then it gives
   * way, and tries again. Default 2 s.
   */
  readonly lockWaitMs?: number
}

const lockWaitDefaultMs = 2_000

const retry = {
  maxAttempts: 10,
  sqlStates: [sqlState.lockNotAvailable, sqlState.deadlockDetected, sqlState.serializationFailure],
  // In between the services work off what stood behind it.
  backoff: { initialMs: 500, maxMs: 5_000 },
}

/** @throws TablesBusyError if others had the tables at each try */
export async function migrate(kit: SagaKit, options: MigrateOptions = {}): Promise<MigrationReport> {
  requirePositive({ lockWaitMs: options.lockWaitMs })
  try {
    return await kit.transaction((tx) => migrated(kit, tx, options), { retry })
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error
    throw new TablesBusyError(kit.schemaName, { cause: error })
  }
}

async function migrated(
  kit: SagaKit,
  tx: Tx,
  { dryRun = false, keepPartitions = false, lockWaitMs = lockWaitDefaultMs }: MigrateOptions,
): Promise<MigrationReport> {
  const s = kit.schema
  if (!dryRun) {
    // A limit that is meant for requests would end it each time: for another process that migrates, and for an index of a large table.
    await tx.query(`SELECT set_config('statement_timeout', '0', true)`)
    await tx.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [lockName(kit.schemaName)])
    // Another process may take long to migrate, and nobody waits behind this lock.
    await tx.query(`SELECT set_config('lock_timeout', $1, true)`, [`${Math.ceil(lockWaitMs)}ms`])
  }
  if (!(await exists(tx, kit.schemaName))) {
    await requireEncoding(tx)
    if (dryRun) return { applied: migrations.map(({ version }) => version), version: 0 }
    for (const statement of prologue(s)) await tx.query(statement)
  }
  const { pending, later } = await comparedMigrations(tx, s)
  const applied = pending.map(({ version }) => version)
  if (dryRun) return { applied, version: later ?? currentVersion(pending) }
  for (const migration of pending) {
    await tx.query(sqlOf(migration, s))
    await tx.query(recorded(migration, s))
  }
  await setPartitions(tx, s, kit.partitions, keepPartitions)
  return { applied, version: later ?? latestVersion }
}

async function exists(tx: Tx, schemaName: string): Promise<boolean> {
  const { rows } = await tx.query('SELECT to_regclass($1) IS NOT NULL AS found', [
    `${identifier(schemaName)}.schema_migrations`,
  ])
  return rows[0]!.found === true
}

/** SQL_ASCII takes any bytes. Any other lacks characters: a message that has one could neither be handled nor be a dead letter. */
const encodings: readonly unknown[] = ['UTF8', 'SQL_ASCII']

async function requireEncoding(tx: Tx): Promise<void> {
  const { rows } = await tx.query(`SELECT current_setting('server_encoding') AS encoding`)
  const { encoding } = rows[0]!
  if (encodings.includes(encoding)) return
  throw new SagaConfigError(
    `the database is encoded in ${String(encoding)}, which does not have every character of a message; create one with ENCODING 'UTF8'`,
  )
}

type Applied = { readonly version: number; readonly checksum: string; readonly oldestKit: number | null }

type ComparedMigrations = {
  readonly pending: readonly Migration[]
  /** The version of tables that a later kit has migrated. */
  readonly later: number | undefined
}

async function comparedMigrations(tx: Tx, s: string): Promise<ComparedMigrations> {
  const { rows } = await tx.query<Applied>(
    `SELECT version, checksum, oldest_kit AS "oldestKit" FROM ${s}.schema_migrations ORDER BY version`,
  )
  const done = new Map(rows.map((row) => [row.version, row]))
  for (const migration of migrations) {
    const { checksum: applied } = done.get(migration.version) ?? {}
    if (applied !== undefined && checksum(migration) !== applied)
      throw new SagaConfigError(
        `migration ${migration.version} (${migration.name}) differs from what the database was given`,
      )
  }
  const pending = migrations.filter(({ version }) => !done.has(version))
  const unknown = rows.filter(({ version }) => !migrations.some((known) => known.version === version))
  for (const { version, oldestKit } of unknown) requireWorksOn(version, oldestKit)
  const later = unknown.at(-1)?.version
  if (later !== undefined && pending.length > 0)
    throw new SagaConfigError(
      `the database is at migration ${later}, and lacks ${pending[0]!.version} (${pending[0]!.name})`,
    )
  return { pending, later }
}

/** On tables with a migration that this code does not know. */
function requireWorksOn(version: number, oldestKit: number | null): void {
  if (oldestKit !== null && oldestKit <= latestVersion) return
  const wanted =
    oldestKit === null
      ? ''
      : `: its tables want a version that knows migration ${oldestKit}, and this one knows ${latestVersion}`
  throw new SagaConfigError(
    `the database is at migration ${version}, which this version of fencepost does not know${wanted}`,
  )
}

function currentVersion(pending: readonly Migration[]): number {
  return (pending[0]?.version ?? latestVersion + 1) - 1
}

/**
 * The number of partitions decides which relay sees a message, and in which order those of an aggregate go: it may change only while the
 * outbox is empty, and nobody works with the old one. A service that only publishes leaves no trace of being there; relays do.
 */
async function setPartitions(tx: Tx, s: string, partitions: number, keep: boolean): Promise<void> {
  const { rows } = await tx.query(`SELECT count(*) AS count FROM ${s}.outbox_partitions`)
  const present = safeInteger(rows[0]!.count)
  if (present === partitions || (keep && present !== 0)) return
  await tx.query(`LOCK TABLE ${s}.outbox IN ACCESS EXCLUSIVE MODE`)
  const waiting = await tx.query(`SELECT 1 FROM ${s}.outbox LIMIT 1`)
  if (present !== 0 && waiting.rows.length > 0)
    throw new SagaConfigError(
      `the outbox has ${present} partitions and this kit asks for ${partitions}; change it while the outbox is empty and no service runs`,
    )
  const alive = await tx.query(
    `SELECT relay_id FROM ${s}.outbox_relays WHERE alive_until > clock_timestamp() ORDER BY relay_id LIMIT 1`,
  )
  if (present !== 0 && alive.rows.length > 0)
    throw new SagaConfigError(
      `the outbox has ${present} partitions and this kit asks for ${partitions}, while relay ${String(alive.rows[0]!.relay_id)} runs: stop all services before you change it; a relay that was killed counts until its lease is over`,
    )
  await tx.query(`DELETE FROM ${s}.outbox_partitions`)
  await tx.query(`INSERT INTO ${s}.outbox_partitions (partition) SELECT generate_series(0, $1 - 1)`, [
    partitions,
  ])
}

/** CREATE SCHEMA IF NOT EXISTS wants the right to create schemas also where the schema is there, and is the user's own. */
function prologue(s: string): readonly string[] {
  return [
    `DO $$ BEGIN
  IF to_regnamespace('${s}') IS NULL THEN CREATE SCHEMA ${s}; END IF;
END $$`,
    `CREATE TABLE IF NOT EXISTS ${s}.schema_migrations (
  version    integer     NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- A kit that goes back finds migrations that it does not know, and reads here whether it may go on.
  oldest_kit integer
)`,
  ]
}

function lockName(schemaName: string): string {
  return `fencepost/saga:${schemaName}`
}

/** Name and checksum are our own: there is nothing in them to escape. */
function recorded({ version, name, sql, oldestKit }: Migration, s: string): string {
  const values = `${version}, '${name}', '${checksum({ sql })}', ${oldestKit ?? 'NULL'}`
  return `INSERT INTO ${s}.schema_migrations (version, name, checksum, oldest_kit) VALUES (${values})`
}

function sqlOf(migration: Migration, s: string): string {
  return migration.sql.replaceAll('{s}', s)
}

function checksum({ sql }: Pick<Migration, 'sql'>): string {
  return createHash('sha256').update(sql).digest('hex')
}
