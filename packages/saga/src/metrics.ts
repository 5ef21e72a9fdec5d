/**
 * The kit's events as metrics of the application: `createSagaKit({ events: sagaMetrics(promClient) })`.
 *
 * Owns names, labels and buckets. It uses the application's own Prometheus client, so that a process has one registry
 * and the kit brings none. No label comes from a message's content; destinations and types are the application's own,
 * and of a URL it is the host.
 */
import type { SagaEvent, SagaEvents } from './events.ts'
import { shownDestination } from './messages.ts'

type Labels = Record<string, string>
type Counter = { inc(labels: Labels, value?: number): void }
type Histogram = { observe(labels: Labels, value: number): void }
type Naming = { name: string; help: string; labelNames: string[] }

/** The part of prom-client that is needed. */
export type PrometheusClient = {
  readonly Counter: new (options: Naming) => Counter
  readonly Histogram: new (options: Naming & { buckets: number[] }) => Histogram
}

/** From one commit on the same machine to an outage that people notice. */
const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

const countersByName = {
  publish: ['saga_published_total', 'messages handed to a broker', ['destination', 'result']],
  consume: ['saga_consumed_total', 'deliveries, by what came of them', ['consumer', 'outcome']],
  unhandled: [
    'saga_unhandled_total',
    'messages without a mapping or a handler, by what became of them',
    ['consumer', 'reason', 'outcome'],
  ],
  retry: ['saga_transaction_retries_total', 'transactions run again', ['sqlstate']],
  replay: ['saga_replays_total', 'answers out of the idempotency store', ['scope', 'outcome']],
  takeover: ['saga_takeovers_total', 'steps whose earlier attempt failed or vanished', ['scope']],
  recovered: ['saga_recovered_total', 'steps of a process that died, finished by recovery', ['scope']],
  fenced: ['saga_fenced_out_total', 'writes refused because a newer holder had written', []],
  parked: ['saga_parked_total', 'what waits for a person: steps, messages, sagas', []],
  advance: ['saga_advanced_total', 'sagas let go of, by the state they were left in', ['saga', 'status']],
  retained: ['saga_retention_deleted_total', 'rows removed by retention', ['table']],
  housekept: ['saga_housekeeping_runs_total', 'runs of housekeeping by this process', []],
  expired: ['saga_dead_letters_expired_total', 'dead letters discarded because no one decided in time', []],
  errors: ['saga_errors_total', 'faults that were survived', ['part']],
} as const satisfies Record<string, readonly [string, string, readonly string[]]>

export function sagaMetrics({ Counter, Histogram }: PrometheusClient): SagaEvents {
  const counters = Object.fromEntries(
    Object.entries(countersByName).map(([key, [name, help, labelNames]]) => [
      key,
      new Counter({ name: `fencepost_${name}`, help, labelNames: [...labelNames] }),
    ]),
  ) as Record<keyof typeof countersByName, Counter>
  const histogram = (name: string, help: string, label: string) =>
    new Histogram({ name: `fencepost_${name}`, help, labelNames: [label], buckets: secondsBuckets })
  const publishing = histogram('saga_publish_duration_seconds', 'from sending to confirm', 'destination')
  const age = histogram(
    'saga_publish_age_seconds',
    'from insertion into the outbox to confirm',
    'destination',
  )
  const critical = histogram(
    'saga_critical_time_seconds',
    'from the writing of a message to its processing',
    'consumer',
  )

  return (event: SagaEvent) => {
    switch (event.kind) {
      case 'published': {
        const destination = shownDestination(event.destination)
        counters.publish.inc({ destination, result: 'confirmed' })
        publishing.observe({ destination }, event.durationMs / 1_000)
        age.observe({ destination }, event.ageMs / 1_000)
        return
      }
      case 'publish_failed':
        counters.publish.inc({ destination: shownDestination(event.destination), result: 'failed' })
        return
      case 'consumed':
        counters.consume.inc({ consumer: event.consumerId, outcome: event.outcome })
        if (event.criticalTimeMs !== undefined)
          critical.observe({ consumer: event.consumerId }, event.criticalTimeMs / 1_000)
        return
      case 'unhandled':
        counters.unhandled.inc({ consumer: event.consumerId, reason: event.reason, outcome: event.outcome })
        return
      case 'transaction_retried':
        counters.retry.inc({ sqlstate: event.sqlState })
        return
      case 'replayed':
        counters.replay.inc({ scope: event.scope, outcome: event.outcome })
        return
      case 'taken_over':
        counters.takeover.inc({ scope: event.scope })
        return
      case 'fenced_out':
        counters.fenced.inc({})
        return
      case 'parked':
        counters.parked.inc({})
        return
      case 'saga_advanced':
        counters.advance.inc({ saga: event.name, status: event.status })
        return
      case 'retained':
        counters.retained.inc({ table: event.table }, event.deleted)
        return
      case 'housekept':
        counters.housekept.inc({})
        counters.expired.inc({}, event.expired)
        return
      case 'housekeeping_error':
      case 'pool_error':
      case 'relay_error':
      case 'consumer_error':
      case 'lock_release_failed':
      case 'lock_renewal_failed':
      case 'saga_step_failed':
      case 'saga_error':
        counters.errors.inc({ part: event.kind })
        return
      case 'recovered':
        counters.recovered.inc({ scope: event.scope })
        return
      case 'partitions_changed':
        return
    }
  }
}
