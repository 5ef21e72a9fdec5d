/**
 * The gauges of messages and sagas, for a sidecar with the database of the saga kit: names, labels, values.
 *
 * Owns the value of what is unknown. `app/sagas.ts` decides when the database is queried.
 */
import { DEAD_LETTER_SOURCES, OPEN_SAGA_STATES, type SagaBacklog } from '../core/saga-admin.ts'
import type { MakeGauge } from './gauge.ts'

/** Partitions of the outbox share these labels, by the remainder: there may be a thousand partitions. */
const PARTITION_LABELS: readonly string[] = Array.from({ length: 8 }, (_, index) => String(index))

export type SagaGauges = ReturnType<typeof sagaGauges>

/** They describe the database, not this sidecar: every sidecar with that database exports the same values. */
export function sagaGauges(gauge: MakeGauge) {
  const unknown = Number.NaN
  return {
    up: gauge('fencepost_saga_database_up', '1 where the database of the sagas answered the last look.', {}),
    pending: gauge('fencepost_outbox_pending', 'Messages of the outbox that could be sent now.', {}, unknown),
    parked: gauge('fencepost_outbox_parked', 'Messages behind a dead one of their aggregate.', {}, unknown),
    oldestAge: gauge(
      'fencepost_outbox_oldest_age_seconds',
      'Age of the oldest message that could be sent now; 0 where there is none.',
      {},
      unknown,
    ),
    partitionLag: gauge(
      'fencepost_outbox_partition_lag_seconds',
      'The same by partition, those with the same remainder together.',
      { partition: PARTITION_LABELS },
      unknown,
    ),
    inboxOpen: gauge(
      'fencepost_inbox_open',
      'Messages that failed at a consumer and come again, and those that wait behind them.',
      {},
      unknown,
    ),
    deadLetters: gauge(
      'fencepost_dead_letters_open',
      'Messages that were given up and wait for a person.',
      { source: DEAD_LETTER_SOURCES },
      unknown,
    ),
    open: gauge(
      'fencepost_sagas_open',
      'Sagas that are not at their end; parked ones wait for a person.',
      { state: OPEN_SAGA_STATES },
      unknown,
    ),
    deadRows: gauge(
      'fencepost_outbox_dead_rows',
      'Rows of the outbox that are deleted and not yet vacuumed.',
      {},
      unknown,
    ),
    transactionAge: gauge(
      'fencepost_saga_database_oldest_transaction_seconds',
      'Age of the oldest open transaction of the database: while it lasts nothing is vacuumed.',
      {},
      unknown,
    ),
  }
}

/** An unknown value is NaN: neither 0 nor the previous one. */
export function recordSagaBacklog(sagas: SagaGauges | undefined, backlog: SagaBacklog | undefined): void {
  if (sagas === undefined) return
  sagas.up.set(backlog === undefined ? 0 : 1)
  sagas.pending.set(backlog?.outboxPending ?? Number.NaN)
  sagas.parked.set(backlog?.outboxParked ?? Number.NaN)
  sagas.oldestAge.set((backlog?.oldestPendingAgeMs ?? Number.NaN) / 1000)
  sagas.inboxOpen.set(backlog?.inboxOpen ?? Number.NaN)
  sagas.deadRows.set(backlog?.outboxDeadRows ?? Number.NaN)
  sagas.transactionAge.set((backlog?.oldestTransactionAgeMs ?? Number.NaN) / 1000)
  for (const source of DEAD_LETTER_SOURCES)
    sagas.deadLetters.set({ source }, backlog?.openDeadLetters[source] ?? Number.NaN)
  for (const state of OPEN_SAGA_STATES) sagas.open.set({ state }, backlog?.sagas[state] ?? Number.NaN)
  for (const partition of PARTITION_LABELS)
    sagas.partitionLag.set({ partition }, partitionLagS(backlog, Number(partition)))
}

/** The largest lag among the partitions that share a label. */
function partitionLagS(backlog: SagaBacklog | undefined, label: number): number {
  if (backlog === undefined) return Number.NaN
  const sharing = [...backlog.partitionAgesMs].filter(
    ([partition]) => partition % PARTITION_LABELS.length === label,
  )
  return Math.max(0, ...sharing.map(([, ageMs]) => ageMs)) / 1000
}
