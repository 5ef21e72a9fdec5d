/**
 * THE table of calls of the operator API: routing, roles, validation and the OpenAPI document are read from it. The name
 * of a call is its `operationId` there.
 */

import type { TSchema } from 'typebox'
import type { OperatorRole } from '../../core/operator/operator-tokens.ts'
import { operationOf, problemResponses } from '../message/openapi.ts'
import type { ProblemCode } from '../message/problems.ts'
import { EntriesQuery, FindBody } from './find-schemas.ts'
import { Entries, Me, Overview, SlowCommands } from './overview-schemas.ts'
import {
  CompleteBody,
  DeadLetterBody,
  DeadLetterDecided,
  DecideBody,
  Decided,
  DecisionsQuery,
  Found,
  ListQuery,
  RecentDecisions,
  Shown,
} from './schemas.ts'

export type OperatorCall = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly summary: string
  readonly role: OperatorRole
  readonly body?: TSchema
  readonly query?: TSchema
  readonly success: TSchema
  /** Answered again and again, as server-sent events, each with what `success` describes; a comment says that nothing changed. */
  readonly streamed?: true
  /** Besides those of every call. */
  readonly problems: readonly ProblemCode[]
}

const PROBLEMS_OF_ALL_OPERATOR_CALLS: readonly ProblemCode[] = [
  'malformed-request',
  'token-required',
  'role-required',
  'call-unknown',
  'request-invalid',
  'request-timeout',
  'headers-too-large',
  'internal-error',
  'quorum-unavailable',
  'too-many-requests-in-flight',
  'draining',
]

const WITH_BODY: readonly ProblemCode[] = ['body-too-large', 'media-type-unsupported']
const DECIDING: readonly ProblemCode[] = [
  ...WITH_BODY,
  'decision-refused',
  'promise-at-stake',
  'record-moved-on',
  'decision-under-way',
]

const get = (
  path: string,
  summary: string,
  success: TSchema,
  more: Partial<OperatorCall> = {},
): OperatorCall => ({
  method: 'GET',
  path: `/v1/operator/${path}`,
  summary,
  role: 'view',
  success,
  problems: [],
  ...more,
})
const streamed = (path: string, summary: string, success: TSchema) =>
  get(path, summary, success, { streamed: true })
const decision = (name: string, summary: string, body: TSchema = DecideBody) =>
  get(`records/{record}/${name}`, summary, Decided, {
    method: 'POST',
    role: 'operate',
    body,
    problems: DECIDING,
  })
const letter = (act: string, summary: string) =>
  get(`dead-letters/{id}/${act}`, summary, DeadLetterDecided, {
    method: 'POST',
    role: 'operate',
    body: DeadLetterBody,
    problems: [...WITH_BODY, 'dead-letter-unknown'],
  })

export const OPERATOR_CALLS = {
  showOperator: get('me', 'Whose token it is, and its role', Me),
  showOverview: get(
    'overview',
    'What is going on now: nodes, requests of this sidecar, and what is wrong',
    Overview,
  ),
  watchOverview: streamed(
    'overview/events',
    'The overview once a second, as server-sent events, at most 8 readers and 15 minutes each',
    Overview,
  ),
  listSlowCommands: get(
    'slow-commands',
    'The newest slow commands of all nodes, read from their slow logs now',
    SlowCommands,
  ),
  findRecords: get('records/find', 'Find records by what support has of them', Found, {
    method: 'POST',
    body: FindBody,
    problems: [
      ...WITH_BODY,
      'record-unknown',
      'scope-invalid',
      'key-invalid',
      'key-missing',
      'digest-mismatch',
      'token-invalid',
      'reservation-id-invalid',
      'reservation-lost',
    ],
  }),
  listRecords: get(
    'records',
    'Live claims, or claims that ended without an outcome, a page at a time',
    Found,
    {
      query: ListQuery,
    },
  ),
  showRecord: get(
    'records/{record}',
    'One record: the verdict of the quorum, every node, its history, what can be decided',
    Shown,
  ),
  watchRecord: streamed(
    'records/{record}/events',
    'One record while it is shown, as server-sent events: looked at every 2 seconds, and sent where it changed, or while a claim is live; at most 8 readers and 15 minutes each',
    Shown,
  ),
  endClaim: decision('end', 'End a live claim: its holder is fenced, the next attempt is a further one'),
  completeRecord: decision('complete', 'Complete by hand with a given answer', CompleteBody),
  forgetRecord: decision('forget', 'Forget it: the next request is a first attempt'),
  askApplication: decision('ask', 'Ask the application now what became of an expired attempt'),
  listDeadLetters: get(
    'dead-letters',
    'Questions that wait for a decision, oldest first, a page at a time from the newest on',
    Entries,
    { query: EntriesQuery },
  ),
  requeueDeadLetter: letter('requeue', 'It was NOT executed: the next request is a first attempt again'),
  discardDeadLetter: letter('discard', 'Drop the question; with `completed` duplicates get 410 from then on'),
  listDecisions: get(
    'decisions',
    'The newest decisions of this sidecar, newest first: bounded, and sampled while there are many',
    RecentDecisions,
    { query: DecisionsQuery },
  ),
  listAudit: get(
    'audit',
    'The audit log: who decided what and why, lost renewals, fenced completions; oldest first, a page at a time from the newest on',
    Entries,
    { query: EntriesQuery },
  ),
} satisfies Record<string, OperatorCall>

export type OperatorCallName = keyof typeof OPERATOR_CALLS

/** The part of `/openapi.json` about the operator API, made from the table that serves it. */
export function operatorPaths(): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [name, call] of Object.entries(OPERATOR_CALLS) as [string, OperatorCall][])
    paths[call.path] = { ...paths[call.path], [call.method.toLowerCase()]: operation(name, call) }
  return paths
}

function operation(name: string, call: OperatorCall) {
  const { path, role, success, streamed, problems } = call
  const type = streamed === true ? 'text/event-stream' : 'application/json'
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => ({
    name: parameter,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const access = {
    description: `On the operator listener (FENCEPOST_OPERATOR_LISTEN), with a token of the role \`${role}\`.`,
    security: [{ bearer: [] }],
  }
  return {
    ...operationOf(name, call, inPath, access),
    responses: {
      200: { description: 'Done.', content: { [type]: { schema: success } } },
      ...problemResponses([...PROBLEMS_OF_ALL_OPERATOR_CALLS, ...problems]),
    },
  }
}
