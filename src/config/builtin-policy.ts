/**
 * The routes without a configuration file.
 *
 * POST and PATCH are protected: by their `Idempotency-Key` if they have one, whatever they carry; else commands by their content, for as long as
 * a lease. All other requests match no route and pass through unchanged.
 */

import { DRIFT_FACTOR } from '../core/clock.ts'
import { type ObservedRoute, type ProtectedRoute, protects, type Route } from '../core/routes/route.ts'
import type { Settings } from './settings.ts'

/** More than the longest budget has time for. */
export const RETRY_COUNT_MAX = 10_000

const UNSAFE_METHODS = ['POST', 'PATCH']
const DEFAULT_KEY_HEADER = 'idempotency-key'

/** A protected route with the defaults of every route. */
export function defaultRoute(
  settings: Settings,
  of: Pick<ProtectedRoute, 'name' | 'match' | 'mode'>,
): ProtectedRoute {
  return {
    ...of,
    required: false,
    key: { headers: [DEFAULT_KEY_HEADER], parts: [], strict: false, minLength: 1, format: 'any' },
    derivedKey: false,
    fingerprint: { headers: 'all', ignore: [], body: { kind: 'all' } },
    principal: { kind: 'authorization' },
    leaseMs: settings.leaseMs,
    retentionMs: of.mode === 'content' ? settings.leaseMs : settings.retentionMs,
    budgetMs: settings.claimBudgetMs,
    retryCount: RETRY_COUNT_MAX,
    retryDelayMs: 4,
    retryJitter: 1,
    driftFactor: DRIFT_FACTOR,
    onContention: 'conflict',
    wait: { maxMs: settings.waitMaxMs, maxWaiters: settings.maxWaiters },
    onQuorumLoss: settings.onQuorumLoss,
    takeover: 'reexecute',
    duplicateContent: 'conflict',
    bodyLimitBytes: settings.bodyLimitBytes,
    storedResponseLimitBytes: settings.storedResponseLimitBytes,
    store: {},
    storedHeaders: [],
    omittedHeaders: [],
    bodyStorage: 'full',
    redact: [],
    entities: [],
    entityWaitMs: settings.waitMaxMs,
    upstreamTimeoutMs: settings.upstreamTimeoutMs,
    totalHoldMs: settings.totalHoldMs,
  }
}

/** With FENCEPOST_MODE=observe no route protects: each is observed as it would. */
export function underMode(routes: readonly Route[], { mode }: Pick<Settings, 'mode'>): readonly Route[] {
  return mode === 'observe' ? routes.map((route) => (protects(route) ? observed(route) : route)) : routes
}

/** @param withoutKey how requests without a key are observed */
export function observed(as: ProtectedRoute, withoutKey?: ProtectedRoute): ObservedRoute {
  const { name, match, upstreamTimeoutMs } = as
  const rest = withoutKey === undefined ? {} : { withoutKey }
  return { name, match, mode: 'observe', upstreamTimeoutMs, as, ...rest }
}

export function builtinRoutes(settings: Settings): readonly Route[] {
  return [
    defaultRoute(settings, {
      name: 'unsafe-with-key',
      match: { methods: UNSAFE_METHODS, headers: [{ kind: 'present', name: DEFAULT_KEY_HEADER }] },
      mode: 'header',
    }),
    defaultRoute(settings, {
      name: 'unsafe-by-content',
      match: { methods: UNSAFE_METHODS, body: 'command' },
      mode: 'content',
    }),
  ]
}
