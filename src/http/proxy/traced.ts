/** A request as traces record it: of its path and headers only the trace context. */

import type { IncomingMessage } from 'node:http'
import type { TracedRequest } from '../../core/tracing.ts'

export function traced(req: IncomingMessage, route: string | undefined): TracedRequest {
  return {
    method: req.method ?? '',
    route,
    protocolVersion: req.httpVersion,
    header: (name) => req.headers[name]?.toString(),
  }
}
