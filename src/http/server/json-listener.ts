/**
 * A listener of calls in JSON (reservations, operators), whatever the call.
 *
 * Owns the part of HTTP that is the same for every call: what the parser rejects, and errors as problem documents.
 * `json-body.ts` reads the bodies, `routed-listener.ts` has its limits.
 */

import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify'
import { type Problem, problemDocument } from '../message/problems.ts'
import { createConnectionFaults } from './connection-faults.ts'
import { bodyProblem, isTooLarge, readJsonBodies } from './json-body.ts'
import { createRoutedListener, type RoutedLimits } from './routed-listener.ts'
import type { ListenerTls } from './tls.ts'
import { validatorOf } from './validation.ts'

export type JsonListenerPorts = {
  readonly newInstance: () => string
  /** Receives a fault of the sidecar itself; the caller got 500 with this instance. */
  readonly onFailure: (error: unknown, instance: string) => void
}

export function createJsonListener(
  limits: RoutedLimits,
  { newInstance, onFailure }: JsonListenerPorts,
  tls: ListenerTls | undefined,
): FastifyInstance {
  const faults = createConnectionFaults(limits, newInstance)
  const app = createRoutedListener(limits, tls, {
    // While it drains, calls on open reservations are still answered; `close` comes after that.
    return503OnClosing: false,
    frameworkErrors: (_error, _request, reply) =>
      void sendProblem(
        reply as unknown as FastifyReply,
        { code: 'malformed-request', detail: 'The path can not be decoded.' },
        newInstance(),
      ),
    clientErrorHandler: (error, socket) => faults.onClientError(error, socket),
  })
  app.addHook('onRequest', async (request, reply) => {
    const cut = new AbortController()
    const inbound = { req: request.raw, res: reply.raw, expectsContinue: false, cut: cut.signal }
    if (!faults.admit(inbound, cut)) return reply.hijack()
    cut.signal.addEventListener('abort', () => {
      if (reply.sent) return
      reply.header('Connection', 'close')
      void sendProblem(reply, cut.signal.reason as Problem, newInstance())
    })
  })
  // What can't be decoded would be left as it stands, and another value would be meant.
  app.addHook('preValidation', async ({ url }, reply) =>
    !url.includes('?') || isDecodable(url.slice(url.indexOf('?') + 1))
      ? undefined
      : sendProblem(
          reply,
          {
            code: 'malformed-request',
            detail: 'The query can not be decoded: it is no UTF-8 in percent-encoding.',
          },
          newInstance(),
        ),
  )
  app.setValidatorCompiler(({ schema }) => validatorOf(schema))
  readJsonBodies(app, limits.bodyBytesMax)
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (reply.sent) return reply
    // It asks for the type of a QUERY before it looks for its route. There is none.
    if (error.code === 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE') return reply.callNotFound()
    // Fastify would close the connection with bytes unread, and the reset overtakes the answer where a caller sends all before it reads.
    if (isTooLarge(error)) reply.removeHeader('connection')
    // A caller that disconnects in the middle of its body is no fault of the sidecar; this answer has no reader.
    const known = problemOf(error, limits.bodyBytesMax) ?? (request.raw.complete ? undefined : BROKEN_OFF)
    if (known !== undefined) return sendProblem(reply, known, newInstance())
    const instance = newInstance()
    onFailure(error, instance)
    const detail = 'The sidecar failed at this call; its log says why. Whether it took effect is not known.'
    return sendProblem(reply, { code: 'internal-error', detail }, instance)
  })
  return app
}

function isDecodable(text: string): boolean {
  try {
    return typeof decodeURIComponent(text) === 'string'
  } catch {
    return false
  }
}

const BROKEN_OFF: Problem = { code: 'malformed-request', detail: 'The body broke off. Nothing was done.' }

/** Undefined where the fault is the sidecar's own. */
function problemOf(error: FastifyError, bodyBytesMax: number): Problem | undefined {
  if (error.code !== 'FST_ERR_VALIDATION') return bodyProblem(error, bodyBytesMax)
  const errors = (error.validation ?? []).map(({ instancePath, message }) => ({
    path: instancePath,
    message: message ?? '',
  }))
  const [first] = errors
  const where = first === undefined || first.path === '' ? 'The call' : `The member ${first.path}`
  return {
    code: 'request-invalid',
    detail: `${where} ${first?.message ?? 'is not what is asked for'}; see /openapi.json. Nothing was done.`,
    more: { errors },
  }
}

export function sendProblem(reply: FastifyReply, of: Problem, instance: string): FastifyReply {
  const document = problemDocument(of, instance)
  for (const [name, value] of document.headers) reply.header(name, value)
  return reply.code(document.status).send(document.body)
}
