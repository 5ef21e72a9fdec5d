/**
 * The reservation API on its listener.
 *
 * Owns what is the same for all calls: the bearer token, the number of calls under way, and the end: a draining sidecar
 * reserves nothing new, and extends, completes and releases what it has given out until that has ended or the grace is over.
 */

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Events } from '../../core/events.ts'
import type { Reservation } from '../../core/reservations/reservations.ts'
import type { SagaDesk } from '../../core/saga-desk.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Problem, problemDocument } from '../message/problems.ts'
import { isToken } from '../request/access-token.ts'
import { abandoned } from '../server/abandoned.ts'
import type { ListenAt } from '../server/listen-address.ts'
import { createRequestScheduler } from '../server/request-scheduler.ts'
import type { ListenerTls } from '../server/tls.ts'
import { type ApiAnswer, decisionOf, problem } from './answers.ts'
import { CALL_NAMES, CALLS, type CallName } from './calls.ts'
import { createHandlers, type HandlerOptions, type HandlerPorts } from './handlers.ts'
import { createHeartbeats, type HeartbeatPorts } from './heartbeat.ts'
import { createListener, type ListenerLimits, type ListenerPorts, sendProblem } from './listener.ts'
import { openApiDocument } from './openapi.ts'
import { trackOutstanding } from './outstanding.ts'
import { sagaPaths, serveSagaCalls } from './saga-calls.ts'
import type { ReserveInput } from './schemas.ts'
import { giveBaggage, lockOf, traceCalls } from './traced.ts'

export type ReservationApiOptions = HandlerOptions & {
  readonly version: string
  /** Callers must show one of them where given; asked at each call, because they may change. */
  readonly apiTokens: (() => readonly string[]) | undefined
  /** Present where the listener speaks TLS. */
  readonly tls?: ListenerTls
  /** How long one stream keeps a reservation. */
  readonly totalHoldMs: number
  readonly renewFraction: number
  readonly limits: ListenerLimits & {
    readonly inFlightMax: number
    /** Reservations that one session may hold through this sidecar. */
    readonly perSessionMax: number
  }
}

export type ReservationApiPorts = Omit<HandlerPorts, 'outstanding' | 'heartbeats'> &
  Omit<HeartbeatPorts, 'onRenewed'> &
  ListenerPorts & {
    readonly events: Events
    readonly tracing: Tracing
    /** Present where a database is configured. */
    readonly sagas?: SagaDesk
  }

export interface ReservationApi {
  /** Where it listens: `http://host:port`, or `unix:/path`. */
  listen(at: ListenAt): Promise<string>
  /** Reservations that were given out here and are under way, but those that are kept for their callers. */
  held(): number
  /** Reserves nothing new; resolves when what was given out here has ended or lapsed, at most after `graceMs`. */
  close(graceMs: number): Promise<void>
}

const RETRY_SOON_MS = 1_000

export function createReservationApi(
  options: ReservationApiOptions,
  ports: ReservationApiPorts,
): ReservationApi {
  const { limits } = options
  const scheduler = createRequestScheduler(ports.clock)
  const outstanding = trackOutstanding(ports.clock, limits.perSessionMax)
  const heartbeats = createHeartbeats({ ...ports, onRenewed: outstanding.held })
  const ended = (reservation: Reservation): void => {
    outstanding.ended(reservation)
    heartbeats.settled(reservation)
  }
  const handlers = createHandlers(options, { ...ports, heartbeats, outstanding: { ...outstanding, ended } })
  const app = createListener(limits, ports, options.tls)
  const document = openApiDocument(options, ports.sagas === undefined ? {} : sagaPaths())
  let draining = false
  let inFlight = 0

  function answer(reply: FastifyReply, given: ApiAnswer): FastifyReply {
    if (given.kind === 'json')
      return reply.code(given.status).header('Cache-Control', 'no-store').send(given.body)
    return sendProblem(reply, given.problem, ports.newInstance())
  }

  traceCalls(app, ports.tracing)
  app.addHook('onRequest', async (request, reply) => {
    inFlight += 1
    reply.raw.once('close', () => {
      inFlight -= 1
    })
    if (options.apiTokens !== undefined && !isToken(bearerOf(request), options.apiTokens())) {
      reply.header('WWW-Authenticate', 'Bearer')
      return answer(reply, TOKEN_REQUIRED)
    }
    await scheduler.begin()
    const over = inFlight - heartbeats.open > limits.inFlightMax
    return over ? answer(reply, overloaded(limits.inFlightMax)) : undefined
  })
  const unknown = (method: string) => `There is no call ${method} on this path; see /openapi.json.`
  app.setNotFoundHandler(({ method }, reply) => answer(reply, problem('call-unknown', unknown(method))))

  async function reserve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const startedMonoMs = ports.clock.monoMs()
    const input = request.body as ReserveInput
    const gone = abandoned(reply.raw)
    const streamed = input.heartbeat === true
    const beyond = streamed && heartbeats.open >= limits.inFlightMax
    const made = draining
      ? DRAINING
      : beyond
        ? overloaded(limits.inFlightMax)
        : await handlers.reserve(input, gone)
    const done: ApiAnswer = made.kind === 'reserved' ? { kind: 'json', status: 201, body: made.body } : made
    publish(done, ports.clock.monoMs() - startedMonoMs, made.kind === 'reserved' ? made : undefined)
    if (made.kind === 'reserved') giveBaggage(request, reply, lockOf(made), ports.tracing)
    if (draining) reply.header('Connection', 'close')
    if (made.kind !== 'reserved' || !streamed) return answer(reply, done)
    reply.hijack()
    // Gone while we asked the nodes: nobody reads a stream, and the lease is left to its holder or to its end.
    if (!reply.raw.destroyed) await heartbeats.stream(made, reply.raw, options)
    return reply
  }

  function publish(
    done: ApiAnswer,
    durationMs: number,
    made: { readonly reservation: Reservation; readonly recordKey: string } | undefined,
  ): void {
    const known = done.kind === 'problem'
    ports.events.publish({
      kind: 'decided',
      entrypoint: 'api',
      decision: decisionOf(done),
      detail: known ? done.problem.code : 'reserved',
      route: undefined,
      status: known ? statusOf(done.problem) : done.status,
      durationMs,
      keyHash: made?.recordKey.slice(-64),
      ...(made === undefined
        ? {}
        : { lockId: lockOf(made), token: made.reservation.token, attempt: made.reservation.attempt }),
    })
  }

  const idOf = ({ params }: FastifyRequest) => (params as { readonly reservation_id: string }).reservation_id
  const served: Record<CallName, (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>> = {
    reserve,
    extend: async (request, reply) =>
      answer(reply, await handlers.extend(idOf(request), request.body as never)),
    complete: async (request, reply) =>
      answer(reply, await handlers.complete(idOf(request), request.body as never)),
    release: async (request, reply) =>
      answer(reply, await handlers.release(idOf(request), request.body as never)),
    standingOfValue: async (request, reply) =>
      answer(reply, await handlers.standingOfValue(request.query as never)),
    standingOfReservation: async (request, reply) =>
      answer(reply, await handlers.standingOfReservation(idOf(request))),
    fingerprint: async (request, reply) => answer(reply, await handlers.fingerprint(request.body as never)),
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
      handler: served[name],
    })
  }
  if (ports.sagas !== undefined) serveSagaCalls(app, ports.sagas, answer)
  app.get('/openapi.json', async (_request, reply) => reply.send(document))

  let closed: Promise<void> | undefined
  return {
    listen: async ({ kind: _, ...where }) => {
      const address = await app.listen(where)
      // Agreed on before the first call needs it; where the nodes are not there yet, that call asks again.
      void ports.secret.current(RETRY_SOON_MS)
      return 'path' in where ? `unix:${where.path}` : address
    },
    held: () => Math.max(0, outstanding.count() - heartbeats.open),
    close: (graceMs) => {
      draining = true
      closed ??= (async () => {
        heartbeats.endAll('draining')
        await outstanding.none(graceMs)
        heartbeats.endAll('draining')
        await app.close()
      })()
      return closed
    },
  }
}

function statusOf(of: Problem): number {
  return problemDocument(of, '').status
}

const TOKEN_REQUIRED = problem('token-required', 'Send the token as "Authorization: Bearer …".')
const DRAINING = problem('draining', 'This sidecar is shutting down and reserves nothing new. Ask again.', {
  retryAfterMs: RETRY_SOON_MS,
})

function overloaded(limit: number): ApiAnswer {
  return problem(
    'too-many-requests-in-flight',
    `${limit} calls are under way, which is the limit. Nothing was done.`,
    { retryAfterMs: RETRY_SOON_MS },
  )
}

/** RFC 6750, section 2.1; the name of the scheme in any case (RFC 9110, section 11.1). */
function bearerOf(request: FastifyRequest): string | undefined {
  return /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
}
