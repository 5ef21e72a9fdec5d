/** Who answered, in Envoy's words, and what that says about the request. */
import { expect, test } from 'vitest'
import { answeredBy } from '../../../src/http/envoy/exchange.ts'

test.each<[details: string | undefined, attempts: number | undefined, known: string]>([
  ['via_upstream', 1, 'application'],
  ['via_upstream', 3, 'application'],
  ['direct_response', undefined, 'envoy'],
  ['route_not_found', undefined, 'envoy'],
  ['no_healthy_upstream', 1, 'never_sent'],
  [
    'upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_111}',
    1,
    'never_sent',
  ],
  ['upstream_reset_before_response_started{connection_timeout}', 1, 'never_sent'],
  ['upstream_reset_before_response_started{overflow}', 1, 'never_sent'],
  // An earlier attempt may have reached the application.
  ['upstream_reset_before_response_started{remote_connection_failure}', 2, 'no_answer reset'],
  ['upstream_reset_before_response_started{remote_connection_failure}', undefined, 'no_answer reset'],
  ['upstream_reset_before_response_started{connection_termination}', 1, 'no_answer reset'],
  ['upstream_reset_before_response_started{protocol_error}', 1, 'no_answer malformed'],
  ['response_timeout', 1, 'no_answer timeout'],
  ['upstream_per_try_timeout', 1, 'no_answer timeout'],
  ['stream_idle_timeout', 1, 'no_answer timeout'],
  // Unknown words, and none at all.
  ['something_new', 1, 'no_answer reset'],
  [undefined, 1, 'no_answer malformed'],
])('%s at attempt %s: %s', (details, attempts, known) => {
  const by = answeredBy({
    ...(details === undefined ? {} : { 'response.code_details': { stringValue: details } }),
    ...(attempts === undefined ? {} : { 'upstream.request_attempt_count': { numberValue: attempts } }),
  })
  expect('cause' in by ? `${by.kind} ${by.cause}` : by.kind).toBe(known)
})
