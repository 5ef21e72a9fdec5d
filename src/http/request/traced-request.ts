/**
 * A request as traces record it: of its path nothing, and of its headers the trace context, the host and the scheme.
 *
 * Owns which of several lines counts. The client's scheme is what the previous hop states, where it may, else that of its connection.
 */

import type { IncomingMessage } from 'node:http'
import { type HeaderList, linesOf } from '../../core/header-list.ts'
import type { TracedRequest } from '../../core/tracing.ts'

type Scheme = 'http' | 'https'
/** In words of whoever says it. */
type Stated = () => string | undefined

/** A request that came over its own connection. @param stated its scheme, as a hop before this one states it */
export function tracedRequest(
  req: IncomingMessage,
  headers: HeaderList,
  route: string | undefined,
  stated: Stated = () => undefined,
): TracedRequest {
  const scheme = () => schemeIn(stated()) ?? ('encrypted' in req.socket ? 'https' : 'http')
  return traced({ method: req.method ?? '', headers }, route, scheme, req.httpVersion)
}

/** A request that a gateway describes. @param stated its scheme, in the gateway's words */
export function describedToTrace(
  request: Described,
  route: string | undefined,
  stated: Stated,
): TracedRequest {
  return traced(request, route, () => schemeIn(stated()), undefined)
}

/** What the previous hop says in headers. */
export function forwardedScheme(headers: HeaderList): string | undefined {
  return linesOf(headers, 'x-forwarded-proto')[0]
}

type Described = { readonly method: string; readonly headers: HeaderList; readonly host?: string | undefined }

/** One object for each request, which nothing is copied into. */
function traced(
  { method, headers, host }: Described,
  route: string | undefined,
  scheme: TracedRequest['scheme'],
  protocolVersion: string | undefined,
): TracedRequest {
  return {
    method,
    route,
    scheme,
    host: () => host ?? linesOf(headers, 'host')[0],
    protocolVersion,
    // Several lines are one list (W3C Trace Context, section 3.3.1.5), and several `traceparent` are none.
    header: (name) => linesOf(headers, name).join(',') || undefined,
  }
}

/** The first of a list is the client's. */
function schemeIn(stated: string | undefined): Scheme | undefined {
  const [, scheme] = (stated === undefined ? null : /^\s*(https?)\s*(?:,|$)/i.exec(stated)) ?? []
  return scheme?.toLowerCase() as Scheme | undefined
}
