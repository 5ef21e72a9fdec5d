/** The calls of the API in traces: where a call begins and ends, and the baggage that its caller propagates. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { lockIdOf } from '../../core/claims/lease.ts'
import type { Token } from '../../core/record/token.ts'
import type { ClaimShown, Tracing } from '../../core/tracing.ts'
import { headerPairs } from '../message/headers.ts'
import { tracedRequest } from '../request/traced-request.ts'

/** Must be added before all other hooks: their work and the handlers' belongs to the call. */
export function traceCalls(app: FastifyInstance, tracing: Tracing): void {
  app.addHook('onRequest', (request, reply, next) => {
    const { raw, routeOptions } = request
    const trace = tracing.request(tracedRequest(raw, headerPairs(raw.rawHeaders), routeOptions.url))
    reply.raw.once('close', () => trace.ended(reply.raw.headersSent ? reply.raw.statusCode : undefined))
    trace.run(next)
  })
}

/** The id in logs and traces: that of its first record. */
export function lockOf(made: {
  readonly reservation: { readonly token: Token }
  readonly recordKey: string
}): string {
  return lockIdOf({ key: made.recordKey, token: made.reservation.token })
}

/** The sidecar can't change its caller's context: the caller gets the merged baggage and propagates it itself. */
export function giveBaggage(
  request: FastifyRequest,
  reply: FastifyReply,
  claim: ClaimShown,
  tracing: Tracing,
): void {
  const baggage = tracing.baggage(request.headers.baggage?.toString(), claim)
  if (baggage !== undefined) reply.header('Baggage', baggage)
}
