/** The calls of the API as traces see them: where a call begins and ends, and what its caller is given to send on. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { lockIdOf } from '../../core/claims/lease.ts'
import type { Token } from '../../core/record/token.ts'
import type { Tracing } from '../../core/tracing.ts'

/** To be added before all other hooks: what they and the handlers do belongs to the call. */
export function traceCalls(app: FastifyInstance, tracing: Tracing): void {
  app.addHook('onRequest', (request, reply, next) => {
    const trace = tracing.request({
      method: request.method,
      route: request.routeOptions.url,
      protocolVersion: request.raw.httpVersion,
      header: (name) => request.headers[name]?.toString(),
    })
    reply.raw.once('close', () => trace.ended(reply.raw.headersSent ? reply.raw.statusCode : undefined))
    trace.run(next)
  })
}

/** As logs and traces call it: by its first record. */
export function lockOf(made: {
  readonly reservation: { readonly token: Token }
  readonly recordKey: string
}): string {
  return lockIdOf({ key: made.recordKey, token: made.reservation.token })
}

/** We can't change the context of our caller: it gets the merged baggage and sends it on itself. */
export function giveBaggage(
  request: FastifyRequest,
  reply: FastifyReply,
  lockId: string,
  tracing: Tracing,
): void {
  const baggage = tracing.baggage(request.headers.baggage?.toString(), lockId)
  if (baggage !== undefined) reply.header('Baggage', baggage)
}
