/**
 * A listener of calls in JSON (reservations, operators), whatever the call.
 *
 * Owns the part of HTTP that is the same for every call: what the parser rejects, the form of a body, and errors as problem
 * documents. `routed-listener.ts` has its limits.
 */

import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify'
import { decodeUtf8 } from '../../core/formats/framing.ts'
import { nestsDeeperThan } from '../../core/formats/json.ts'
import { type Problem, problemDocument } from '../message/problems.ts'
import { createConnectionFaults } from './connection-faults.ts'
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
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    const text = decodeUtf8(body as Buffer) ?? ''
    let parsed: unknown
    try {
      parsed = JSON.parse(text)
    } catch {
      return done(Object.assign(new Error('The body is no JSON in UTF-8.'), { code: NOT_JSON }))
    }
    if (nestsDeeperThan(BODY_LEVELS_MAX, text))
      return done(Object.assign(new Error('The body nests too deep.'), { code: TOO_DEEP }))
    done(null, parsed)
  })
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (reply.sent) return reply
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
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

const NOT_JSON = 'FENCEPOST_NOT_JSON'
const TOO_DEEP = 'FENCEPOST_TOO_DEEP'
/**
 * What is stored of a body is written again in every answer to a duplicate, whose writing recurses: some thousands of levels end the
 * stack there. Half of where the readers of callers stop (Python, Jackson).
 */
const BODY_LEVELS_MAX = 500
const BROKEN_OFF: Problem = { code: 'malformed-request', detail: 'The body broke off. Nothing was done.' }

function problemOf(error: FastifyError, bodyBytesMax: number): Problem | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return {
        code: 'body-too-large',
        detail: `The body is larger than ${bodyBytesMax} bytes, which is the limit. Nothing was done.`,
      }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return { code: 'media-type-unsupported', detail: 'Send the body as application/json.' }
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case NOT_JSON:
      return { code: 'request-invalid', detail: 'The body is no JSON in UTF-8. Nothing was done.' }
    case TOO_DEEP:
      return {
        code: 'request-invalid',
        detail: `The body nests arrays and objects deeper than ${BODY_LEVELS_MAX} levels, which is the limit. Nothing was done.`,
      }
    case 'FST_ERR_VALIDATION': {
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
    default:
      return undefined
  }
}

export function sendProblem(reply: FastifyReply, of: Problem, instance: string): FastifyReply {
  const document = problemDocument(of, instance)
  for (const [name, value] of document.headers) reply.header(name, value)
  return reply.code(document.status).send(document.body)
}
