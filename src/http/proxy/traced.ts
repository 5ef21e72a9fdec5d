/** A request of a client as traces see it: nothing of its path or headers but the trace context. */

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
