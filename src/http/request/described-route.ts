/**
 * The route of a request, as it arrived or as a gateway, Envoy, or a caller of the reservation API describes it.
 *
 * Owns the conversion of header lines to what routes match. Node's own object of headers is of no use: it joins the lines of some, keeps
 * the first of others, and so hides a line that an application may read.
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
