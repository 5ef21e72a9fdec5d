/**
 * A listener of calls in JSON (reservations, operators), whatever the call.
 *
 * Owns the part of HTTP that is the same for every call: limits and TLS, what the parser rejects, bodies, validation, and errors as problem
 * documents. Requests of applications, whose paths are not ours, arrive on `listener.ts`.
 */

import type { Server as TlsServer } from 'node:https'
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyServerOptions,
} from 'fastify'
import type { TSchema } from 'typebox'
// Only what schemas need: `typebox/compile` would bring values, codecs and a language of types, 112 kB that each start reads.
import { Compile } from 'typebox/schema'
import { BodyParts } from '../../core/body-parts.ts'
import { decodeUtf8 } from '../../core/formats/framing.ts'
import { nestsDeeperThan } from '../../core/formats/json.ts'
import { type Problem, problemDocument } from '../message/problems.ts'
import { createConnectionFaults, type FaultLimits, timeoutCheckMs } from './connection-faults.ts'
import {
  type ConnectionLimit,
  type FailurePorts,
  keepTlsFresh,
  type ListenAt,
  type ListenerTls,
  limitConnections,
  serverOptions,
} from './listening.ts'

export function createJsonListener(
  limits: RoutedLimits,
  { newInstance, onFailure }: FailurePorts,
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

/** @returns where it listens: `http://host:port`, or `unix:/path` */
export async function listen(app: FastifyInstance, { kind: _, ...where }: ListenAt): Promise<string> {
  const address = await app.listen(where)
  return 'path' in where ? `unix:${where.path}` : address
}

export function sendProblem(reply: FastifyReply, of: Problem, instance: string): FastifyReply {
  const document = problemDocument(of, instance)
  for (const [name, value] of document.headers) reply.header(name, value)
  return reply.code(document.status).send(document.body)
}

export type RoutedLimits = FaultLimits &
  ConnectionLimit & {
    readonly bodyBytesMax: number
    readonly keepAliveTimeoutMs: number
  }

/** Fastify with its routes and its body parsing, for listeners with paths of their own; with every limit written out. */
export function createRoutedListener(
  limits: RoutedLimits,
  tls: ListenerTls | undefined,
  own: Pick<FastifyServerOptions, 'clientErrorHandler' | 'frameworkErrors' | 'return503OnClosing'>,
): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: limits.bodyBytesMax,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: 0,
    forceCloseConnections: true,
    // Ids are longer than Fastify's default; they have a limit of their own where they are read.
    routerOptions: { maxParamLength: limits.headerBytesMax },
    ...serverOptions(
      {
        maxHeaderSize: limits.headerBytesMax,
        headersTimeout: limits.headersTimeoutMs,
        connectionsCheckingInterval: timeoutCheckMs(limits),
        insecureHTTPParser: false,
      },
      tls,
    ),
    ...own,
  })
  limitConnections(app.server, limits)
  if (tls !== undefined) keepTlsFresh(app.server as unknown as TlsServer, tls)
  return app
}

const NOT_JSON = 'FENCEPOST_NOT_JSON'
const TOO_DEEP = 'FENCEPOST_TOO_DEEP'
const TOO_LARGE = 'FENCEPOST_TOO_LARGE'
/**
 * What is stored of a body is written again in every answer to a duplicate, whose writing recurses: some thousands of levels end the
 * stack there. Half of where the readers of callers stop (Python, Jackson).
 */
const BODY_LEVELS_MAX = 500

/** In little more memory than their bytes: Fastify's own reader keeps each chunk as it came, hundreds of bytes for one of a single byte. */
function readJsonBodies(app: FastifyInstance, bytesMax: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', (request, stream, done) => {
    if (Number(request.headers['content-length']) > bytesMax) return done(fault(TOO_LARGE))
    const parts = new BodyParts()
    let bytes = 0
    const settle = (error: Error | null, body?: unknown): void => {
      stream.off('data', onData).off('end', onEnd).off('error', onError)
      done(error, body)
    }
    const onData = (part: Buffer): void => {
      bytes += part.length
      if (bytes > bytesMax) settle(fault(TOO_LARGE))
      else parts.add(part)
    }
    const onEnd = (): void => {
      const parsed = jsonOf(parts.whole())
      if ('code' in parsed) settle(fault(parsed.code))
      else settle(null, parsed.value)
    }
    const onError = (error: Error): void => settle(error)
    stream.on('data', onData).on('end', onEnd).on('error', onError)
  })
}

function jsonOf(bytes: Buffer): { readonly value: unknown } | { readonly code: string } {
  const text = decodeUtf8(bytes) ?? ''
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { code: NOT_JSON }
  }
  return nestsDeeperThan(BODY_LEVELS_MAX, text) ? { code: TOO_DEEP } : { value }
}

function fault(code: string): Error {
  return Object.assign(new Error('the body can not be taken'), { code })
}

function isTooLarge({ code }: FastifyError): boolean {
  return code === TOO_LARGE
}

/** Undefined where the error is another one. */
function bodyProblem({ code }: FastifyError, bytesMax: number): Problem | undefined {
  switch (code) {
    case TOO_LARGE:
      return {
        code: 'body-too-large',
        detail: `The body is larger than ${bytesMax} bytes, which is the limit. Nothing was done.`,
      }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return { code: 'media-type-unsupported', detail: 'Send the body as application/json.' }
    case NOT_JSON:
      return { code: 'request-invalid', detail: 'The body is no JSON in UTF-8. Nothing was done.' }
    case TOO_DEEP:
      return {
        code: 'request-invalid',
        detail: `The body nests arrays and objects deeper than ${BODY_LEVELS_MAX} levels, which is the limit. Nothing was done.`,
      }
    default:
      return undefined
  }
}

type Fault = {
  readonly instancePath: string
  readonly schemaPath: string
  readonly message: string
  readonly keyword: string
}

type Named = Omit<Fault, 'schemaPath'>

/** These come last: a failed union says less than the failed member. */
const LAST = new Set(['oneOf', 'anyOf', 'boolean', 'not'])

function validatorOf(schema: unknown) {
  const compiled = Compile(schema as TSchema)
  const choice = choiceOf(schema)
  return (data: unknown) => {
    if (compiled.Check(data)) return { value: data }
    const [, found] = compiled.Errors(data) as readonly [boolean, readonly Fault[]]
    const faults = found.filter((fault) => !isOfChoice(fault)).map((fault) => named(fault, choice))
    faults.sort((a, b) => Number(LAST.has(a.keyword)) - Number(LAST.has(b.keyword)))
    const error = Object.assign(new Error('validation'), { validation: faults, code: 'FST_ERR_VALIDATION' })
    return { error }
  }
}

/** The members of which a body has exactly one: what every `oneOf` of these schemas' top level is. */
function choiceOf(schema: unknown): string {
  const { oneOf = [] } = schema as { oneOf?: readonly { readonly required?: readonly string[] }[] }
  return oneOf.flatMap(({ required = [] }) => required).join(', ')
}

/** That a member of the choice is missing says nothing: another one may be meant. */
function isOfChoice({ schemaPath }: Fault): boolean {
  return schemaPath.startsWith('#/oneOf/')
}

/** Names members, and says what a duration and a target are: the validator speaks of keywords of its schema, and of patterns. */
function named(fault: Fault & { readonly params?: unknown }, choice: string): Named {
  const { keyword, instancePath, schemaPath } = fault
  if (keyword === 'oneOf' && schemaPath === '#')
    return { keyword, instancePath, message: `must have exactly one of ${choice}` }
  const { additionalProperties } = (fault.params ?? {}) as { additionalProperties?: readonly string[] }
  if (keyword === 'additionalProperties' && additionalProperties !== undefined)
    return { keyword, instancePath, message: `must not have ${additionalProperties.slice(0, 5).join(', ')}` }
  // A pattern is no sentence, and `30` is the commonest mistake.
  const isDuration = /\/(lease|retention|wait)$/.test(instancePath)
  if (isDuration && (keyword === 'pattern' || keyword === 'type'))
    return { keyword, instancePath, message: 'must be a whole number and its unit (ms, s, m, h or d): "30s"' }
  if (keyword === 'pattern' && /^\/request\/(path|query)$/.test(instancePath))
    return {
      keyword,
      instancePath,
      message: 'must be as a client sends it, in percent-encoding: "/files/a%20b%C3%A9"',
    }
  return { keyword, instancePath, message: fault.message }
}
