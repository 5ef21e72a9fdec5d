/** The part of `/openapi.json` about the operator API, made from the table that serves it. */

import { problemResponses, queryParameters } from '../message/openapi.ts'
import { OPERATOR_CALLS, type OperatorCall, PROBLEMS_OF_ALL_OPERATOR_CALLS } from './calls.ts'

export function operatorPaths(): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [name, call] of Object.entries(OPERATOR_CALLS) as [string, OperatorCall][])
    paths[call.path] = { ...paths[call.path], [call.method.toLowerCase()]: operation(name, call) }
  return paths
}

function operation(
  name: string,
  { path, summary, role, body, query, success, streamed, problems }: OperatorCall,
) {
  const type = streamed === true ? 'text/event-stream' : 'application/json'
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => ({
      name: parameter,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...(query === undefined ? [] : queryParameters(query)),
  ]
  return {
    operationId: name,
    summary,
    description: `On the operator listener (FENCEPOST_OPERATOR_LISTEN), with a token of the role \`${role}\`.`,
    security: [{ bearer: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema: body } } } }),
    responses: {
      200: { description: 'Done.', content: { [type]: { schema: success } } },
      ...problemResponses([...PROBLEMS_OF_ALL_OPERATOR_CALLS, ...problems]),
    },
  }
}
