/**
 * `/openapi.json`: the OpenAPI 3.1 document of the reservation API, made from the tables that serve it.
 *
 * Source: OpenAPI Specification 3.1.1. Its schemas are JSON Schema (draft 2020-12), which is what TypeBox writes.
 */

import { printDuration } from '../../core/quantity.ts'
import { PROBLEM_TYPE_BASE, PROBLEMS, type ProblemCode } from '../message/problems.ts'
import { CALL_NAMES, CALLS, type Call, PROBLEMS_OF_ALL } from './calls.ts'
import type { Schema } from './schemas.ts'

export type Described = {
  readonly version: string
  readonly maxLeaseMs: number
  readonly maxWaitMs: number
  readonly retentionMs: number
  readonly apiTokens: (() => readonly string[]) | undefined
}

/** @param further paths besides those of `calls.ts` */
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
    ...(secured ? { security: [{ bearer: [] }] } : {}),
    paths,
    components: {
      schemas: { Problem: PROBLEM_SCHEMA },
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function operation(name: string, call: Call): Record<string, unknown> {
  const { body, query, success } = call
  const parameters = [
    ...(call.path.includes('{reservation_id}') ? [ID_PARAMETER] : []),
    ...(query === undefined ? [] : queryParameters(query)),
  ]
  return {
    operationId: name,
    summary: call.summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema: body } } } }),
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

function queryParameters(query: Schema): readonly Record<string, unknown>[] {
  const { properties = {}, required = [] } = query as {
    properties?: Record<string, unknown>
    required?: readonly string[]
  }
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
}

/** One response for each status; its description and examples name its possible codes. */
function problemResponses(codes: readonly ProblemCode[]): Record<string, unknown> {
  const byStatus = Map.groupBy(new Set(codes), (code) => PROBLEMS[code].status)
  return Object.fromEntries(
    [...byStatus].map(([status, these]) => [
      String(status),
      {
        description: these.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join(' '),
        ...(these.some((code) => PROBLEMS[code].retryable)
          ? { headers: { 'Retry-After': { description: 'Whole seconds.', schema: { type: 'integer' } } } }
          : {}),
        content: {
          'application/problem+json': {
            schema: { $ref: '#/components/schemas/Problem' },
            examples: Object.fromEntries(these.map((code) => [code, { value: example(code) }])),
          },
        },
      },
    ]),
  )
}

function example(code: ProblemCode): Record<string, unknown> {
  const { status, title, retryable } = PROBLEMS[code]
  return {
    type: PROBLEM_TYPE_BASE + code,
    title,
    status,
    detail: `${title}.`,
    instance: 'urn:uuid:0bb2ee9c-1a0e-4b0e-8ee6-a0d4a7a1f1a3',
    code,
    retryable,
    ...(retryable ? { retry_after: 1 } : {}),
    ...EXAMPLE_MEMBERS[code],
  }
}

const EXAMPLE_MEMBERS: Partial<Record<ProblemCode, Record<string, unknown>>> = {
  'reservation-conflict': { reservation_status: 'CONFLICT', value: 'payment:order-4711' },
  'reservation-duplicate': {
    reservation_status: 'DUPLICATE',
    value: 'payment:order-4711',
    fencing_token: 1_786_406_400_123_904,
    attempt: 1,
    completed_at: '2026-11-20T12:00:03.000Z',
    result: { payment_id: 'p-1' },
  },
  'lease-lost': { reservation_status: 'LEASE_LOST' },
  fenced: { reservation_status: 'FENCED' },
  'completion-undecided': { reservation_status: 'UNDECIDED' },
  'entity-busy': { entity: 'account-42' },
}

const PROBLEM_SCHEMA = {
  type: 'object',
  description: 'RFC 9457. Further members depend on the code.',
  required: ['type', 'title', 'status', 'detail', 'instance', 'code', 'retryable'],
  properties: {
    type: { type: 'string', format: 'uri' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    instance: { type: 'string' },
    code: { type: 'string' },
    retryable: { type: 'boolean' },
    retry_after: { type: 'integer', description: 'Whole seconds, as in Retry-After.' },
    reservation_status: {
      type: 'string',
      enum: ['CONFLICT', 'DUPLICATE', 'LEASE_LOST', 'FENCED', 'UNDECIDED'],
    },
    value: { type: 'string', description: 'The intent in the way.' },
    result: { description: 'What the caller that completed it reported.' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        properties: { path: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
}
