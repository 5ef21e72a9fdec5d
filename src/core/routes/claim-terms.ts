/** How the claims of a route are tried again, and how much drift of clocks they allow for. */

import type { ClaimTerms } from '../ports.ts'
import type { ProtectedRoute } from './route.ts'

export function termsOf(
  route: Pick<ProtectedRoute, 'retryCount' | 'retryDelayMs' | 'retryJitter' | 'driftFactor'>,
): ClaimTerms {
  const { retryCount: count, retryDelayMs: delayMs, retryJitter: jitter, driftFactor } = route
  return { retry: { count, delayMs, jitter }, driftFactor }
}
