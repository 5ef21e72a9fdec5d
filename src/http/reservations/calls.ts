/**
 * THE table of calls of the reservation API: routing, validation and the OpenAPI document are read from it. The name of a call
 * is its `operationId` there.
 */

import { printDuration } from '../../core/quantity.ts'
import { operationOf, PROBLEM_SCHEMA, problemResponses } from '../message/openapi.ts'
import type { ProblemCode } from '../message/problems.ts'
import {
  CompleteBody,
  Ended,
  ExtendBody,
  Extended,
  FingerprintBody,
  Fingerprinted,
  HeartbeatLine,
  IntentStatus,
  ReleaseBody,
  ReservationStatus,
  ReserveBody,
  Reserved,
  type Schema,
  ValueQuery,
} from './schemas.ts'

export type Call = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly summary: string
  readonly body?: Schema
  readonly query?: Schema
  readonly success: { readonly status: 200 | 201; readonly schema: Schema; readonly lines?: Schema }
  /** Besides those of every call. */
  readonly problems: readonly ProblemCode[]
}

/** The problems of every call. */
export const PROBLEMS_OF_ALL: readonly ProblemCode[] = [
  'malformed-request',
  'token-required',
  'page-refused',
  'call-unknown',
  'request-timeout',
  'headers-too-large',
  'internal-error',
  'quorum-unavailable',
  'too-many-requests-in-flight',
]

const WITH_BODY: readonly ProblemCode[] = ['request-invalid', 'body-too-large', 'media-type-unsupported']
const WITH_ID: readonly ProblemCode[] = ['reservation-id-invalid', 'reservation-lost']

export const CALLS = {
  reserve: {
    method: 'POST',
    path: '/v1/reservations',
    summary: 'Reserve one intent, several at once, or what a request means',
    body: ReserveBody,
    success: { status: 201, schema: Reserved, lines: HeartbeatLine },
    problems: [
      ...WITH_BODY,
      'scope-invalid',
      'token-invalid',
      'token-unverifiable',
      'key-invalid',
      'key-missing',
      'digest-mismatch',
      'reservation-conflict',
      'reservation-duplicate',
      'entity-busy',
      'outcome-undecided',
      'key-reused',
      'too-many-waiters',
      'session-reservations',
      'tenant-in-flight',
      'tenant-new-records',
      'record-damaged',
      'draining',
    ],
  },
  extend: {
    method: 'POST',
    path: '/v1/reservations/{reservation_id}/extend',
    summary: 'Hold it for longer; succeeding proves that nobody else had it in between',
    body: ExtendBody,
    success: { status: 200, schema: Extended },
    problems: [...WITH_BODY, ...WITH_ID, 'lease-lost'],
  },
  complete: {
    method: 'POST',
    path: '/v1/reservations/{reservation_id}/complete',
    summary: 'Record the outcome; duplicates are told it from then on',
    body: CompleteBody,
    success: { status: 200, schema: Ended },
    problems: [...WITH_BODY, ...WITH_ID, 'fenced', 'reservation-duplicate', 'completion-undecided'],
  },
  release: {
    method: 'POST',
    path: '/v1/reservations/{reservation_id}/release',
    summary: 'Give it back without an outcome: nothing was done',
    body: ReleaseBody,
    success: { status: 200, schema: Ended },
    problems: [...WITH_BODY, ...WITH_ID, 'fenced'],
  },
  standingOfValue: {
    method: 'GET',
    path: '/v1/reservations',
    summary: 'What stands for an intent',
    query: ValueQuery,
    success: { status: 200, schema: IntentStatus },
    problems: ['request-invalid', 'scope-invalid', 'record-damaged'],
  },
  standingOfReservation: {
    method: 'GET',
    path: '/v1/reservations/{reservation_id}',
    summary: 'What stands for a reservation',
    success: { status: 200, schema: ReservationStatus },
    problems: [...WITH_ID, 'record-damaged'],
  },
  fingerprint: {
    method: 'POST',
    path: '/v1/fingerprint',
    summary: 'The fingerprint of a request and what it is made of, for debugging; nothing is claimed',
    body: FingerprintBody,
    success: { status: 200, schema: Fingerprinted },
    problems: [...WITH_BODY, 'digest-mismatch', 'scope-invalid', 'token-invalid', 'token-unverifiable'],
  },
} as const satisfies Record<string, Call>

export type CallName = keyof typeof CALLS

export const CALL_NAMES = Object.keys(CALLS) as readonly CallName[]

type Described = {
  readonly version: string
  readonly maxLeaseMs: number
  readonly maxWaitMs: number
  readonly retentionMs: number
  readonly apiTokens: (() => readonly string[]) | undefined
}

/**
 * `/openapi.json`: its schemas are JSON Schema (draft 2020-12), which is what TypeBox writes. Source: OpenAPI Specification 3.1.1.
 *
 * @param further paths besides those of `CALLS`
 */
export function openApiDocument(
  options: Described,
  further: Readonly<Record<string, Record<string, unknown>>> = {},
): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = { ...further }
  for (const name of CALL_NAMES) {
    const call: Call = CALLS[name]
    paths[call.path] = { ...paths[call.path], [call.method.toLowerCase()]: operation(name, call) }
  }
  const secured = options.apiTokens !== undefined
  return {
    openapi: '3.1.1',
    info: {
      title: 'fencepost: reservations',
      version: options.version,
      description: `Code that checks before it works asks here: reserve, work, complete or release. Leases are at most ${printDuration(options.maxLeaseMs)}, waits ${printDuration(options.maxWaitMs)}, retentions ${printDuration(options.retentionMs)}.`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    // An empty list states that none is needed; without it a reader can't tell that from an omission.
    security: secured ? [{ bearer: [] }] : [],
    paths,
    components: {
      schemas: { Problem: PROBLEM_SCHEMA },
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function operation(name: string, call: Call): Record<string, unknown> {
  const { success } = call
  return {
    ...operationOf(name, call, call.path.includes('{reservation_id}') ? [ID_PARAMETER] : []),
    responses: {
      [success.status]: {
        description: 'Done.',
        content: {
          'application/json': { schema: success.schema },
          ...(success.lines === undefined ? {} : { 'application/x-ndjson': { schema: success.lines } }),
        },
      },
      ...problemResponses([...PROBLEMS_OF_ALL, ...call.problems]),
    },
  }
}

const ID_PARAMETER = {
  name: 'reservation_id',
  in: 'path',
  required: true,
  schema: { type: 'string', pattern: '^r1_[A-Za-z0-9_-]+$', maxLength: 4_096 },
}
