/**
 * The route of a request that a gateway, Envoy, or a caller of the reservation API describes.
 *
 * Owns the conversion of header lines to what routes match. For a request on a connection of ours Node has done it
 * (`arrival.ts`).
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
