/** What `/openapi.json` says of the operator API is what it answers; its examples are true. */

import { Compile } from 'typebox/compile'
import { expect, test } from 'vitest'
import { PROBLEM_CODES } from '../../../src/http/message/problems.ts'
import {
  OPERATOR_CALLS,
  type OperatorCall,
  type OperatorCallName,
  operatorPaths,
} from '../../../src/http/operator/calls.ts'
import { duringTests } from '../../support/during-tests.ts'
import { startOperatorApi } from '../../support/operator-api.ts'

const api = duringTests(() => startOperatorApi({ ask: async () => 'unknown' }))

test('answers match their documented schemas', async () => {
  const { operator } = api
  const [live, expired, asked] = [
    (await api.claim('live')).key,
    await api.expire('expired'),
    await api.expire('asked'),
  ]
  const completed = await api.complete('completed')
  const id = 'orphan:x'
  await api.auditLog.append('dead-letters', { id, kind: 'orphan', atWallMs: 1, recordKey: live, fields: {} })
  const answers: readonly (readonly [OperatorCallName, { status: number; body: unknown }])[] = [
    ['findRecords', await operator.find({ reference: completed })],
    ['listRecords', await operator.call('/records?state=live')],
    ['showRecord', await operator.call(`/records/${encodeURIComponent(live)}`)],
    ['showRecord', await operator.call(`/records/${encodeURIComponent(completed)}`)],
    ['endClaim', await operator.decide('end', live, { dry_run: true })],
    ['endClaim', await operator.decide('end', live, { even_though: 'live' })],
    ['completeRecord', await operator.decide('complete', expired, { not_kept: true })],
    ['askApplication', await operator.decide('ask', asked)],
    ['forgetRecord', await operator.decide('forget', completed, { even_though: 'completed' })],
    ['listDeadLetters', await operator.call('/dead-letters?limit=5')],
    ['discardDeadLetter', await operator.call(`/dead-letters/${id}/discard`, { reason: 'ticket' })],
    ['listDecisions', await operator.call('/decisions')],
    ['showOperator', await operator.call('/me')],
    ['showOverview', await operator.call('/overview')],
    ['listSlowCommands', await operator.call('/slow-commands')],
    ['listAudit', await operator.call('/audit?limit=5')],
  ]
  for (const [name, { status, body }] of answers)
    expect([name, status, Compile(OPERATOR_CALLS[name].success).Errors(body)]).toEqual([name, 200, []])
  const answered = new Set<string>(answers.map(([name]) => name))
  // The streams send what `showOverview` and `showRecord` answer (event-streams.test.ts); a requeue is decided as a discard is.
  expect(Object.keys(OPERATOR_CALLS).filter((name) => !answered.has(name))).toEqual([
    'watchOverview',
    'watchRecord',
    'requeueDeadLetter',
  ])
})

test('every call is described, with its role, and with problems that there are', () => {
  const paths = operatorPaths()
  for (const [name, call] of Object.entries(OPERATOR_CALLS) as [string, OperatorCall][]) {
    const operation = paths[call.path]?.[call.method.toLowerCase()] as {
      operationId: string
      description: string
    }
    expect(operation.operationId).toBe(name)
    expect(operation.description).toContain(`\`${call.role}\``)
    expect(call.problems.filter((code) => !PROBLEM_CODES.includes(code))).toEqual([])
    for (const schema of [call.body, call.query])
      for (const example of (schema as { examples?: readonly unknown[] } | undefined)?.examples ?? [])
        expect([name, example, Compile(schema!).Errors(example)]).toEqual([name, example, []])
  }
})
