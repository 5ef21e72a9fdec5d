/**
 * Fastify for the reservation API, with every limit written out.
 *
 * Owns what of HTTP is no matter of a call: limits of heads, bodies and times, what the parser could not take, the form of a body,
 * and errors as problem documents.
 */

import type { Server as TlsServer } from 'node:https'
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { decodeUtf8 } from '../../core/formats/framing.ts'
import { type Problem, problemDocument } from '../message/problems.ts'
import { createConnectionFaults, type FaultLimits } from '../server/connection-faults.ts'
import { keepTlsFresh, type ListenerTls, serverOptions } from '../server/tls.ts'
import { validatorOf } from './validation.ts'

export type ListenerLimits = FaultLimits & {
  readonly bodyBytesMax: number
  readonly keepAliveTimeoutMs: number
  readonly connectionsMax: number
}

export type ListenerPorts = {
  readonly newInstance: () => string
  /** Told of a fault of our own; the caller got 500 with this instance. */
  readonly onFailure: (error: unknown, instance: string) => void
}

/** How often connections are looked at for the timeouts of heads and requests. */
const TIMEOUT_CHECK_MS = 500

export function createListener(
  limits: ListenerLimits,
  { newInstance, onFailure }: ListenerPorts,
  tls: ListenerTls | undefined,
): FastifyInstance {
  const faults = createConnectionFaults(limits, newInstance)
  const app = Fastify({
    logger: false,
    bodyLimit: limits.bodyBytesMax,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: 0,
    forceCloseConnections: true,
    // While draining, calls on what was given out are still answered; `close` is called after that.
    return503OnClosing: false,
    // Ids are longer than Fastify's default; their own limit is checked where they are read.
    routerOptions: { maxParamLength: limits.headerBytesMax },
    ...serverOptions(
      {
        maxHeaderSize: limits.headerBytesMax,
        headersTimeout: limits.headersTimeoutMs,
        connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      },
      tls,
    ),
    frameworkErrors: (_error, _request, reply) =>
      void sendProblem(
        reply as unknown as FastifyReply,
        { code: 'malformed-request', detail: 'The path can not be decoded.' },
        newInstance(),
      ),
    clientErrorHandler: (error, socket) => faults.onClientError(error, socket),
  })
  app.server.maxConnections = limits.connectionsMax
  app.addHook('onRequest', async (request, reply) => {
    const cut = new AbortController()
    faults.admit({ req: request.raw, res: reply.raw, expectsContinue: false, cut: cut.signal }, cut)
    cut.signal.addEventListener('abort', () => {
      if (reply.sent) return
      reply.header('Connection', 'close')
      void sendProblem(reply, cut.signal.reason as Problem, newInstance())
    })
  })
  if (tls !== undefined) keepTlsFresh(app.server as unknown as TlsServer, tls)
  app.setValidatorCompiler(({ schema }) => validatorOf(schema))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, JSON.parse(decodeUtf8(body as Buffer) ?? ''))
    } catch {
      done(Object.assign(new Error('The body is no JSON in UTF-8.'), { code: NOT_JSON }))
    }
  })
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (reply.sent) return reply
    // A caller that goes away in the middle of its body is no fault of ours; nobody is left to read this.
    const known = problemOf(error, limits.bodyBytesMax) ?? (request.raw.complete ? undefined : BROKEN_OFF)
    if (known !== undefined) return sendProblem(reply, known, newInstance())
    const instance = newInstance()
    onFailure(error, instance)
    const detail = 'The sidecar failed at this call; its log says why. Whether it took effect is not known.'
    return sendProblem(reply, { code: 'internal-error', detail }, instance)
  })
  return app
}

const NOT_JSON = 'FENCEPOST_NOT_JSON'
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
