/**
 * The operator API on its listener: JSON for people's tools, and the page that calls it.
 *
 * Owns the composition of its parts and the headers of every answer: whatever a stored answer holds, none is a page.
 * `page.ts` has the files of the page, which hold nothing of any record.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isRecordKey } from '../../core/operator/locate.ts'
import type { OperatorToken } from '../../core/operator/operator-tokens.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import { trackInFlight } from '../server/in-flight.ts'
import { createJsonListener, listen, type RoutedLimits, sendProblem } from '../server/json-listener.ts'
import type { FailurePorts, ListenerTls, Listening } from '../server/listening.ts'
import { admitOperators, allows, type OperatorAnswer, roleRequired } from './access.ts'
import { OPERATOR_CALLS, type OperatorCall, type OperatorCallName } from './calls.ts'
import { createEventStreams, type EventStreams, STREAMS_MAX, type Topic } from './event-streams.ts'
import {
  createOperatorHandlers,
  type OperatorHandlers,
  type OperatorOptions,
  type OperatorPorts,
} from './handlers.ts'
import { type SlowLogs, slowCommandsOf } from './overview.ts'
import { type PageFiles, servePage } from './page.ts'

type OperatorApiOptions = OperatorOptions & {
  readonly tokens: () => readonly OperatorToken[]
  readonly limits: RoutedLimits
  readonly tls?: ListenerTls
  /** Undefined where it was not built. */
  readonly page: PageFiles | undefined
}

export type OperatorApi = Omit<Listening, 'leave'>

const HEADERS = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
} as const

export function createOperatorApi(
  options: OperatorApiOptions,
  ports: OperatorPorts & FailurePorts & SlowLogs,
): OperatorApi {
  const app = createJsonListener(options.limits, ports, options.tls)
  const inFlight = trackInFlight(ports.clock)
  const refuse = (reply: FastifyReply, problem: Problem) => sendProblem(reply, problem, ports.newInstance())
  app.addHook('onRequest', async (_request, reply) => void reply.headers(HEADERS))
  admitOperators(app, { tokens: options.tokens, inFlight, refuse })
  app.setNotFoundHandler(({ method }, reply) =>
    refuse(reply, {
      code: 'call-unknown',
      detail: `There is no call ${method} on this path; see /openapi.json.`,
    }),
  )
  servePage(app, options.page)
  const handlers = createOperatorHandlers(options, ports)
  const streaming = {
    tokens: options.tokens,
    clock: ports.clock,
    onFailure: (cause: unknown) => ports.onFailure(cause, ports.newInstance()),
  }
  const streams = { watchOverview: createEventStreams(streaming), watchRecord: createEventStreams(streaming) }
  const { slowLogs } = ports
  serve(app, { ...handlers, streams, slowLogs }, refuse)
  let closed: Promise<void> | undefined
  return {
    listen: (at) => listen(app, at),
    // Decides nothing new.
    close: (graceMs) => {
      inFlight.drain()
      for (const one of Object.values(streams)) one.endAll()
      closed ??= inFlight.idleOrAfter(graceMs).then(() => app.close())
      return closed
    },
  }
}

type Handle = (request: FastifyRequest, by: OperatorToken) => Promise<OperatorAnswer>
type Streamed = 'watchOverview' | 'watchRecord'
type Handlers = OperatorHandlers & {
  readonly streams: Readonly<Record<Streamed, EventStreams>>
} & SlowLogs

const paramOf = ({ params }: FastifyRequest) => params as { readonly record: string; readonly id: string }

/** The calls of the table, each with its handler; the handler's input is what its schema accepts. */
function handlesOf(handlers: Handlers): Record<Exclude<OperatorCallName, Streamed>, Handle> {
  const onRecord =
    (
      act: (recordKey: string, request: FastifyRequest, by: OperatorToken) => Promise<OperatorAnswer>,
    ): Handle =>
    async (request, by) => {
      const { record } = paramOf(request)
      return isRecordKey(record) ? act(record, request, by) : { kind: 'problem', problem: NO_RECORD_KEY }
    }
  const deciding = (decision: 'end' | 'forget' | 'ask') =>
    onRecord((key, { body }, by) => handlers.decide(decision, key, body as never, by))
  return {
    showOperator: async (_request, by) => handlers.me(by),
    showOverview: async () => ({ kind: 'json', body: handlers.overview() }),
    listSlowCommands: async () => ({ kind: 'json', body: slowCommandsOf(await handlers.slowLogs()) }),
    findRecords: ({ body }) => handlers.find(body as never),
    listRecords: ({ query }) => handlers.list(query as never),
    showRecord: onRecord((key, _request, by) => handlers.show(key, by)),
    endClaim: deciding('end'),
    completeRecord: onRecord((key, { body }, by) => handlers.complete(key, body as never, by)),
    forgetRecord: deciding('forget'),
    askApplication: deciding('ask'),
    listDeadLetters: ({ query }) => handlers.deadLetters(query as never),
    listAudit: ({ query }) => handlers.audit(query as never),
    requeueDeadLetter: (request, by) =>
      handlers.letter('requeue', paramOf(request).id, request.body as never, by),
    discardDeadLetter: (request, by) =>
      handlers.letter('discard', paramOf(request).id, request.body as never, by),
    listDecisions: ({ query }) => handlers.recent(query as never),
  }
}

type Watched = readonly [key: string, topic: () => Topic]

/** What each stream watches, and the key under which readers share it; undefined where the path names no record. */
function topicsOf({
  watchedOverview,
  watchedRecord,
}: OperatorHandlers): Record<Streamed, (request: FastifyRequest, by: OperatorToken) => Watched | undefined> {
  return {
    watchOverview: () => ['overview', watchedOverview],
    // Roles are shown different things.
    watchRecord: (request, { role }) => {
      const { record } = paramOf(request)
      return isRecordKey(record) ? [`${role} ${record}`, () => watchedRecord(record, role)] : undefined
    },
  }
}

function serve(
  app: FastifyInstance,
  handlers: Handlers,
  refuse: (reply: FastifyReply, problem: Problem) => FastifyReply,
): void {
  const handles = handlesOf(handlers)
  const topics = topicsOf(handlers)
  /** Past Fastify, which would wait for the end of the answer. */
  const watch = (name: Streamed, request: FastifyRequest, reply: FastifyReply, operator: OperatorToken) => {
    const topic = topics[name](request, operator)
    if (topic === undefined) return refuse(reply, NO_RECORD_KEY)
    for (const [header, value] of Object.entries(HEADERS)) reply.raw.setHeader(header, value)
    if (!handlers.streams[name].open(reply.raw, operator, ...topic)) return refuse(reply, TOO_MANY_READERS)
    return reply.hijack()
  }
  for (const [name, call] of Object.entries(OPERATOR_CALLS) as [OperatorCallName, OperatorCall][])
    app.route({
      method: call.method,
      url: call.path.replace('{record}', ':record').replace('{id}', ':id'),
      schema: {
        ...(call.body === undefined ? {} : { body: call.body }),
        ...(call.query === undefined ? {} : { querystring: call.query }),
      },
      // Before the body is read: whoever may not decide sends nothing.
      onRequest: async ({ operator }, reply) => {
        if (operator !== undefined && !allows(operator.role, call.role))
          return refuse(reply, roleRequired(operator))
        return undefined
      },
      handler: async (request, reply) => {
        const { operator } = request
        if (operator === undefined) throw new Error('a call without an operator was admitted')
        if (name === 'watchOverview' || name === 'watchRecord') return watch(name, request, reply, operator)
        const answer = await handles[name](request, operator)
        return answer.kind === 'json' ? reply.send(answer.body) : refuse(reply, answer.problem)
      },
    })
}

const TOO_MANY_READERS: Problem = {
  code: 'too-many-requests-in-flight',
  detail: `${STREAMS_MAX} pages watch the same kind of view on this sidecar already, which is the limit. Close one, or ask for the view itself now and then: this path without /events.`,
  retryAfterMs: RETRY_SOON_MS,
}

const NO_RECORD_KEY: Problem = {
  code: 'request-invalid',
  detail:
    'The path names no record: a record is dedup:TENANT:ENV:VERSION:HASH, percent-encoded. POST /v1/operator/records/find finds it.',
}
