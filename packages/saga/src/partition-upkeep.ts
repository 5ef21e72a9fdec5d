/**
 * What the outbox's partitions need from time to time: what relays that are gone left behind is removed, and messages in a
 * partition that the database does not have are moved to theirs.
 *
 * Refuses to own the leases (`partition-leases.ts`) and the number of partitions (`migrate.ts`).
 */
import { SagaConfigError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { partitionOf } from './outbox.ts'

/** Long after the leases of a relay that died have lapsed. */
const leftBehindMs = 3_600_000

/** Aggregates whose messages one run moves; the next run continues. */
const movedMax = 1_000

/** Returns how many rows it removed or reset. */
export async function maintainPartitions(kit: SagaKit): Promise<number> {
  const s = kit.schema
  const stops = await kit.query(
    `DELETE FROM ${s}.outbox_stops WHERE until < clock_timestamp() - $1 * interval '1 ms'`,
    [leftBehindMs],
  )
  const partitions = await kit.query(
    `UPDATE ${s}.outbox_partitions SET owner = NULL, lease_until = '-infinity'
     WHERE owner IS NOT NULL AND lease_until < clock_timestamp() - $1 * interval '1 ms'`,
    [leftBehindMs],
  )
  await moveStranded(kit)
  return (stops.rowCount ?? 0) + (partitions.rowCount ?? 0)
}

/**
 * A service whose kit has more partitions than the database writes messages that no relay would ever look for. They go
 * where the database's number puts them, and the event says which setting is wrong.
 */
async function moveStranded(kit: SagaKit): Promise<void> {
  const s = kit.schema
  const { rows } = await kit.query<{ type: string; id: string; highest: number; partitions: number }>(
    `SELECT aggregate_type AS type, aggregate_id AS id, max(partition) AS highest, n::int AS partitions
     FROM ${s}.outbox, (SELECT count(*) AS n FROM ${s}.outbox_partitions) AS known
     WHERE partition >= n GROUP BY 1, 2, 4 LIMIT $1`,
    [movedMax],
  )
  const [first] = rows
  if (first === undefined || first.partitions === 0) return
  const { partitions } = first
  const { rowCount } = await kit.query(
    `UPDATE ${s}.outbox o SET partition = a.partition
     FROM unnest($1::text[], $2::text[], $3::smallint[]) AS a (type, id, partition)
     WHERE o.aggregate_type = a.type AND o.aggregate_id = a.id AND o.partition >= $4`,
    [
      rows.map(({ type }) => type),
      rows.map(({ id }) => id),
      rows.map(({ type, id }) => partitionOf(type, id, partitions)),
      partitions,
    ],
  )
  const highest = Math.max(...rows.map((row) => row.highest))
  const error = new SagaConfigError(
    `${rowCount} messages stood in partitions up to ${highest}, and the database has ${partitions}: they were moved, and no relay had sent them; give every service that publishes partitions: ${partitions}`,
  )
  kit.emit({ kind: 'housekeeping_error', error })
}
