/**
 * The backlog of messages and sagas as gauges, in the text format of Prometheus: names, labels, values.
 *
 * Owns how often the database is queried, and the value of what is unknown. A scrape never queries: it gets the last result, and NaN if the
 * last query failed or is overdue. The values are those of the database: each process that looks shows the same.
 */
import { type SagaBacklog as Backlog, sagaBacklog } from '../backlog.ts'
import { type Timer, within } from '../core.ts'
import type { SagaKit } from '../kit.ts'
import { explained } from '../setup-errors.ts'

/** A few counts in the database, four times a minute. */
const queryEveryMs = 15_000
/** Time limit of a query: for connecting, and for each statement. */
const queryDeadlineMs = 5_000
/** Partitions of the outbox share these labels, by the remainder: there may be a thousand partitions. */
const partitionLabels = 8

type Gauge = {
  readonly name: string
  readonly help: string
  /** By the label, where there is one. */
  readonly values: (backlog: Backlog) => number | Readonly<Record<string, number>>
  readonly label?: string
}

const inSeconds = (ms: number) => ms / 1_000

const gauges: readonly Gauge[] = [
  {
    name: 'fencepost_outbox_pending',
    help: 'Messages of the outbox that could be sent now.',
    values: ({ outboxPending }) => outboxPending,
  },
  {
    name: 'fencepost_outbox_parked',
    help: 'Messages behind a dead one of their aggregate.',
    values: ({ outboxParked }) => outboxParked,
  },
  {
    name: 'fencepost_outbox_oldest_age_seconds',
    help: 'Age of the oldest message that could be sent now; 0 where there is none.',
    values: ({ oldestPendingAgeMs }) => inSeconds(oldestPendingAgeMs),
  },
  {
    name: 'fencepost_outbox_partition_lag_seconds',
    help: 'The same by partition, those with the same remainder together.',
    label: 'partition',
    values: ({ partitionAgesMs }) => byRemainder(partitionAgesMs),
  },
  {
    name: 'fencepost_inbox_open',
    help: 'Messages that failed at a consumer and come again, and those that wait behind them.',
    values: ({ inboxOpen }) => inboxOpen,
  },
  {
    name: 'fencepost_dead_letters_open',
    help: 'Messages that were given up and wait for a person.',
    label: 'source',
    values: ({ openDeadLetters }) => openDeadLetters,
  },
  {
    name: 'fencepost_sagas_open',
    help: 'Sagas that are not at their end; parked ones wait for a person.',
    label: 'state',
    values: ({ sagas }) => sagas,
  },
  {
    name: 'fencepost_outbox_dead_rows',
    help: 'Rows of the outbox that are deleted and not yet vacuumed.',
    values: ({ outboxDeadRows }) => outboxDeadRows,
  },
  {
    name: 'fencepost_saga_database_oldest_transaction_seconds',
    help: 'Age of the oldest open transaction of the database: while it lasts nothing is vacuumed.',
    values: ({ oldestTransactionAgeMs }) => inSeconds(oldestTransactionAgeMs),
  },
]

/** Where nothing is known every series is there, too: one that appears with the first trouble is one that no rule has seen. */
const nothing: Backlog = {
  outboxPending: 0,
  outboxParked: 0,
  oldestPendingAgeMs: 0,
  partitionAgesMs: new Map(),
  inboxOpen: 0,
  openDeadLetters: { outbox: 0, inbox: 0 },
  sagas: { running: 0, compensating: 0, parked: 0 },
  outboxDeadRows: 0,
  oldestTransactionAgeMs: 0,
}

/** The largest lag among the partitions that share a label. */
function byRemainder(partitionAgesMs: Backlog['partitionAgesMs']): Readonly<Record<string, number>> {
  const lags = Array.from({ length: partitionLabels }, () => 0)
  for (const [partition, ageMs] of partitionAgesMs) {
    const at = partition % partitionLabels
    lags[at] = Math.max(lags[at] ?? 0, inSeconds(ageMs))
  }
  return Object.fromEntries(lags.entries())
}

export function gaugesText(backlog: Backlog | undefined): string {
  const up = family(
    'fencepost_saga_database_up',
    '1 where the database of the sagas answered the last look.',
    [['', backlog === undefined ? 0 : 1]],
  )
  const others = gauges.map(({ name, help, label, values }) => {
    const found = values(backlog ?? nothing)
    const series = typeof found === 'number' ? [['', found] as const] : Object.entries(found)
    return family(
      name,
      help,
      series.map(([value, number]) => [
        label === undefined ? '' : `{${label}="${value}"}`,
        backlog === undefined ? Number.NaN : number,
      ]),
    )
  })
  return [up, ...others].join('')
}

function family(name: string, help: string, series: readonly (readonly [string, number])[]): string {
  const lines = series.map(([labels, value]) => `${name}${labels} ${value}\n`)
  return `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${lines.join('')}`
}

export type SagaGauges = Disposable & {
  /** For an answer of `text/plain; version=0.0.4`, or at the end of that of another registry. */
  text(): string
}

/** Looks at once and then every 15 s, one query at a time. Of several failures in a row the first is reported, as `saga_error`. */
export function sagaGauges(kit: SagaKit): SagaGauges {
  let backlog: Backlog | undefined
  let failing = false
  let stopped = false
  let timer: Timer | undefined
  const again = async () => {
    try {
      const query = sagaBacklog(kit, queryDeadlineMs)
      backlog = await within(kit.clock, queryDeadlineMs, query, `no answer within ${queryDeadlineMs} ms`)
      failing = false
    } catch (error) {
      backlog = undefined
      if (!failing && !stopped) kit.emit({ kind: 'saga_error', error: explained(kit, error) })
      failing = true
    }
    if (!stopped) timer = kit.clock.timer(queryEveryMs, () => void again())
  }
  void again()
  return {
    text: () => gaugesText(backlog),
    [Symbol.dispose]: () => {
      stopped = true
      timer?.cancel()
    },
  }
}
