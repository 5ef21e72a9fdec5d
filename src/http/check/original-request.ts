/**
 * The request that a check is about: somebody else's request, described by a gateway.
 *
 * Owns the form only. Reading it from HTTP is `gateway/dialects.ts`, from a message of Envoy `envoy/authorization.ts`.
 */

import type { AdmittedRequest } from '../request/admission.ts'

/** How a gateway asks and wants to be answered. */
export type Dialect = 'ext-authz' | 'auth-request' | 'forward-auth'

export type Original = {
  readonly dialect: Dialect
  readonly request: AdmittedRequest
  readonly hopId: string | undefined
  /** Whether what comes with the check is the whole body, a part of it, or says nothing about it. */
  readonly body: 'whole' | 'partial' | 'unknown'
}
