/**
 * A routes file that enforces what was observed: the routes as they are, and where the mode was `observe` the one that suits what was sent.
 *
 * Owns that choice. A route of which nothing was seen stays in observation.
 */

import type { ObservedRow } from '../core/health/observations.ts'
import type { ObservedRoute, ProtectedRoute, Route } from '../core/routes/route.ts'
import { defaultRoute } from './builtin-policy.ts'
import { type PrintedRoute, printedRoute } from './print-route.ts'
import type { Settings } from './settings.ts'

export function enforcingRoutes(
  routes: readonly Route[],
  settings: Settings,
  seen: readonly ObservedRow[],
): readonly PrintedRoute[] {
  return routes.flatMap((route) => {
    if (route.mode !== 'observe') return [concise(route, settings)]
    return route.withoutKey === undefined
      ? [concise(route.as, settings)]
      : chosen(route, route.withoutKey, settings, seen)
  })
}

function chosen(
  route: ObservedRoute,
  withoutKey: ProtectedRoute,
  settings: Settings,
  seen: readonly ObservedRow[],
): readonly PrintedRoute[] {
  const sent = (by: ObservedRow['by']) => seen.some((row) => row.route === route.name && row.by === by)
  const { as } = route
  const [keyed, unkeyed] = [sent('key'), sent('content')]
  if (!keyed) return [unkeyed ? concise(withoutKey, settings) : { ...concise(as, settings), mode: 'observe' }]
  const { headers, parts } = as.key
  const [header] = headers
  // Only a header tells before the body is read whether there is a key.
  if (!unkeyed || header === undefined || headers.length > 1 || parts.length > 0)
    return [concise(as, settings)]
  const predicates = [...(route.match.headers ?? []), { kind: 'present', name: header } as const]
  return [
    concise({ ...as, match: { ...route.match, headers: predicates } }, settings),
    concise({ ...withoutKey, name: `${route.name}-by-content` }, settings),
  ]
}

/** Without what is the default of every route. */
function concise(route: Exclude<Route, ObservedRoute>, settings: Settings): PrintedRoute {
  const { name, match, mode } = route
  const usual =
    mode === 'bypass'
      ? printedRoute({ name, match, mode, upstreamTimeoutMs: settings.upstreamTimeoutMs })
      : printedRoute(defaultRoute(settings, { name, match, mode }))
  const always = ['name', 'match', 'mode']
  const differs = Object.entries(printedRoute(route)).filter(
    ([member, value]) => always.includes(member) || JSON.stringify(value) !== JSON.stringify(usual[member]),
  )
  return Object.fromEntries(differs)
}
