/**
 * `/openapi.json`: the OpenAPI 3.1 document of the reservation API, made from the tables that serve it.
 *
 * Source: OpenAPI Specification 3.1.1. Its schemas are JSON Schema (draft 2020-12), which is what TypeBox writes.
 */

import { printDuration } from '../../core/quantity.ts'
import { PROBLEM_SCHEMA, problemResponses, queryParameters } from '../message/openapi.ts'
import { CALL_NAMES, CALLS, type Call, PROBLEMS_OF_ALL } from './calls.ts'

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
