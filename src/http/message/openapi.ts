/**
 * What the OpenAPI descriptions of all listeners share: problem documents with their examples, parameters of a query.
 *
 * Source: OpenAPI Specification 3.1.1; RFC 9457.
 */

import type { TSchema } from 'typebox'
import { PROBLEM_TYPE_BASE, PROBLEMS, type ProblemCode } from './problems.ts'

/** The members of a schema of a query, each a parameter. */
function queryParameters(query: TSchema): readonly Record<string, unknown>[] {
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

/** What an operation of any listener has. @param inPath its parameters there */
export function operationOf(
  name: string,
  call: { readonly summary: string; readonly body?: TSchema; readonly query?: TSchema },
  inPath: readonly object[],
  more: object = {},
): Record<string, unknown> {
  const { summary, body, query } = call
  const parameters = [...inPath, ...(query === undefined ? [] : queryParameters(query))]
  return {
    operationId: name,
    summary,
    ...more,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema: body } } } }),
  }
}

/** One response for each status; its description and examples name its possible codes. */
export function problemResponses(codes: readonly ProblemCode[]): Record<string, unknown> {
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
  'reservation-lost': { reservation_status: 'LEASE_LOST' },
  fenced: { reservation_status: 'FENCED' },
  'completion-undecided': { reservation_status: 'UNDECIDED' },
  'entity-busy': { entity: 'account-42' },
  'promise-at-stake': { requires: 'live' },
  'decision-refused': { state: 'completed' },
  'record-moved-on': { state: 'completed' },
}

/** Of every problem document: `#/components/schemas/Problem`. */
export const PROBLEM_SCHEMA = {
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
    key_hash: {
      type: 'string',
      description: 'Of the record, as in log lines: with it an operator finds the record.',
    },
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
