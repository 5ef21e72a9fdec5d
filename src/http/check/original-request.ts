/**
 * The request that a check is about, as a gateway describes it.
 *
 * Owns the form only. `gateway/dialects.ts` reads it from HTTP, `envoy/authorization.ts` from a message of Envoy.
 */

import type { AdmittedRequest } from '../request/admission.ts'

/** How a gateway describes a request and expects the answer. */
export type Dialect = 'ext-authz' | 'auth-request' | 'forward-auth'

export type Original = {
  readonly dialect: Dialect
  readonly request: AdmittedRequest
  readonly hopId: string | undefined
  /** Whether the check has the whole body, a part of it, or does not show whether there is one. */
  readonly body: 'whole' | 'partial' | 'unknown'
}
