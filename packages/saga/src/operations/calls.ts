/**
 * THE table of the calls about sagas: routing, roles, validation and the OpenAPI document are read from it.
 *
 * Owns who sees what: everybody the state, the steps and the errors; the role `operate` also what a saga was given, what its steps
 * returned, and what is in a message. The headers of a message may be credentials of its sender, and are seen with the database alone.
 */
import { sagaBacklog } from '../backlog.ts'
import { listDeadLetters } from '../dead-letters.ts'
import type { SagaKit } from '../kit.ts'
import { getSaga, listSagas, type SagaStatus, sagaStatuses } from '../saga-instances.ts'
import { type Decision, decide, EFFECTS, listDecisions, UNMOVED } from './decisions.ts'
import { type Operator, Refused } from './operators.ts'

/** Of a list. */
export const itemsMax = 200
const idsMax = 1_000
export const reasonCharsMin = 3
export const reasonCharsMax = 500
const queryDeadlineMs = 5_000

type Field = {
  readonly schema: object
  readonly accepts: (value: unknown) => boolean
  readonly required?: true
}
type Fields = Readonly<Record<string, Field>>

const text = (minLength: number, maxLength: number): Field => ({
  schema: { type: 'string', minLength, maxLength },
  accepts: (value) => typeof value === 'string' && value.length >= minLength && value.length <= maxLength,
})
const isId = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 1
/** In a query, where everything is text. */
const count = (max: number): Field => ({
  schema: { type: 'integer', minimum: 1, maximum: max },
  accepts: (value) => /^[1-9]\d{0,15}$/.test(String(value)) && Number(value) <= max,
})

const reasoned: Fields = {
  reason: { ...text(reasonCharsMin, reasonCharsMax), required: true },
  dry_run: { schema: { type: 'boolean' }, accepts: (value) => typeof value === 'boolean' },
}
const ofMessages: Fields = {
  ...reasoned,
  ids: {
    schema: { type: 'array', items: { type: 'integer', minimum: 1 }, minItems: 1, maxItems: idsMax },
    accepts: (ids) => Array.isArray(ids) && ids.length >= 1 && ids.length <= idsMax && ids.every(isId),
    required: true,
  },
}

export type Input = Readonly<Record<string, unknown>>
type Asked = { readonly id: string; readonly input: Input; readonly by: Operator }

export type Call = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly summary: string
  /** Of the query or of the body, by the method. */
  readonly fields: Fields
  readonly ask: (kit: SagaKit, asked: Asked) => Promise<unknown>
}

const decision = (path: string, summary: string, fields: Fields, of: (asked: Asked) => Decision): Call => ({
  method: 'POST',
  path,
  summary,
  fields,
  ask: async (kit, asked) => {
    const { reason, dry_run: dryRun } = asked.input as { reason: string; dry_run?: boolean }
    const what = of(asked)
    if (dryRun === true) return { decided: false, effects: EFFECTS[what.act] }
    const moved = await decide(kit, what, { by: asked.by.name, reason })
    if ('ids' in what) return { decided: true, messages: moved }
    const saga = await shownSaga(kit, what.sagaId)
    if (moved === 0)
      throw new Refused('saga-not-movable', `The saga cannot be moved: it ${UNMOVED[what.act]}.`)
    return { decided: true, saga }
  },
})

async function shownSaga(kit: SagaKit, id: string) {
  const saga = await getSaga(kit, id)
  if (saga !== undefined) return saga
  throw new Refused(
    'saga-unknown',
    'There is no saga with this id: it is misspelt, or it ended so long ago that it is no longer kept.',
  )
}

const limitOf = ({ limit }: Input) => Number(limit ?? itemsMax)

export const calls = {
  showMe: {
    method: 'GET',
    path: '/v1/me',
    summary: 'Who calls, and with which role',
    fields: {},
    ask: async (_kit, { by: { name, role } }) => ({ name, role }),
  },
  showBacklog: {
    method: 'GET',
    path: '/v1/backlog',
    summary: 'What waits: the outbox, the inbox, dead letters, and sagas that are not at their end',
    fields: {},
    ask: async (kit) => {
      const { partitionAgesMs, ...backlog } = await sagaBacklog(kit, queryDeadlineMs)
      return { ...backlog, partitionAgesMs: Object.fromEntries(partitionAgesMs) }
    },
  },
  listSagas: {
    method: 'GET',
    path: '/v1/sagas',
    summary: `Sagas in the order of their ids, at most ${itemsMax}; after is the last id of the page before`,
    fields: {
      status: {
        schema: { type: 'string', enum: sagaStatuses },
        accepts: (value) => sagaStatuses.includes(value as SagaStatus),
      },
      name: text(1, 1_000),
      after: text(1, 1_000),
      limit: count(itemsMax),
    },
    ask: async (kit, { input }) => {
      const { status, name, after } = input as { status?: SagaStatus; name?: string; after?: string }
      const statuses = status && [status]
      return { sagas: await listSagas(kit, { limit: limitOf(input), statuses, name, after }) }
    },
  },
  showSaga: {
    method: 'GET',
    path: '/v1/sagas/{id}',
    summary: 'One saga: its state, its steps, attempts, last error, next attempt and trace',
    fields: {},
    ask: (kit, { id }) => shownSaga(kit, id),
  },
  retrySaga: decision(
    '/v1/sagas/{id}/retry',
    'Let a parked saga go on where it stood; messages that ran its steps and died come again',
    reasoned,
    ({ id }) => ({ act: 'retry', sagaId: id }),
  ),
  compensateSaga: decision(
    '/v1/sagas/{id}/compensate',
    'Compensate a saga that is running or parked; one that messages drive also when it is done here',
    reasoned,
    ({ id }) => ({ act: 'compensate', sagaId: id }),
  ),
  listDeadLetters: {
    method: 'GET',
    path: '/v1/dead-letters',
    summary: `Messages that were given up, oldest first, at most ${itemsMax}`,
    fields: { limit: count(itemsMax) },
    ask: async (kit, { input }) => {
      const letters = await listDeadLetters(kit, { limit: limitOf(input) })
      return { dead_letters: letters.map(({ headers: _, properties: __, ...letter }) => letter) }
    },
  },
  replayDeadLetters: decision(
    '/v1/dead-letters/replay',
    'Send messages on their way again',
    ofMessages,
    ({ input }) => ({ act: 'replay', ids: input.ids as number[] }),
  ),
  discardDeadLetters: decision(
    '/v1/dead-letters/discard',
    'Give messages up for good; what waits behind them goes on',
    ofMessages,
    ({ input }) => ({ act: 'discard', ids: input.ids as number[] }),
  ),
  listDecisions: {
    method: 'GET',
    path: '/v1/decisions',
    summary: 'Who decided what, and why, newest first; before is the last id of the page before',
    fields: { limit: count(itemsMax), before: count(Number.MAX_SAFE_INTEGER) },
    ask: async (kit, { input }) => ({
      decisions: await listDecisions(kit, {
        limit: limitOf(input),
        ...(input.before === undefined ? {} : { before: Number(input.before) }),
      }),
    }),
  },
} as const satisfies Record<string, Call>

/**
 * The answer of a call to somebody of this role.
 *
 * @throws Refused
 */
export async function answerOf(call: Call, kit: SagaKit, asked: Asked): Promise<unknown> {
  if (call.method === 'POST' && asked.by.role !== 'operate')
    throw new Refused(
      'role-required',
      `${asked.by.name} has the role ${asked.by.role}, and this call takes the role operate. Nothing was decided.`,
    )
  requireFields(call.fields, asked.input)
  const answer = await call.ask(kit, asked)
  return asked.by.role === 'operate' ? answer : withoutContent(answer)
}

function requireFields(fields: Fields, input: Input): void {
  for (const [name, { accepts, required, schema }] of Object.entries(fields))
    if (input[name] === undefined ? required === true : !accepts(input[name]))
      throw new Refused('request-invalid', `${name} is not accepted; accepted is ${JSON.stringify(schema)}.`)
  const unknown = Object.keys(input).find((name) => !(name in fields))
  if (unknown !== undefined)
    throw new Refused('request-invalid', `There is no ${JSON.stringify(unknown)} in this call.`)
}

/** Members that hold what users sent, at any depth that an answer has them. */
const content = new Set(['input', 'result', 'payload'])

function withoutContent(answer: unknown): unknown {
  return JSON.parse(JSON.stringify(answer, (name, value) => (content.has(name) ? undefined : value)))
}

/** The call of a request, and the id in its path. */
export function callAt(
  method: string,
  path: string,
): { readonly call: Call; readonly id: string } | undefined {
  for (const call of Object.values(calls) as readonly Call[]) {
    if (call.method !== method) continue
    const found = new RegExp(`^${call.path.replace('{id}', '([^/]+)')}$`).exec(path)
    if (found !== null) return { call, id: decoded(found[1] ?? '') }
  }
  return undefined
}

export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Refused('request-invalid', 'The id in the path is not percent-encoded text.')
  }
}

/** `GET /openapi.json`. */
export function openApi(path: string): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const [operationId, call] of Object.entries(calls) as [string, Call][])
    paths[call.path] = { ...paths[call.path], [call.method.toLowerCase()]: operationOf(operationId, call) }
  return {
    openapi: '3.1.0',
    info: { title: 'Sagas and dead letters of the fencepost saga kit', version: '1' },
    servers: [{ url: path === '' ? '/' : path }],
    security: [{ bearer: [] }],
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    paths,
  }
}

function operationOf(operationId: string, { method, path, summary, fields }: Call): object {
  const named = Object.entries(fields).map(([name, { schema }]) => [name, schema] as const)
  const inPath = { name: 'id', in: 'path', required: true, schema: { type: 'string' } }
  const inQuery = method === 'POST' ? [] : named.map(([name, schema]) => ({ name, in: 'query', schema }))
  const schema = {
    type: 'object',
    properties: Object.fromEntries(named),
    required: Object.keys(fields).filter((name) => fields[name]?.required === true),
    additionalProperties: false,
  }
  const answer = (type: string) => ({ content: { [type]: { schema: { type: 'object' } } } })
  return {
    operationId,
    summary,
    parameters: [...(path.includes('{id}') ? [inPath] : []), ...inQuery],
    ...(method === 'GET'
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema } } } }),
    responses: {
      200: { description: 'Done.', ...answer('application/json') },
      default: { description: 'A problem document.', ...answer('application/problem+json') },
    },
  }
}
