/**
 * The dashboard of messages and sagas, from whatever shows the gauges of the saga kit. What one process says is true of the whole
 * database, so panels take the largest value and no sum.
 */
import { type Board, NEUTRAL, NONE_IS_GOOD, type Panel, S, UP, upFrom } from './board.ts'

const now = (
  title: string,
  description: string,
  unit: Panel['unit'],
  queries: Panel['queries'],
  thresholds: Panel['thresholds'],
): Panel => ({ kind: 'timeseries', title, description, unit, queries, thresholds })

const largest = (metric: string, by = '', labels = '') =>
  `max${by === '' ? '' : ` by (${by})`} (${metric}{${[S, labels].filter((part) => part !== '').join(',')}})`

export const sagas: Board = {
  uid: 'fencepost-sagas',
  title: 'Fencepost / Sagas',
  known: 'fencepost_saga_database_up',
  description: 'Whether messages leave the outbox, what was given up, and where sagas stand.',
  panels: [
    {
      kind: 'states',
      title: 'The database answers',
      description:
        'Share of the processes that look (every 15 s) whose last look was answered. 0: nothing else here is known.',
      unit: 'percentunit',
      queries: [{ expr: `avg(fencepost_saga_database_up{${S}})`, legend: 'answers' }],
      thresholds: UP,
    },
    now(
      'Oldest message that could be sent',
      'How far the relays are behind. Above 60 s it alerts.',
      's',
      [{ expr: largest('fencepost_outbox_oldest_age_seconds'), legend: 'age' }],
      upFrom(10, 60),
    ),
    now(
      'Outbox',
      'Pending could be sent now. Parked wait behind a dead message of their aggregate.',
      'short',
      [
        { expr: largest('fencepost_outbox_pending'), legend: 'pending' },
        { expr: largest('fencepost_outbox_parked'), legend: 'parked' },
      ],
      NEUTRAL,
    ),
    now(
      'Lag by partition',
      'Partitions with the same remainder by 8 share a line. A few that lag are those of one relay that hangs; all that lag are the broker.',
      's',
      [{ expr: largest('fencepost_outbox_partition_lag_seconds', 'partition'), legend: '{{partition}}' }],
      upFrom(10, 60),
    ),
    now(
      'Dead letters',
      'Given up, waiting for a person: outbox could not be sent, inbox could not be handled.',
      'short',
      [{ expr: largest('fencepost_dead_letters_open', 'source'), legend: '{{source}}' }],
      NONE_IS_GOOD,
    ),
    now(
      'Inbox',
      'Messages that failed at a consumer and come again, and those that wait behind them.',
      'short',
      [{ expr: largest('fencepost_inbox_open'), legend: 'open' }],
      NEUTRAL,
    ),
    now(
      'Sagas under way',
      'Running go forward, compensating go back.',
      'short',
      [{ expr: largest('fencepost_sagas_open', 'state', 'state!="parked"'), legend: '{{state}}' }],
      NEUTRAL,
    ),
    now(
      'Sagas parked',
      'They can go neither forward nor back by themselves.',
      'short',
      [{ expr: largest('fencepost_sagas_open', '', 'state="parked"'), legend: 'parked' }],
      NONE_IS_GOOD,
    ),
    now(
      'Dead rows of the outbox',
      'Deleted and not yet vacuumed: every look of a relay reads past them.',
      'short',
      [{ expr: largest('fencepost_outbox_dead_rows'), legend: 'rows' }],
      upFrom(5_000, 20_000),
    ),
    now(
      'Oldest open transaction',
      'Of the whole database. While it lasts nothing that was deleted after its beginning is vacuumed.',
      's',
      [{ expr: largest('fencepost_saga_database_oldest_transaction_seconds'), legend: 'age' }],
      upFrom(60, 300),
    ),
  ],
}
