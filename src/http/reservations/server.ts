/**
 * The reservation API on its listener.
 *
 * Owns the composition of its parts, and the drain: a draining sidecar reserves nothing new, and extends, completes and releases
 * its open reservations until they have ended or the grace period is over.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { lockIdOf } from '../../core/claims/lease.ts'
import type { RenewalPolicy } from '../../core/claims/lease-renewer.ts'
import type { Clock } from '../../core/clock.ts'
import type { DecidedEvent } from '../../core/decision.ts'
import type { Events } from '../../core/events.ts'
import type { Token } from '../../core/record/token.ts'
import { tenantOf } from '../../core/request/identity.ts'
import type { Reservation } from '../../core/reservations/reservations.ts'
import type { ClaimShown, Tracing } from '../../core/tracing.ts'
import { decisionOf } from '../message/answer.ts'
import { headerPairs } from '../message/headers.ts'
import { instanceOf, PROBLEMS, RETRY_SOON_MS } from '../message/problems.ts'
import { nothingLeft } from '../request/outstanding.ts'
import { tracedRequest } from '../request/traced-request.ts'
import { createRequestScheduler, type InFlight, trackInFlight } from '../server/in-flight.ts'
import { abandoned } from '../server/inbound.ts'
import { createJsonListener, listen, type RoutedLimits, sendProblem } from '../server/json-listener.ts'
import type { FailurePorts, ListenerTls, Listening } from '../server/listening.ts'
import { type ApiAnswer, problem, type ReservedNow } from './answers.ts'
import { type AdmissionOptions, admitCalls, overloaded } from './call-admission.ts'
import { CALL_NAMES, CALLS, type CallName, openApiDocument } from './calls.ts'
import { createHandlers, type HandlerOptions, type HandlerPorts, type Handlers } from './handlers.ts'
import { createHeartbeats, type HeartbeatPorts, type Heartbeats } from './heartbeat.ts'
import type { ReserveInput } from './schemas.ts'

export type ReservationApiOptions = HandlerOptions &
  AdmissionOptions &
  ReserveCallOptions & {
    readonly version: string
    readonly tls?: ListenerTls
    readonly limits: RoutedLimits & {
      readonly inFlightMax: number
    }
  }

export type ReservationApiPorts = Omit<HandlerPorts, 'heartbeats'> &
  Omit<HeartbeatPorts, 'renewing'> &
  FailurePorts & {
    readonly events: Events
    readonly tracing: Tracing
    /** Paths of other listeners that `/openapi.json` describes as well. */
    readonly describedPaths?: Readonly<Record<string, Record<string, unknown>>>
  }

type ReservationApi = Listening & {
  /** Open reservations of this sidecar, without those that a stream renews. */
  held(): number
}

export function createReservationApi(
  options: ReservationApiOptions,
  ports: ReservationApiPorts,
): ReservationApi {
  const { limits } = options
  const inFlight = trackInFlight(ports.clock)
  const { outstanding } = ports
  const heartbeats = createHeartbeats({ ...ports, renewing: outstanding.renewing })
  const ended = (reservation: Reservation): void => {
    outstanding.ended(reservation)
    heartbeats.settled(reservation)
  }
  const handlers = createHandlers(options, { ...ports, heartbeats, outstanding: { ...outstanding, ended } })
  const app = createJsonListener(limits, ports, options.tls)
  const document = openApiDocument(options, ports.describedPaths ?? {})

  function answer(reply: FastifyReply, given: ApiAnswer, instance?: string): FastifyReply {
    if (given.kind === 'json')
      return reply.code(given.status).header('Cache-Control', 'no-store').send(given.body)
    const { recordKey } = given
    const problem = recordKey === undefined ? given.problem : { ...given.problem, recordKey }
    return sendProblem(reply, problem, instance ?? ports.newInstance())
  }

  traceCalls(app, ports.tracing)
  const scheduler = createRequestScheduler(ports.clock)
  admitCalls(app, options, { inFlight, scheduler, openStreams: () => heartbeats.open, answer })
  const unknown = (method: string) => `There is no call ${method} on this path; see /openapi.json.`
  app.setNotFoundHandler(({ method }, reply) => answer(reply, problem('call-unknown', unknown(method))))
  const reserve = createReserveCall(options, { ...ports, handlers, heartbeats, inFlight, answer })
  serveCalls(app, reserve, handlers, answer)
  app.get('/openapi.json', async (_request, reply) => reply.send(document))

  async function drain(graceMs: number): Promise<void> {
    heartbeats.drain()
    await nothingLeft(inFlight, outstanding, ports.clock, graceMs)
    // Cuts what is under way.
    await app.close()
  }

  let closed: Promise<void> | undefined
  return {
    listen: (at) => listen(app, at),
    held: () => Math.max(0, outstanding.count() - heartbeats.open),
    leave: inFlight.leave,
    close: (graceMs) => {
      inFlight.drain()
      closed ??= drain(graceMs)
      return closed
    },
  }
}

type Serve = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** The calls of the table, each with its handler; the handler's input is what its schema accepts. */
function serveCalls(
  app: FastifyInstance,
  reserve: Serve,
  handlers: Handlers,
  answer: (reply: FastifyReply, given: ApiAnswer) => FastifyReply,
): void {
  const idOf = ({ params }: FastifyRequest) => (params as { readonly reservation_id: string }).reservation_id
  const answers: Record<Exclude<CallName, 'reserve'>, (request: FastifyRequest) => Promise<ApiAnswer>> = {
    extend: (request) => handlers.extend(idOf(request), request.body as never),
    complete: (request) => handlers.complete(idOf(request), request.body as never),
    release: (request) => handlers.release(idOf(request), request.body as never),
    standingOfValue: (request) => handlers.standingOfValue(request.query as never),
    standingOfReservation: (request) => handlers.standingOfReservation(idOf(request)),
    fingerprint: (request) => handlers.fingerprint(request.body as never),
  }
  for (const name of CALL_NAMES) {
    const call = CALLS[name]
    app.route({
      method: call.method,
      url: call.path.replace('{reservation_id}', ':reservation_id'),
      schema: {
        ...('body' in call ? { body: call.body } : {}),
        ...('query' in call ? { querystring: call.query } : {}),
      },
      handler:
        name === 'reserve' ? reserve : async (request, reply) => answer(reply, await answers[name](request)),
    })
  }
}

type ReserveCallOptions = RenewalPolicy & { readonly limits: { readonly inFlightMax: number } }

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

/** Only this call is refused by a draining sidecar, counts as a decision, and may stay open as a stream. */
function createReserveCall(
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
function traceCalls(app: FastifyInstance, tracing: Tracing): void {
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
