/**
 * Who calls: the person or tool that a bearer token belongs to, and what its role allows.
 *
 * Owns the refusals 401 and 403. There are no cookies and no cross-origin headers, so no page of another site can make a
 * call from an operator's browser: it would have to know the token. Only the files of our own page need none.
 */

import type { FastifyInstance, FastifyReply } from 'fastify'
import type { OperatorRole, OperatorToken } from '../../core/operator/operator-tokens.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import { bearerOf, matching } from '../request/access-token.ts'
import type { InFlight } from '../server/in-flight.ts'

/** People and their tools, not traffic: beyond it something runs away. */
const OPERATOR_CALLS_IN_FLIGHT_MAX = 32

declare module 'fastify' {
  interface FastifyRequest {
    operator?: OperatorToken
  }
}

type AccessPorts = {
  /** Read at each call, because they may change. */
  readonly tokens: () => readonly OperatorToken[]
  readonly inFlight: InFlight
  readonly refuse: (reply: FastifyReply, problem: Problem) => FastifyReply
}

/** Before everything else, so that whoever has no token learns nothing of the listener but its page. */
export function admitOperators(app: FastifyInstance, { tokens, inFlight, refuse }: AccessPorts): void {
  app.addHook('onRequest', async (request, reply) => {
    if (request.routeOptions.config.open === true) return undefined
    const operator = matching(bearerOf(request.headers), tokens(), ({ token }) => token)[0]
    if (operator === undefined) {
      reply.header('WWW-Authenticate', 'Bearer')
      return refuse(reply, TOKEN_REQUIRED)
    }
    // Whoever has no token takes no place: a peer that reads none of its answers would keep all of them.
    inFlight.begin()
    reply.raw.once('close', inFlight.end)
    if (inFlight.draining) return refuse(reply, DRAINING)
    if (inFlight.count > OPERATOR_CALLS_IN_FLIGHT_MAX) return refuse(reply, OVERLOADED)
    request.operator = operator
  })
}

export function allows(role: OperatorRole, required: OperatorRole): boolean {
  return required === 'view' || role === 'operate'
}

export function roleRequired({ name, role }: OperatorToken): Problem {
  return {
    code: 'role-required',
    detail: `${name} has the role ${role}, and this call takes the role operate. Nothing was decided. Ask somebody who may decide, or have the role changed in FENCEPOST_OPERATOR_TOKENS_FILE.`,
  }
}

const TOKEN_REQUIRED: Problem = {
  code: 'token-required',
  detail: 'Send a token of FENCEPOST_OPERATOR_TOKENS_FILE as "Authorization: Bearer …".',
}

const DRAINING: Problem = {
  code: 'draining',
  detail: 'The sidecar is shutting down. Nothing was decided; ask another one.',
  retryAfterMs: RETRY_SOON_MS,
}

const OVERLOADED: Problem = {
  code: 'too-many-requests-in-flight',
  detail: `${OPERATOR_CALLS_IN_FLIGHT_MAX} calls of operators are under way, which is the limit. Nothing was done.`,
  retryAfterMs: RETRY_SOON_MS,
}

/** What a call of the operator API is answered with: JSON, or a problem document. */
export type OperatorAnswer =
  | { readonly kind: 'json'; readonly body: unknown }
  | { readonly kind: 'problem'; readonly problem: Problem }

export function json(body: unknown): OperatorAnswer {
  return { kind: 'json', body }
}

export function refusal(of: Problem): OperatorAnswer {
  return { kind: 'problem', problem: of }
}

export function problem(
  code: Problem['code'],
  detail: string,
  more?: Record<string, unknown>,
): OperatorAnswer {
  return refusal({ code, detail, ...(more === undefined ? {} : { more }) })
}

export function unavailable(because: string): OperatorAnswer {
  return refusal({ code: 'quorum-unavailable', detail: because, retryAfterMs: RETRY_SOON_MS })
}
