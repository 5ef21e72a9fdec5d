/**
 * Which calls are admitted: those with a token, or of no foreign page where none is required, in order of arrival, while there is room.
 *
 * Owns the count of calls in flight. A stream that keeps a reservation has a limit of its own and does not count here.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isToken } from '../request/access-token.ts'
import { RETRY_SOON_MS } from '../request/refusals.ts'
import type { InFlight } from '../server/in-flight.ts'
import type { RequestScheduler } from '../server/request-scheduler.ts'
import { type ApiAnswer, problem, refusal } from './answers.ts'
import { type CalledHosts, foreignPage } from './foreign-pages.ts'

export type AdmissionOptions = {
  /** If present, callers must send one of them; read at each call, because they may change. */
  readonly apiTokens: (() => readonly string[]) | undefined
  /** Of callers without a token. */
  readonly hosts: CalledHosts
  readonly limits: { readonly inFlightMax: number }
}

export type AdmissionPorts = {
  readonly inFlight: InFlight
  readonly scheduler: RequestScheduler
  readonly openStreams: () => number
  readonly answer: (reply: FastifyReply, given: ApiAnswer) => FastifyReply
}

export function admitCalls(
  app: FastifyInstance,
  { apiTokens, hosts, limits }: AdmissionOptions,
  { inFlight, scheduler, openStreams, answer }: AdmissionPorts,
): void {
  app.addHook('onRequest', async (request, reply) => {
    inFlight.begin()
    reply.raw.once('close', inFlight.end)
    // The drain ends once nothing is under way: callers that stay would keep it until its grace is over.
    if (inFlight.draining) reply.header('Connection', 'close')
    if (apiTokens === undefined) {
      const page = foreignPage(request.headers, hosts)
      if (page !== undefined) return answer(reply, refusal(page))
    } else if (!isToken(bearerOf(request), apiTokens())) {
      reply.header('WWW-Authenticate', 'Bearer')
      return answer(reply, TOKEN_REQUIRED)
    }
    await scheduler.begin()
    const over = inFlight.count - openStreams() > limits.inFlightMax
    return over ? answer(reply, overloaded(limits.inFlightMax)) : undefined
  })
}

const TOKEN_REQUIRED = problem('token-required', 'Send the token as "Authorization: Bearer …".')

export function overloaded(limit: number): ApiAnswer {
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
