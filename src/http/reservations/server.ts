/**
 * The reservation API on its listener.
 *
 * Owns the composition of its parts, and the drain: a draining sidecar reserves nothing new, and extends, completes and releases
 * its open reservations until they have ended or the grace period is over.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Events } from '../../core/events.ts'
import type { Reservation } from '../../core/reservations/reservations.ts'
import type { Tracing } from '../../core/tracing.ts'
import { nothingLeft } from '../request/outstanding.ts'
import { createRequestScheduler, trackInFlight } from '../server/in-flight.ts'
import type { RoutedLimits } from '../server/json-listener.ts'
import { createJsonListener, listen, sendProblem } from '../server/json-listener.ts'
import type { FailurePorts, ListenerTls, Listening } from '../server/listening.ts'
import { type ApiAnswer, problem } from './answers.ts'
import { type AdmissionOptions, admitCalls } from './call-admission.ts'
import { CALL_NAMES, CALLS, type CallName, openApiDocument } from './calls.ts'
import { createHandlers, type HandlerOptions, type HandlerPorts, type Handlers } from './handlers.ts'
import { createHeartbeats, type HeartbeatPorts } from './heartbeat.ts'
import { createReserveCall, type ReserveCallOptions, traceCalls } from './reserve-call.ts'

export type ReservationApiOptions = HandlerOptions &
  AdmissionOptions &
  ReserveCallOptions & {
    readonly version: string
    /** Present if the listener speaks TLS. */
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
