/**
 * Brings the schema to the version of this code: forward only, all of it in one transaction.
 *
 * The advisory lock belongs to the transaction, not to the session: that works behind a pooler in transaction mode, and
 * a process that dies leaves no lock behind. Of two processes that start together one migrates; the other waits, finds
 * nothing left to do, and continues.
 * Refuses: a database that is newer than this code, and a released migration that was edited.
 */
import { createHash } from 'node:crypto'
import { identifier, safeInteger, type Tx } from './database.ts'
import { SagaConfigError } from './errors.ts'
import { partitionsDefault, requirePartitions, type SagaKit } from './kit.ts'
import { type Migration, migrations } from './schema.ts'

export type MigrationReport = {
  /** Versions applied by this call; with `dryRun`, those that would be. */
  readonly applied: readonly number[]
  readonly version: number
}

/** The SQL of every migration, for databases whose schema the application may not change. */
export function plans(schema: string, partitions = partitionsDefault): string {
  const s = identifier(schema)
  requirePartitions(partitions)
  return [
    'BEGIN;',
    `${prologue(s).join(';\n')};`,
    ...migrations.map(
      (migration) =>
        `-- ${migration.version}: ${migration.name}${sqlOf(migration, s)}\nINSERT INTO ${s}.schema_migrations (version, name, checksum) VALUES (${migration.version}, '${migration.name}', '${checksum(migration)}');`,
    ),
    `-- ${partitions} partitions, as the services have it; left alone where there are some
INSERT INTO ${s}.outbox_partitions (partition) SELECT generate_series(0, ${partitions - 1})
WHERE NOT EXISTS (SELECT FROM ${s}.outbox_partitions);`,
    'COMMIT;',
    '',
  ].join('\n\n')
}

export type MigrateOptions = {
  /** Apply nothing, and report what would be applied. */
  readonly dryRun?: boolean
  /** Keep the number of partitions that the services have set. Default false. */
  readonly keepPartitions?: boolean
}

export async function migrate(
  kit: SagaKit,
  { dryRun = false, keepPartitions = false }: MigrateOptions = {},
): Promise<MigrationReport> {
  const s = kit.schema
  return kit.transaction(async (tx) => {
    if (!dryRun)
      await tx.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
        `fencepost/saga:${kit.schemaName}`,
      ])
    if (!(await exists(tx, kit.schemaName))) {
      if (dryRun) return { applied: migrations.map(({ version }) => version), version: 0 }
      for (const statement of prologue(s)) await tx.query(statement)
    }
    const pending = await pendingMigrations(tx, s)
    if (dryRun) return { applied: pending.map(({ version }) => version), version: currentVersion(pending) }
    for (const migration of pending) {
      await tx.query(sqlOf(migration, s))
      await tx.query(`INSERT INTO ${s}.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)`, [
        migration.version,
        migration.name,
        checksum(migration),
      ])
    }
    await setPartitions(tx, s, kit.partitions, keepPartitions)
    return { applied: pending.map(({ version }) => version), version: migrations.at(-1)!.version }
  })
}

async function exists(tx: Tx, schemaName: string): Promise<boolean> {
  const { rows } = await tx.query('SELECT to_regclass($1) IS NOT NULL AS found', [
    `${identifier(schemaName)}.schema_migrations`,
  ])
  return rows[0]!.found === true
}

async function pendingMigrations(tx: Tx, s: string): Promise<readonly Migration[]> {
  const { rows } = await tx.query<{ version: number; checksum: string }>(
    `SELECT version, checksum FROM ${s}.schema_migrations ORDER BY version`,
  )
  const known = new Map(migrations.map((migration) => [migration.version, migration]))
  for (const { version, checksum: applied } of rows) {
    const migration = known.get(version)
    if (migration === undefined)
      throw new SagaConfigError(
        `the database is at migration ${version}, which this version of fencepost does not know`,
      )
    if (checksum(migration) !== applied)
      throw new SagaConfigError(
        `migration ${version} (${migration.name}) differs from what the database was given`,
      )
  }
  const done = new Set(rows.map(({ version }) => version))
  return migrations.filter(({ version }) => !done.has(version))
}

function currentVersion(pending: readonly Migration[]): number {
  return (pending[0]?.version ?? migrations.at(-1)!.version + 1) - 1
}

/** The number of partitions decides which relay sees a message: it may change only while the outbox is empty. */
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
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)`,
  ]
}

function sqlOf(migration: Migration, s: string): string {
  return migration.sql.replaceAll('{s}', s)
}

function checksum(migration: Migration): string {
  return createHash('sha256').update(migration.sql).digest('hex')
}
