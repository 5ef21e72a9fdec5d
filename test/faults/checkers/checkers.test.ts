// A checker that never complains proves nothing: each gets a history that it must accept and one that it must refuse.
import { describe, expect, test } from 'vitest'
import type { Call, Execution, FaultWindow, Submission } from '../history.ts'
import { checkDedupRegister } from './dedup-register.ts'
import { checkAnswers, checkNothingAfterRecorded, checkTokenOrder, countExecutions } from './executions.ts'
import { checkFencedMutex } from './fenced-mutex.ts'
import { checkAnswerTimes, checkLogs } from './surroundings.ts'

let ops = 0
function s(startMs: number, endMs: number, says: string, body = '', content = 'c', tenant = 't'): Submission {
  ops += 1
  const base = {
    f: 'submit',
    op: ops,
    sidecar: 0,
    tenant,
    key: 'k',
    content,
    startMs,
    endMs,
    healed: false,
  } as const
  if (says === 'info') return { ...base, type: 'info', reason: 'reset' }
  const status = { mismatch: 422, 'in-progress': 409 }[says] ?? 201
  return { ...base, type: 'ok', status, says, body, code: '' }
}

function c(
  f: Call['f'],
  token: number,
  startMs: number,
  endMs: number,
  status: number,
  expiresInMs = 0,
): Call {
  ops += 1
  const base = { f, op: ops, sidecar: 0, key: 'k', token, startMs, endMs, healed: false } as const
  return status === 0
    ? { ...base, type: 'info', reason: 'reset' }
    : { ...base, type: 'ok', status, code: '', expiresInMs }
}

function e(
  token: number,
  startMs: number,
  endMs: number | undefined,
  more: Partial<Execution> = {},
): Execution {
  const base = { key: 'k', tenant: 't', content: 'c', op: 0, mode: 'ok', attempt: 1, answer: `a${token}` }
  return { ...base, token, startMs, endMs, ...more }
}

describe('the dedup register', () => {
  test.each<[string, Submission[], boolean]>([
    ['one creates, the others repeat it', [s(0, 10, 'created', 'A'), s(5, 20, 'replayed', 'A')], true],
    ['two create', [s(0, 10, 'created', 'A'), s(5, 20, 'created', 'B')], false],
    ['a repetition of another answer', [s(0, 10, 'created', 'A'), s(11, 20, 'replayed', 'B')], false],
    ['a repetition without a creation', [s(0, 10, 'replayed', 'A')], false],
    ['a repetition of the request of a lost client', [s(0, 10, 'info'), s(11, 20, 'replayed', 'A')], true],
    [
      'two answers to one lost client',
      [s(0, 10, 'info'), s(11, 20, 'replayed', 'A'), s(21, 30, 'replayed', 'B')],
      false,
    ],
    ['an acknowledged completion is lost', [s(0, 10, 'created', 'A'), s(11, 20, 'created', 'B')], false],
    [
      'an unstored answer is recorded later',
      [s(0, 10, 'unstored', 'A'), s(11, 12, 'in-progress'), s(20, 30, 'replayed', 'A')],
      true,
    ],
    [
      'another answer than the unstored one is recorded',
      [s(0, 10, 'unstored', 'A'), s(20, 30, 'replayed', 'B')],
      false,
    ],
    ['a repetition before the creation began', [s(10, 20, 'created', 'A'), s(0, 9, 'replayed', 'A')], false],
    ['other content is refused', [s(0, 10, 'created', 'A'), s(11, 20, 'mismatch', '', 'd')], true],
    ['the same content is refused', [s(0, 10, 'created', 'A'), s(11, 20, 'mismatch')], false],
    ['other content is shown the answer', [s(0, 10, 'created', 'A'), s(11, 20, 'replayed', 'A', 'd')], false],
  ])('%s', (_, history, fine) => {
    expect(checkDedupRegister(history, []).length === 0).toBe(fine)
  })

  test.each([
    ['the execution of a request that was told "in progress" is recorded by the other request', true],
    [
      'a request that was told "in progress" executed nothing, so no request created the repeated answer',
      false,
    ],
  ])('%s', (_, executed) => {
    const second = s(0, 10, 'in-progress')
    const history = [second, s(5, 20, 'replayed', 'a1')]
    const executions = executed ? [e(1, 2, 3, { op: second.op })] : []
    expect(checkDedupRegister(history, executions).length === 0).toBe(executed)
  })
})

describe('the fenced mutex', () => {
  test.each<[string, Call[], boolean]>([
    [
      'one after the other',
      [c('reserve', 1, 0, 10, 201, 100), c('release', 1, 11, 20, 200), c('reserve', 2, 21, 30, 201, 100)],
      true,
    ],
    ['two hold', [c('reserve', 1, 0, 10, 201, 100), c('reserve', 2, 20, 30, 201, 100)], false],
    ['the lease ended', [c('reserve', 1, 0, 10, 201, 100), c('reserve', 2, 90, 130, 201, 100)], true],
    [
      'a smaller token',
      [c('reserve', 2, 0, 10, 201, 100), c('release', 2, 11, 20, 200), c('reserve', 1, 21, 30, 201, 100)],
      false,
    ],
    [
      'a token again',
      [c('reserve', 2, 0, 10, 201, 50), c('release', 2, 11, 20, 200), c('reserve', 2, 121, 130, 201, 50)],
      false,
    ],
    [
      'an old holder extends',
      [c('reserve', 1, 0, 10, 201, 50), c('reserve', 2, 60, 70, 201, 50), c('extend', 1, 80, 90, 200, 50)],
      false,
    ],
    [
      'an old holder releases',
      [c('reserve', 1, 0, 10, 201, 50), c('reserve', 2, 60, 70, 201, 50), c('release', 1, 80, 90, 200)],
      false,
    ],
    [
      'an old holder completes',
      [c('reserve', 1, 0, 10, 201, 50), c('reserve', 2, 60, 70, 201, 50), c('complete', 1, 80, 90, 200)],
      false,
    ],
    [
      'completed twice by its holder',
      [c('reserve', 1, 0, 10, 201, 50), c('complete', 1, 12, 20, 200), c('complete', 1, 21, 30, 200)],
      true,
    ],
    [
      'reserved after it was completed',
      [c('reserve', 1, 0, 10, 201, 50), c('complete', 1, 12, 20, 200), c('reserve', 2, 99, 120, 201, 50)],
      false,
    ],
    [
      'a release that was lost may have happened',
      [c('reserve', 1, 0, 10, 201, 500), c('release', 1, 11, 20, 0), c('reserve', 2, 30, 40, 201, 50)],
      true,
    ],
  ])('%s', (_, history, fine) => {
    expect(checkFencedMutex(history).length === 0).toBe(fine)
  })
})

describe('executions', () => {
  const F23: FaultWindow = { id: 'F23', what: 'paused', fromMs: 5, untilMs: 40, bites: 1 }
  test.each<[string, Execution[], string]>([
    ['one', [e(1, 0, 10)], ''],
    ['a second one in parallel', [e(1, 0, 10), e(2, 5, 15)], 'interval-overlap'],
    ['a second one afterwards', [e(1, 0, 4), e(2, 50, 60)], 'counting'],
    ['a second one with a cause, and attempt 1', [e(1, 0, 10), e(2, 30, 60)], 'counting'],
    ['a second one with a cause, and attempt 2', [e(1, 0, 10), e(2, 30, 60, { attempt: 2 })], ''],
    ['attempt 2 without a cause', [e(1, 60, 64), e(2, 90, 99, { attempt: 2 })], 'counting'],
    ['one after an answer that frees the key', [e(1, 0, 4, { mode: 'status:500' }), e(2, 50, 60)], ''],
    ['one after a crash', [e(1, 0, undefined, { mode: 'crash-after' }), e(2, 50, 60, { attempt: 2 })], ''],
  ])('%s', (_, executions, by) => {
    const { violations } = countExecutions(executions, [F23], new Set(['F23']), 3_000)
    expect(violations.map(({ checker }) => checker).join()).toBe(by)
  })

  test('tokens grow in the order of their requests, not of their arrival', () => {
    const asked = (op: number, startMs: number): Submission => ({ ...s(startMs, startMs + 1, 'info'), op })
    const first = e(5, 10, 20, { op: 1 })
    expect(checkTokenOrder([first, e(4, 50, 60, { op: 2 })], [asked(1, 0), asked(2, 30)])).toHaveLength(1)
    expect(checkTokenOrder([first, e(4, 50, 60, { op: 2 })], [asked(1, 0), asked(2, 5)])).toHaveLength(0)
    expect(checkTokenOrder([first, e(5, 50, 60, { op: 2 })], [asked(1, 0), asked(2, 5)])).toHaveLength(1)
  })

  test('an execution after its answer was shown as recorded is a violation', () => {
    const shown = s(0, 10, 'created', 'a1')
    expect(checkNothingAfterRecorded([e(1, 2, 4)], [shown])).toHaveLength(0)
    expect(checkNothingAfterRecorded([e(1, 2, 4), e(2, 11, 12)], [shown])).toHaveLength(1)
  })

  test('an answer is shown whole, and to its own request only', () => {
    expect(checkAnswers([e(1, 0, 1)], [s(0, 10, 'created', 'a1')])).toHaveLength(0)
    expect(checkAnswers([e(1, 0, 1)], [s(0, 10, 'replayed', 'a')])[0]?.checker).toBe('whole-answers')
    expect(checkAnswers([e(1, 0, 1)], [s(0, 10, 'replayed', 'a1', 'c', 'other')])[0]?.checker).toBe('scope')
  })
})

test('late answers, secrets in logs and unexpected failures are found', () => {
  expect(checkAnswerTimes([s(0, 10, 'info')], 9)).toHaveLength(1)
  expect(checkLogs(['{"level":30}', 'key-1'], ['key-1'])).toHaveLength(1)
  expect(checkLogs(['UnhandledPromiseRejection'], [])).toHaveLength(1)
})
