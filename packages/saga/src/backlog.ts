/**
 * The backlog of messages and sagas: one query over the tables, for gauges.
 *
 * Owns the query. It counts rows, so it runs now and then, not at every scrape, and it has a time limit: a gauge must
 * not become the database's trouble.
 */
import { safeInteger } from './database.ts'
import type { SagaKit } from './kit.ts'

/** As the database reported it at one moment. */
export type SagaBacklog = {
  /** Messages that could be sent now; those of parked aggregates are not among them. */
  readonly outboxPending: number
  readonly outboxParked: number
  /** Of the pending ones; 0 where there is none. */
  readonly oldestPendingAgeMs: number
  /** The same by partition; those with nothing to send are absent. */
  readonly partitionAgesMs: ReadonlyMap<number, number>
  /** Messages that consumers have begun and will get again, and those that wait behind them. */
  readonly inboxOpen: number
  readonly openDeadLetters: Readonly<Record<'outbox' | 'inbox', number>>
  readonly sagas: Readonly<Record<'running' | 'compensating' | 'parked', number>>
  /** Rows of the outbox that are deleted and not yet cleaned up. */
  readonly outboxDeadRows: number
  /** An open transaction blocks all cleanup; of the whole database, 0 where none is open. */
  readonly oldestTransactionAgeMs: number
}

/** @throws what PostgreSQL or the connection reports, at the latest after `timeoutMs` for each statement */
export async function sagaBacklog(kit: SagaKit, timeoutMs: number): Promise<SagaBacklog> {
  const s = kit.schema
  return kit.transaction(
    async (tx) => {
      const { rows: partitions } = await tx.query(
        `SELECT partition, parked, count(*) AS messages,
                extract(epoch FROM clock_timestamp() - min(created_at)) * 1000 AS age_ms
         FROM (SELECT o.partition, o.created_at, EXISTS (SELECT 1 FROM ${s}.outbox_stops t
                 WHERE t.aggregate_type = o.aggregate_type AND t.aggregate_id = o.aggregate_id AND t.until = 'infinity') AS parked
               FROM ${s}.outbox o WHERE o.available_at <= clock_timestamp()) AS due
         GROUP BY partition, parked`,
      )
      const { rows } = await tx.query(
        `SELECT
           (SELECT count(*) FROM ${s}.inbox WHERE status IN ('retrying', 'waiting')) AS inbox_open,
           (SELECT count(*) FROM ${s}.dead_letters WHERE status IN ('dead', 'replaying') AND source = 'outbox') AS dead_outbox,
           (SELECT count(*) FROM ${s}.dead_letters WHERE status IN ('dead', 'replaying') AND source = 'inbox') AS dead_inbox,
           (SELECT count(*) FROM ${s}.saga_instances WHERE status = 'running') AS running,
           (SELECT count(*) FROM ${s}.saga_instances WHERE status = 'compensating') AS compensating,
           (SELECT count(*) FROM ${s}.saga_instances WHERE status = 'parked') AS parked,
           (SELECT coalesce(n_dead_tup, 0) FROM pg_stat_all_tables WHERE relid = '${s}.outbox'::regclass) AS dead_rows,
           (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) * 1000 FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend') AS transaction_age_ms`,
      )
      const [row] = rows
      const pending = partitions.filter(({ parked }) => parked === false)
      const partitionAgesMs = new Map(
        pending.map(({ partition, age_ms }) => [Number(partition), Math.max(0, Number(age_ms))] as const),
      )
      return {
        outboxPending: sumOf(pending),
        outboxParked: sumOf(partitions.filter(({ parked }) => parked === true)),
        oldestPendingAgeMs: Math.max(0, ...partitionAgesMs.values()),
        partitionAgesMs,
        inboxOpen: safeInteger(row?.inbox_open),
        openDeadLetters: { outbox: safeInteger(row?.dead_outbox), inbox: safeInteger(row?.dead_inbox) },
        sagas: {
          running: safeInteger(row?.running),
          compensating: safeInteger(row?.compensating),
          parked: safeInteger(row?.parked),
        },
        outboxDeadRows: safeInteger(row?.dead_rows ?? 0),
        oldestTransactionAgeMs: Math.max(0, Number(row?.transaction_age_ms)),
      }
    },
    { statementTimeoutMs: timeoutMs },
  )
}

function sumOf(rows: readonly { readonly messages?: unknown }[]): number {
  return rows.reduce((sum, { messages }) => sum + safeInteger(messages), 0)
}
