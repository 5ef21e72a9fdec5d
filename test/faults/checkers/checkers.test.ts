// A checker that never complains proves nothing: each gets a history that it must accept and one that it must refuse.
import { describe, expect, test } from 'vitest'
import {
  type Call,
  type Decision,
  type Execution,
  type FaultWindow,
  NOT_KEPT,
  type Operation,
  type Said,
  type Submission,
} from '../history.ts'
import { decidedKinds, notDecided } from '../judge.ts'
import { checkVerdicts } from './decisions.ts'
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
  const status = { mismatch: 422, 'in-progress': 409, gone: 410 }[says] ?? 201
  const code = says === 'gone' ? 'response-not-stored' : ''
  return { ...base, type: 'ok', status, says, body, code }
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

/** A decision of an operator about the request or the value; `lost`: without an answer. */
function d(
  act: 'end' | 'complete' | 'forget' | 'ask' | 'requeue' | 'discard',
  was: Decision['was'],
  [startMs, endMs]: readonly [number, number],
  {
    token = 1,
    effect = 'done',
    said,
    verdict = said,
    result = act === 'complete' ? 'H' : undefined,
  }: {
    token?: number
    effect?: 'done' | 'nothing' | 'unknown' | 'lost'
    said?: Said
    verdict?: string | undefined
    result?: string | undefined
  } = {},
): Decision {
  ops += 1
  const base = {
    ...({ f: `operator-${act}`, op: ops, sidecar: 0, tenant: 't', key: 'k', token, was } as const),
    ...(result === undefined ? {} : { result }),
    ...(said === undefined ? {} : { said }),
    ...{ startMs, endMs, healed: false },
  }
  const of = about
  if (effect === 'lost') return { ...base, of, type: 'info', reason: 'reset' }
  const told = verdict === undefined ? {} : { verdict }
  return { ...base, ...told, of, type: 'ok', status: 200, code: '', effect }
}

let about: Decision['of'] = 'request'

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

  const broken = () => s(0, 10, 'indeterminate')
  const notKept = (startMs: number): Submission => s(startMs, startMs + 5, 'gone')
  const discarded = (effect: 'done' | 'unknown' = 'done') =>
    d('discard', 'expired', [11, 20], { effect, result: NOT_KEPT })
  const asked = (said: Said, effect: 'done' | 'unknown' | 'nothing' = 'done') =>
    d('ask', 'expired', [11, 20], { effect, said, ...(said === 'completed' ? { result: 'A' } : {}) })
  test.each<[string, () => Operation[], boolean]>([
    ['discarded as executed: duplicates get 410', () => [broken(), discarded(), notKept(21)], true],
    ['… and one is executed', () => [broken(), discarded(), s(21, 30, 'created', 'B')], false],
    ['… and one gets an answer', () => [broken(), discarded(), s(21, 30, 'replayed', 'A')], false],
    [
      'perhaps discarded: executed, and then 410',
      () => [broken(), discarded('unknown'), s(21, 30, 'created', 'B'), notKept(31)],
      false,
    ],
    ['perhaps discarded: executed', () => [broken(), discarded('unknown'), s(21, 30, 'created', 'B')], true],
    [
      'nothing was discarded, and 410 is shown',
      () => [
        s(0, 10, 'created', 'A'),
        d('discard', 'expired', [11, 20], { effect: 'nothing', result: NOT_KEPT }),
        notKept(31),
      ],
      false,
    ],
    [
      'the application sends its answer',
      () => [broken(), asked('completed'), s(21, 30, 'replayed', 'A')],
      true,
    ],
    ['… and another is shown', () => [broken(), asked('completed'), s(21, 30, 'replayed', 'B')], false],
    ['… and it is executed again', () => [broken(), asked('completed'), s(21, 30, 'created', 'B')], false],
    [
      '… which the sweeper may record, where the operator was not told of it',
      () => [broken(), asked('completed', 'unknown'), s(21, 30, 'replayed', 'A')],
      true,
    ],
    [
      'it says that it was not executed',
      () => [broken(), asked('released'), s(21, 30, 'created', 'B')],
      true,
    ],
    [
      'it says so of what is recorded',
      () => [s(0, 10, 'created', 'A'), asked('released'), s(21, 30, 'created', 'B')],
      false,
    ],
    [
      'it can not know, and what is recorded is lost',
      () => [s(0, 10, 'created', 'A'), asked('unknown'), s(21, 30, 'created', 'B')],
      false,
    ],
  ])('asked about, or a dead letter: %s', (_, history, fine) => {
    about = 'request'
    expect(checkDedupRegister(history(), []).length === 0).toBe(fine)
  })

  const created = () => s(0, 10, 'created', 'A')
  test.each<[string, () => Operation[], boolean]>([
    [
      'an operator has it forgotten, and it is created again',
      () => [created(), d('forget', 'completed', [11, 20]), s(21, 30, 'created', 'B')],
      true,
    ],
    [
      'a forgotten answer is shown',
      () => [created(), d('forget', 'completed', [11, 20]), s(21, 30, 'replayed', 'A')],
      false,
    ],
    [
      'it is created again although nothing was decided',
      () => [created(), d('forget', 'completed', [11, 20], { effect: 'nothing' }), s(21, 30, 'created', 'B')],
      false,
    ],
    [
      'a forgetting that was not answered: it is shown, or created again',
      () => [
        created(),
        d('forget', 'completed', [11, 20], { effect: 'lost' }),
        s(21, 30, 'replayed', 'A'),
        s(31, 40, 'created', 'B'),
      ],
      true,
    ],
    [
      'a forgetting that was not answered: the answer of before is shown after the next one',
      () => [
        created(),
        d('forget', 'completed', [11, 20], { effect: 'lost' }),
        s(21, 30, 'created', 'B'),
        s(31, 40, 'replayed', 'A'),
      ],
      false,
    ],
    [
      'an answer by hand replaces the recorded one',
      () => [created(), d('complete', 'completed', [11, 20]), s(21, 30, 'replayed', 'H')],
      true,
    ],
    [
      'a replaced answer is shown',
      () => [created(), d('complete', 'completed', [11, 20]), s(21, 30, 'replayed', 'A')],
      false,
    ],
    [
      'an answer by hand, and another one is created',
      () => [d('complete', 'expired', [0, 10]), s(21, 30, 'created', 'A')],
      false,
    ],
    [
      'an answer by hand is shown to two contents',
      () => [
        d('complete', 'expired', [0, 10]),
        s(21, 30, 'replayed', 'H'),
        s(31, 40, 'replayed', 'H', 'other'),
      ],
      false,
    ],
  ])('%s', (_, history, fine) => {
    about = 'request'
    expect(checkDedupRegister(history(), []).length === 0).toBe(fine)
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

  test.each<[string, () => Operation[], boolean]>([
    [
      'a claim that expired is discarded as executed, and it is reserved again',
      () => [
        expired(),
        d('discard', 'expired', [31, 40], { result: 'null' }),
        c('reserve', 3, 41, 50, 201, 50),
      ],
      false,
    ],
    [
      'a later claim is discarded with it, because that it was executed is true of both',
      () => [
        expired(),
        c('reserve', 3, 11, 12, 201, 5),
        d('discard', 'expired', [31, 40], { result: 'null' }),
      ],
      true,
    ],
    [
      'a later claim is requeued with it',
      () => [expired(), c('reserve', 3, 11, 12, 201, 5), d('requeue', 'expired', [31, 40])],
      false,
    ],
    [
      'a later claim is given back, so the first one stands again, and is requeued',
      () => [
        expired(),
        c('reserve', 3, 11, 12, 201, 5),
        c('release', 3, 13, 14, 200),
        d('requeue', 'expired', [10, 40]),
      ],
      true,
    ],
    [
      'a claim that expired is requeued, and the next one is the first',
      () => [expired(), d('requeue', 'expired', [31, 40]), c('reserve', 3, 41, 50, 201, 50)],
      true,
    ],
    [
      'a live claim is requeued',
      () => [c('reserve', 1, 0, 10, 201, 100), d('requeue', 'expired', [31, 40])],
      false,
    ],
  ])('of a dead letter: %s', (_, history, fine) => {
    about = 'reservation'
    expect(checkFencedMutex(history()).length === 0).toBe(fine)
  })

  const expired = () => c('reserve', 1, 0, 10, 201, 5)
  const held = () => c('reserve', 1, 0, 10, 201, 100)
  const again = (attempt: number, token = 3) => ({ ...c('reserve', token, 31, 40, 201, 50), attempt })
  test.each<[string, () => Operation[], boolean]>([
    [
      'an operator ends a claim, and the next one is a further attempt',
      () => [held(), d('end', 'live', [11, 20]), again(2)],
      true,
    ],
    ['… and is told that it is the first', () => [held(), d('end', 'live', [11, 20]), again(1)], false],
    [
      'an ended holder extends',
      () => [held(), d('end', 'live', [11, 20]), c('extend', 1, 31, 40, 200, 50)],
      false,
    ],
    [
      'a claim is ended that is not the one the operator saw',
      () => [held(), d('end', 'live', [11, 20], { token: 0 }), again(2)],
      false,
    ],
    [
      'a lease is over for an operator who did not say so',
      () => [held(), d('forget', 'expired', [11, 20]), again(1)],
      false,
    ],
    [
      'an operator has a claim forgotten, and the next one is the first',
      () => [held(), d('forget', 'live', [11, 20]), again(1)],
      true,
    ],
    [
      'an operator has it forgotten, and a smaller token is granted',
      () => [c('reserve', 5, 0, 10, 201, 100), d('forget', 'live', [11, 20], { token: 5 }), again(1)],
      false,
    ],
    [
      'an operator completes it by hand, and its holder, too',
      () => [held(), d('complete', 'live', [11, 20]), c('complete', 1, 31, 40, 200)],
      false,
    ],
    [
      'an operator completes it by hand, and it is reserved again',
      () => [held(), d('complete', 'live', [11, 20]), again(2)],
      false,
    ],
    [
      'nobody knows whether it was completed by hand, and it is reserved again',
      () => [held(), d('complete', 'live', [11, 20], { effect: 'unknown' }), again(2)],
      true,
    ],
  ])('%s', (_, history, fine) => {
    about = 'reservation'
    expect(checkFencedMutex(history()).length === 0).toBe(fine)
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
    ['one after the answer of a gateway', [e(1, 0, 4, { mode: 'status:504' }), e(2, 50, 60)], 'counting'],
    [
      'the same, as a further attempt',
      [e(1, 0, 4, { mode: 'status:504' }), e(2, 50, 60, { attempt: 2 })],
      '',
    ],
    ['one after a crash', [e(1, 0, undefined, { mode: 'crash-after' }), e(2, 50, 60, { attempt: 2 })], ''],
  ])('%s', (_, executions, by) => {
    const { violations } = countExecutions(executions, [F23], new Set(['F23']), 3_000)
    expect(violations.map(({ checker }) => checker).join()).toBe(by)
  })

  test.each<[string, () => [Execution[], Decision], string]>([
    [
      'a second one after it was forgotten',
      () => [[e(1, 0, 4), e(2, 50, 60)], d('forget', 'completed', [10, 20])],
      '',
    ],
    [
      'a second one before it was forgotten',
      () => [[e(1, 0, 4), e(2, 50, 60)], d('forget', 'completed', [70, 80])],
      'counting',
    ],
    [
      'a second one beside it, whose claim was ended',
      () => [[e(1, 0, 90), e(2, 50, 60, { attempt: 2 })], d('end', 'live', [10, 20])],
      '',
    ],
    [
      'the same, and attempt 1',
      () => [[e(1, 0, 90), e(2, 50, 60)], d('end', 'live', [10, 20])],
      'interval-overlap',
    ],
    [
      'a second one after its claim was forgotten on the way to the application',
      () => [[e(1, 30, 34), e(2, 50, 60)], d('forget', 'live', [10, 20], { token: 1 })],
      '',
    ],
    [
      'a second one after its claim was ended on the way to the application',
      () => [[e(1, 30, 34), e(2, 50, 60, { attempt: 2 })], d('end', 'live', [10, 20], { token: 1 })],
      '',
    ],
    [
      'the same, and attempt 1',
      () => [[e(1, 30, 34), e(2, 50, 60)], d('end', 'live', [10, 20], { token: 1 })],
      'counting',
    ],
    [
      'a second one after an earlier claim was forgotten',
      () => [[e(2, 30, 34), e(3, 50, 60)], d('forget', 'live', [10, 20], { token: 1 })],
      'counting',
    ],
    [
      'a second one after its letter was requeued',
      () => [[e(1, 0, 4, { mode: 'reset' }), e(2, 50, 60)], d('requeue', 'expired', [10, 20])],
      '',
    ],
    [
      'a second one after the application said that it was not executed',
      () => [[e(1, 0, 4), e(2, 50, 60)], d('ask', 'expired', [10, 20], { said: 'released' })],
      'counting',
    ],
    [
      'a second one after its letter was discarded',
      () => [[e(1, 0, 4), e(2, 50, 60)], d('discard', 'expired', [10, 20], { result: NOT_KEPT })],
      'counting',
    ],
    [
      'a second one after an answer by hand',
      () => [[e(1, 0, 4), e(2, 50, 60)], d('complete', 'completed', [10, 20])],
      'counting',
    ],
  ])('of an operator: %s', (_, history, by) => {
    about = 'request'
    const [executions, decision] = history()
    const { violations } = countExecutions(executions, [], new Set(), 3_000, [decision])
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

  test('… unless an operator had it forgotten, or its holder was fenced and does not know', () => {
    about = 'request'
    const foundAfter = (decision: Decision) =>
      checkNothingAfterRecorded([e(1, 2, 4), e(2, 31, 40)], [s(0, 10, 'created', 'a1'), decision]).length
    expect(foundAfter(d('forget', 'completed', [11, 20]))).toBe(0)
    expect(foundAfter(d('forget', 'completed', [11, 20], { effect: 'nothing' }))).toBe(1)
    expect(foundAfter(d('forget', 'completed', [50, 60]))).toBe(1)
    expect(foundAfter(d('complete', 'completed', [11, 20]))).toBe(1)
    expect(foundAfter(d('end', 'live', [0, 5], { token: 2 }))).toBe(0)
    expect(foundAfter(d('end', 'live', [0, 5], { token: 1 }))).toBe(1)
  })

  test('an answer by hand is shown to its own request, and after it was given', () => {
    about = 'request'
    const byHand = d('complete', 'expired', [10, 20])
    expect(checkAnswers([], [byHand, s(21, 30, 'replayed', 'H')])).toHaveLength(0)
    expect(checkAnswers([], [byHand, s(0, 9, 'replayed', 'H')])[0]?.checker).toBe('whole-answers')
    expect(checkAnswers([], [byHand, s(21, 30, 'replayed', 'H', 'c', 'other')])).toHaveLength(1)
  })

  test('an answer is shown whole, and to its own request only', () => {
    expect(checkAnswers([e(1, 0, 1)], [s(0, 10, 'created', 'a1')])).toHaveLength(0)
    expect(checkAnswers([e(1, 0, 1)], [s(0, 10, 'replayed', 'a')])[0]?.checker).toBe('whole-answers')
    expect(checkAnswers([e(1, 0, 1)], [s(0, 10, 'replayed', 'a1', 'c', 'other')])[0]?.checker).toBe('scope')
  })
})

test('a run in which an operator decided nothing of a kind is invalid', () => {
  const decided = [d('end', 'live', [0, 1]), d('forget', 'expired', [2, 3], { effect: 'unknown' })]
  expect(notDecided(decided)).toEqual(
    ['complete', 'forget', 'ask', 'requeue', 'discard'].map((kind) => `never decided: operator-${kind}`),
  )
  expect(decidedKinds([...decided, d('ask', 'expired', [4, 5], { said: 'released' })])).toEqual({
    end: 1,
    'ask (released)': 1,
  })
})

test('an operator is told what the application says, or that it could not be asked', () => {
  const told = (verdict: string) => [d('ask', 'expired', [0, 1], { said: 'released', verdict })]
  expect(checkVerdicts(told('released'))).toEqual([])
  expect(checkVerdicts(told('unknown'))).toEqual([])
  expect(checkVerdicts(told('completed')).map(({ checker }) => checker)).toEqual(['verdict'])
})

test('late answers, secrets in logs and unexpected failures are found', () => {
  expect(checkAnswerTimes([s(0, 10, 'info')], 9)).toHaveLength(1)
  expect(checkLogs(['{"level":30}', 'key-1'], ['key-1'])).toHaveLength(1)
  expect(checkLogs(['UnhandledPromiseRejection'], [])).toHaveLength(1)
})
