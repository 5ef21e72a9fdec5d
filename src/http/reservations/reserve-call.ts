/**
 * The call that reserves: only this call is refused by a draining sidecar, counts as a decision, and may stay open as a stream.
 *
 * Owns its answer. `reserve.ts` decides about the reservation; `heartbeat.ts` is the stream.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { lockIdOf } from '../../core/claims/lease.ts'
import type { Keeping } from '../../core/claims/lease-renewer.ts'
import type { Clock } from '../../core/clock.ts'
import type { DecidedEvent } from '../../core/decision.ts'
import type { Events } from '../../core/events.ts'
import type { Token } from '../../core/record/token.ts'
import { tenantOf } from '../../core/request/identity.ts'
import type { ClaimShown, Tracing } from '../../core/tracing.ts'
import { decisionOf } from '../message/answer.ts'
import { headerPairs } from '../message/headers.ts'
import { instanceOf, PROBLEMS, RETRY_SOON_MS } from '../message/problems.ts'
import { tracedRequest } from '../request/traced-request.ts'
import type { InFlight } from '../server/in-flight.ts'
import { abandoned } from '../server/inbound.ts'
import { type ApiAnswer, problem, type ReservedNow } from './answers.ts'
import { overloaded } from './call-admission.ts'
import type { Handlers } from './handlers.ts'
import type { Heartbeats } from './heartbeat.ts'
import type { ReserveInput } from './schemas.ts'

export type ReserveCallOptions = Keeping & { readonly limits: { readonly inFlightMax: number } }

type ReserveCallPorts = {
  readonly handlers: Pick<Handlers, 'reserve'>
  readonly heartbeats: Pick<Heartbeats, 'stream' | 'open'>
  readonly inFlight: InFlight
  readonly clock: Clock
  readonly events: Events
  readonly tracing: Tracing
  readonly newInstance: () => string
  readonly answer: (reply: FastifyReply, given: ApiAnswer, instance?: string) => FastifyReply
}

export function createReserveCall(
  options: ReserveCallOptions,
  ports: ReserveCallPorts,
): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  const { handlers, heartbeats, inFlight, clock, answer } = ports
  const { inFlightMax } = options.limits

  function refusal(streamed: boolean): ApiAnswer | undefined {
    if (inFlight.draining) return DRAINING
    return streamed && heartbeats.open >= inFlightMax ? overloaded(inFlightMax) : undefined
  }

  return async (request, reply) => {
    const startedMonoMs = clock.monoMs()
    const input = request.body as ReserveInput
    const gone = abandoned(reply.raw)
    const streamed = input.heartbeat === true
    const made = refusal(streamed) ?? (await handlers.reserve(input, gone))
    const done: ApiAnswer = made.kind === 'reserved' ? { kind: 'json', status: 201, body: made.body } : made
    const instance = done.kind === 'problem' ? ports.newInstance() : undefined
    const durationMs = clock.monoMs() - startedMonoMs
    ports.events.publish(decided(done, durationMs, made.kind === 'reserved' ? made : undefined, instance))
    if (made.kind === 'reserved') {
      const { attempt } = made.reservation
      giveBaggage(request, reply, { lockId: lockOf(made), attempt }, ports.tracing)
    }
    if (inFlight.leaving) reply.header('Connection', 'close')
    if (made.kind !== 'reserved' || !streamed) return answer(reply, done, instance)
    reply.hijack()
    for (const [name, value] of Object.entries(reply.getHeaders()))
      if (value !== undefined) reply.raw.setHeader(name, value)
    // The caller disconnected meanwhile: no stream, and the lease is left to its holder or runs out.
    if (!reply.raw.destroyed) await heartbeats.stream(made, reply.raw, options)
    return reply
  }
}

function decided(
  done: ApiAnswer,
  durationMs: number,
  made: ReservedNow | undefined,
  instance: string | undefined,
): DecidedEvent {
  const known = done.kind === 'problem'
  const recordKey = made?.recordKey ?? (known ? done.recordKey : undefined)
  const ofLimit = known ? done.tenant : undefined
  const tenant = recordKey === undefined ? ofLimit : tenantOf(recordKey)
  return {
    kind: 'decided',
    entrypoint: 'api',
    decision: known ? decisionOf(done.problem.code) : 'acquired',
    detail: known ? done.problem.code : 'reserved',
    route: undefined,
    status: known ? PROBLEMS[done.problem.code].status : done.status,
    durationMs,
    keyHash: recordKey?.slice(-64),
    ...(tenant === undefined ? {} : { tenant }),
    ...(instance === undefined ? {} : { instance: instanceOf(instance) }),
    ...(known ? done.found : {}),
    ...(made === undefined
      ? {}
      : { lockId: lockOf(made), token: made.reservation.token, attempt: made.reservation.attempt }),
  }
}

const DRAINING = problem('draining', 'This sidecar is shutting down and reserves nothing new. Ask again.', {
  retryAfterMs: RETRY_SOON_MS,
})

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
function lockOf(made: {
  readonly reservation: { readonly token: Token }
  readonly recordKey: string
}): string {
  return lockIdOf({ key: made.recordKey, token: made.reservation.token })
}

/** The sidecar can't change its caller's context: the caller gets the merged baggage and propagates it itself. */
function giveBaggage(
  request: FastifyRequest,
  reply: FastifyReply,
  claim: ClaimShown,
  tracing: Tracing,
): void {
  const baggage = tracing.baggage(request.headers.baggage?.toString(), claim)
  if (baggage !== undefined) reply.header('Baggage', baggage)
}
