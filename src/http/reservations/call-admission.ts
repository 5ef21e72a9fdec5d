/**
 * Which calls are admitted: those with a token, or of no foreign page where none is required, in order of arrival, while there is room.
 *
 * Owns the count of calls in flight. A stream that keeps a reservation has a limit of its own and does not count here.
 */

import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import { bearerOf, isToken } from '../request/access-token.ts'
import type { InFlight, RequestScheduler } from '../server/in-flight.ts'
import { type ApiAnswer, problem, refusal } from './answers.ts'

export type AdmissionOptions = {
  /** If present, callers must send one of them; read at each call, because they may change. */
  readonly apiTokens: (() => readonly string[]) | undefined
  /** Of callers without a token. */
  readonly hosts: CalledHosts
  readonly limits: { readonly inFlightMax: number }
}

type AdmissionPorts = {
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
    } else if (!isToken(bearerOf(request.headers), apiTokens())) {
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

/**
 * Whom a call may name as its host. `local`: an address, or a name that no server of the public internet answers for, so that no stranger
 * can lead it anywhere. `any`: no browser can be led to the listener by a name.
 */
type CalledHosts = 'local' | 'any'

/**
 * A browser on this machine reaches a listener on localhost, and runs what strangers wrote. It lets a page of another site send some calls,
 * though not read their answers, and names its site in `Origin`. A site whose name is led to 127.0.0.1 once its page is there (DNS rebinding)
 * is no other site to the browser; then its name stands in `Host`. A page can leave out neither of them, and other programs have no reason
 * to send either. Both are refused where no token tells callers apart: a page knows none.
 *
 * Source: Fetch, section 3.2 (Origin); RFC 9110, section 7.2 (Host); RFC 6761, section 6.3 (localhost); ICANN resolution 2024.07.29.06
 * (internal).
 */
function foreignPage({ host = '', origin }: IncomingHttpHeaders, hosts: CalledHosts): Problem | undefined {
  if (origin !== undefined && originHost(origin) !== host.toLowerCase())
    return pageRefused('It comes from a page of another site ("Origin").')
  if (hosts === 'local' && !isLocal(withoutPort(host)))
    return pageRefused(
      'Its "Host" is a name that leads elsewhere: call it as localhost, or by an address, or have a token configured.',
    )
  return undefined
}

function pageRefused(why: string): Problem {
  return {
    code: 'page-refused',
    detail: `${why} Without a token (FENCEPOST_API_TOKEN_FILE) it could be a page in a browser that calls. Nothing was done.`,
  }
}

/** Undefined for `null`, the origin of a page that shall have none. */
function originHost(origin: string): string | undefined {
  return /^https?:\/\/(.+)$/i.exec(origin)?.[1]?.toLowerCase()
}

function withoutPort(host: string): string {
  return host
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
}

/** Without a `Host` (HTTP/1.0) it is no browser. */
function isLocal(host: string): boolean {
  return host === '' || isIP(host) !== 0 || /^(.+\.)?localhost$|\.internal$/i.test(host)
}
