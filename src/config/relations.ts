/**
 * What must hold between settings, checked once every one of them could be read.
 *
 * Each relation is an inequality of the record protocol; its message shows it with the numbers of this configuration,
 * because the operator has to choose which of the two to change.
 */

import { DRIFT_FACTOR, driftMs } from '../core/lease.ts'
import type { ProtectedRoute, Route } from '../core/route.ts'
import type { ConfigError } from './errors.ts'
import { printDuration } from './parse.ts'
import type { Settings } from './settings.ts'

/** Redlock asks for a deadline a node that is small against the lease, so that trying all nodes can't use it up. */
const LARGEST_DEADLINE_SHARE = 0.05
const LARGEST_RENEW_FRACTION = 1 / 3

/**
 * `settings` may lack the ones that were refused: relations with these are left out.
 */
export function checkRelations(
  settings: Partial<Settings>,
  routes: readonly Route[],
): { readonly errors: readonly ConfigError[]; readonly quarantineMs: number } {
  const errors: ConfigError[] = []
  const relate: Relate = (name, left, right, reason) => {
    if (left.ms === undefined || right.ms === undefined || left.ms <= right.ms) return
    const inequality = `${left.text} (${printMs(left.ms)}) ≤ ${right.text} (${printMs(right.ms)})`
    errors.push({ kind: 'relation', name, inequality, reason })
  }
  const protectedRoutes = routes.filter((route) => route.mode !== 'bypass')
  relateSettings(settings, relate)
  for (const route of protectedRoutes) relateRoute(settings, route, relate)
  if ((settings.renewFraction ?? 0) > LARGEST_RENEW_FRACTION)
    errors.push({
      kind: 'relation',
      name: 'FENCEPOST_RENEW_FRACTION',
      inequality: `renew fraction (${settings.renewFraction}) ≤ 1/3`,
      reason: 'two renewals in a row must be able to fail',
    })
  if (settings.proxyListen !== undefined && settings.proxyListen.kind !== 'off' && !('upstream' in settings))
    errors.push({
      kind: 'missing',
      name: 'FENCEPOST_UPSTREAM',
      accepts: 'http://host:port or unix:/path',
      reason: 'while the proxy listens',
    })
  const longestLeaseMs = Math.max(
    settings.leaseMs ?? 0,
    settings.reservationMaxLeaseMs ?? 0,
    ...protectedRoutes.map((route) => route.leaseMs ?? 0),
  )
  const neededMs = longestLeaseMs + driftMs(longestLeaseMs) + (settings.clockStepMs ?? 0)
  const quarantineMs = settings.quarantineMs ?? neededMs
  relate(
    'FENCEPOST_QUARANTINE',
    { text: `longest lease · ${1 + DRIFT_FACTOR} + clock step`, ms: neededMs },
    { text: 'quarantine', ms: quarantineMs },
    'a node that forgot must not vote before every lease that it forgot has ended',
  )
  return { errors, quarantineMs }
}

type Side = { readonly text: string; readonly ms: number | undefined }
type Relate = (name: string, left: Side, right: Side, reason: string) => void

function relateSettings(settings: Partial<Settings>, relate: Relate): void {
  relate(
    'FENCEPOST_NODE_DEADLINE',
    { text: 'node deadline', ms: settings.nodeDeadlineMs },
    { text: '5 % of the lease', ms: share(settings.leaseMs) },
    'slow nodes would use up the lease',
  )
  relate(
    'FENCEPOST_NODE_DEADLINE',
    { text: 'node deadline', ms: settings.nodeDeadlineMs },
    { text: 'claim budget', ms: settings.claimBudgetMs },
    'one silent node would use up the whole budget',
  )
  relate(
    'FENCEPOST_READINESS_READY_BELOW',
    { text: 'ready below', ms: settings.readyBelowMs },
    { text: 'unready above', ms: settings.unreadyAboveMs },
    'the pod would be ready and unready at once',
  )
}

function relateRoute(settings: Partial<Settings>, route: ProtectedRoute, relate: Relate): void {
  const name = `route ${route.name}`
  if (route.leaseMs !== settings.leaseMs)
    relate(
      name,
      { text: 'node deadline', ms: settings.nodeDeadlineMs },
      { text: '5 % of the lease', ms: share(route.leaseMs) },
      'slow nodes would use up the lease',
    )
  relate(
    name,
    {
      text: 'client retry window + lease + longest redelivery',
      ms: sum(settings.clientRetryWindowMs, route.leaseMs, settings.longestRedeliveryMs),
    },
    { text: 'retention', ms: route.retentionMs },
    'a late retry would be carried out again',
  )
  relate(
    name,
    { text: 'upstream timeout', ms: route.upstreamTimeoutMs },
    { text: 'total hold limit', ms: route.totalHoldMs },
    'the lock would be given up while the application still works',
  )
}

function share(leaseMs: number | undefined): number | undefined {
  return leaseMs === undefined ? undefined : leaseMs * LARGEST_DEADLINE_SHARE
}

function sum(...amounts: readonly (number | undefined)[]): number | undefined {
  return amounts.reduce<number | undefined>(
    (total, each) => (total === undefined || each === undefined ? undefined : total + each),
    0,
  )
}

function printMs(ms: number): string {
  return Number.isInteger(ms) ? printDuration(ms) : `${ms}ms`
}
