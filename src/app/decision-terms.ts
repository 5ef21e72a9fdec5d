/** How long a decision about a record lasts, whoever makes it: the sweeper, the operator API or a command. */

import type { Config } from '../config/load.ts'
import type { DecisionTerms } from '../core/coordination/settle-orphan.ts'
import { policiesOf } from '../core/routes/route.ts'

/** A record does not name its route: what is decided lasts as long as an outcome of any route would. */
export function decisionTermsOf({
  leaseMs,
  retentionMs,
  routes,
}: Pick<Config, 'leaseMs' | 'retentionMs' | 'routes'>): DecisionTerms {
  const ofRoutes = routes.flatMap(policiesOf).map((route) => route.retentionMs)
  return { leaseMs, retentionMs: Math.max(retentionMs, ...ofRoutes) }
}
