/**
 * The route of a request that is described to us: by a gateway, by Envoy, or by a caller of the reservation API.
 *
 * Owns turning header lines into what routes are matched by. Node has done that already for a request on a connection of
 * ours (`arrival.ts`).
 */

import { matchRoute, type Route, type RouteMatchResult } from '../../core/routes/route.ts'
import type { AdmittedRequest } from './admission.ts'

export function routeFor(request: AdmittedRequest, routes: readonly Route[]): RouteMatchResult | undefined {
  const lines: Record<string, string[]> = Object.create(null)
  for (const [name, value] of request.headers) {
    const lower = name.toLowerCase()
    lines[lower] = [...(lines[lower] ?? []), value]
  }
  const { method, host, path } = request
  return matchRoute(routes, { method, host, path, headers: lines })
}
