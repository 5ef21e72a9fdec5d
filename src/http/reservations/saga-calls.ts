/**
 * The calls about sagas, beside those about reservations, if a database is configured (docs/guide/saga.md).
 *
 * Owns their table: routing, validation and their part of the OpenAPI document are read from it. `SagaAdmin`
 * (`core/saga-admin.ts`) executes them.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as Type from 'typebox'
import { SAGA_STATES, type SagaAdmin, type SagaAdminResult, type SagaQuery } from '../../core/saga-admin.ts'
import { type ApiAnswer, problem } from './answers.ts'

type SagaCall = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly summary: string
  readonly body?: object
  readonly query?: { readonly properties: Readonly<Record<string, object>> }
  readonly ask: (admin: SagaAdmin, request: FastifyRequest) => Promise<SagaAdminResult>
}

const RETRY_SOON_MS = 1_000
const idOf = (request: FastifyRequest): string => (request.params as { readonly id: string }).id

const CompensateBody = Type.Object(
  { reason: Type.String({ minLength: 1, maxLength: 500 }) },
  { additionalProperties: false },
)
const ReplayBody = Type.Object(
  { ids: Type.Array(Type.Integer({ format: 'int64', minimum: 1 }), { minItems: 1, maxItems: 1_000 }) },
  { additionalProperties: false },
)

const SAGAS_PER_PAGE = 100
const ListQuery = Type.Object(
  {
    status: Type.Optional(Type.Enum(SAGA_STATES)),
    after: Type.Optional(Type.String({ minLength: 1, maxLength: 1_000 })),
  },
  { additionalProperties: false },
)
type ListQuery = { readonly status?: (typeof SAGA_STATES)[number]; readonly after?: string }

function pageOf({ status, after }: ListQuery): SagaQuery {
  return {
    limit: SAGAS_PER_PAGE,
    ...(status === undefined ? {} : { statuses: [status] }),
    ...(after === undefined ? {} : { after }),
  }
}

const SAGA_CALLS = {
  listSagas: {
    method: 'GET',
    path: '/v1/sagas',
    summary: `Sagas in the order of their ids, at most ${SAGAS_PER_PAGE}; after is the last id of the page before`,
    query: ListQuery,
    ask: (admin, request) => admin.list(pageOf(request.query as ListQuery)),
  },
  showSaga: {
    method: 'GET',
    path: '/v1/sagas/{id}',
    summary: 'One saga: its state, its steps, attempts, last error, next attempt and trace',
    ask: (admin, request) => admin.show(idOf(request)),
  },
  retrySaga: {
    method: 'POST',
    path: '/v1/sagas/{id}/retry',
    summary: 'Let a parked saga go on where it stood; messages that ran its steps and died come again',
    ask: (admin, request) => admin.retry(idOf(request)),
  },
  compensateSaga: {
    method: 'POST',
    path: '/v1/sagas/{id}/compensate',
    summary: 'Compensate a saga that is running or parked; one that messages drive also when it is done here',
    body: CompensateBody,
    ask: (admin, request) => admin.compensate(idOf(request), (request.body as { reason: string }).reason),
  },
  deadLetters: {
    method: 'GET',
    path: '/v1/dead-letters',
    summary: 'Messages that were given up, oldest first, at most 100',
    ask: (admin) => admin.deadLetters(100),
  },
  replayDeadLetters: {
    method: 'POST',
    path: '/v1/dead-letters/replay',
    summary: 'Send dead letters on their way again',
    body: ReplayBody,
    ask: (admin, request) => admin.replay((request.body as { ids: number[] }).ids),
  },
  outboxLag: {
    method: 'GET',
    path: '/v1/outbox/lag',
    summary: 'What waits in the outbox, and for how long',
    ask: (admin) => admin.lag(),
  },
} as const satisfies Record<string, SagaCall>

export function serveSagaCalls(
  app: FastifyInstance,
  admin: SagaAdmin,
  answer: (reply: FastifyReply, given: ApiAnswer) => FastifyReply,
): void {
  for (const call of Object.values(SAGA_CALLS) as SagaCall[])
    app.route({
      method: call.method,
      url: call.path.replace('{id}', ':id'),
      schema: {
        ...(call.body === undefined ? {} : { body: call.body }),
        ...(call.query === undefined ? {} : { querystring: call.query }),
      },
      handler: async (request, reply) => answer(reply, answerOf(await call.ask(admin, request))),
    })
}

function answerOf(given: SagaAdminResult): ApiAnswer {
  switch (given.kind) {
    case 'done':
      return { kind: 'json', status: 200, body: given.body }
    case 'unknown':
      return problem('saga-unknown', 'There is no saga with this id.')
    case 'refused':
      return problem('saga-not-movable', `The saga cannot be moved: ${given.reason}.`)
    case 'unavailable':
      return problem('database-unavailable', 'The database of the sagas did not answer; nothing is known.', {
        retryAfterMs: RETRY_SOON_MS,
      })
  }
}

function parametersOf({ path, query }: SagaCall): object {
  const inPath = path.includes('{id}')
    ? [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }]
    : []
  const inQuery = Object.entries(query?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    schema,
  }))
  return inPath.length + inQuery.length === 0 ? {} : { parameters: [...inPath, ...inQuery] }
}

/** Their part of `/openapi.json`. */
export function sagaPaths(): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [name, call] of Object.entries(SAGA_CALLS) as [string, SagaCall][])
    paths[call.path] = {
      ...paths[call.path],
      [call.method.toLowerCase()]: {
        operationId: name,
        summary: call.summary,
        ...parametersOf(call),
        ...(call.body === undefined
          ? {}
          : { requestBody: { required: true, content: { 'application/json': { schema: call.body } } } }),
        responses: {
          200: { description: 'Done.', content: { 'application/json': { schema: { type: 'object' } } } },
          default: {
            description: 'A problem document.',
            content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
          },
        },
      },
    }
  return paths
}
