/** Metrics of requests as they come, whatever is decided about them: their number and time, the memory for their bodies, and what of it was refused or left out. */

import { WOULD } from '../core/decision.ts'
import { OBSERVED_AGES_S } from '../core/health/observations.ts'
import { BUCKETS_S } from './buckets.ts'
import type { Kinds } from './tallies.ts'

const CODE_CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const

export function requestMetrics(
  { counter, counterBy, counterByTwo, gauge, histogram }: Kinds,
  route: readonly string[],
) {
  return {
    requests: counterByTwo(
      'fencepost_http_requests_total',
      'Requests answered by the proxy.',
      { route },
      { code: CODE_CLASSES },
    ),
    requestDuration: histogram(
      'fencepost_http_request_duration_seconds',
      'From the head of a request to the last byte of its answer, the application included.',
      BUCKETS_S.request,
    ),
    nearMisses: counterBy(
      'fencepost_near_misses_total',
      'Pairs of requests that were executed within a minute and were equal but for some headers or cookies.',
      { route },
    ),
    requestsInFlight: gauge(
      'fencepost_http_requests_in_flight',
      'Requests under way in the proxy and through Envoy.',
      {},
    ),
    bodyMemory: gauge(
      'fencepost_body_memory_used_bytes',
      'Bytes of bodies, of requests and answers, that are in memory now.',
      {},
    ),
    bodyMemoryLimit: gauge(
      'fencepost_body_memory_limit_bytes',
      'What these may be together; requests may fill three quarters of it.',
      {},
    ),
    bodyMemoryFull: counterBy(
      'fencepost_body_memory_full_total',
      'Requests that were refused, and answers that were passed on without being kept, because the memory for bodies was full.',
      { of: ['request', 'answer'] },
    ),
    connectionsRefused: counter(
      'fencepost_connections_refused_total',
      'Connections of clients that were closed at once, because their listener had as many as `limits.connections` allows.',
    ),
    logLinesDropped: counterBy(
      'fencepost_log_lines_dropped_total',
      'Lines that are not in the log: of decisions that went well, sampled away under load; and any that standard output did not take.',
      { reason: ['sampled', 'not_taken'] },
    ),
  }
}

/** Of routes that only observe: there are series where there is such a route. */
export function observedMetrics({ counterByTwo, histogram }: Kinds, route: readonly string[]) {
  return {
    total: counterByTwo(
      'fencepost_observed_total',
      'Requests of routes in mode observe, by what protecting them would have done.',
      { route },
      { would: WOULD },
    ),
    age: histogram(
      'fencepost_observed_age_seconds',
      'Age of the recorded outcome that would have answered such a request.',
      OBSERVED_AGES_S,
    ),
  }
}
