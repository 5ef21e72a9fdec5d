/**
 * Whether the application answered a request, or Envoy in its place. Envoy's own answers look like those of the
 * application, and its 503 may mean that nothing was sent, or that the answer was lost.
 *
 * Owns reading Envoy's reason (the attribute `response.code_details`). After an unknown reason the request may have
 * been executed.
 *
 * Source: Envoy, "Response Code Details"; its stream reset reasons in envoy/http/codec.h.
 */

import type { Attribute } from './messages.ts'

export type AnsweredBy =
  | { readonly kind: 'application' }
  /** Envoy answered by itself and sent nothing: no route, a redirect, another filter that refused. */
  | { readonly kind: 'envoy' }
  /** No connection to the application. */
  | { readonly kind: 'never_sent'; readonly detail: string }
  | { readonly kind: 'no_answer'; readonly cause: 'reset' | 'timeout' | 'malformed'; readonly detail: string }

const NOTHING_TO_SEND =
  /^(direct_response|route_not_found|cluster_not_found|maintenance_mode|response_payload_too_large_for_request|request_payload_too_large)$/
const NO_CONNECTION =
  /^(no_healthy_upstream|upstream_reset_before_response_started\{(remote_connection_failure|local_connection_failure|connection_failure|connection_timeout|overflow)\b.*)$/

export function answeredBy(attributes: Readonly<Record<string, Attribute>>): AnsweredBy {
  const detail = attributes['response.code_details']?.stringValue
  if (detail === 'via_upstream') return { kind: 'application' }
  if (detail === undefined)
    return {
      kind: 'no_answer',
      cause: 'malformed',
      detail: 'Envoy does not say who answered: response_attributes has to name response.code_details',
    }
  if (NOTHING_TO_SEND.test(detail)) return { kind: 'envoy' }
  // A failed last attempt says nothing of earlier attempts.
  const attempts = attributes['upstream.request_attempt_count']?.numberValue
  if (NO_CONNECTION.test(detail) && attempts === 1) return { kind: 'never_sent', detail }
  const cause = /timeout/.test(detail) ? 'timeout' : /protocol_error/.test(detail) ? 'malformed' : 'reset'
  return { kind: 'no_answer', cause, detail }
}
