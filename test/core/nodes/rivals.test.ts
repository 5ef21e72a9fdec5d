import { expect, test } from 'vitest'
import { hasOutlived, RIVAL_BEATS, RivalWatch, yieldsTo } from '../../../src/core/nodes/rivals.ts'

/** A second apart: what is noted of the node under each nonce. */
function watch(...seconds: readonly Readonly<Record<string, number>>[]) {
  const rivals = new RivalWatch()
  rivals.saw('a', 'own', 0)
  seconds.forEach((notes, second) => {
    for (const [nonce, count] of Object.entries(notes)) rivals.noted('b', 'a', nonce, count, second * 1_000)
  })
  return { rivals, rival: () => rivals.rivalOf('a', (seconds.length - 1) * 1_000) }
}

const counts = (from: number, seconds: number, each: number) =>
  Array.from({ length: seconds }, (_, second) => ({ other: from + second * each }))

test('a count that grows on under another enrolment is that of another server', () => {
  expect(watch(...counts(70, 10, 1)).rival()).toMatchObject({ nonce: 'other', lives: true })
})

test('its own count, and a count that stands still, are none', () => {
  expect(watch(...counts(70, 20, 0)).rival()).toBeUndefined()
  expect(watch({ own: 1 }, { own: 100 }, {}, {}, { own: 200 }, { own: 300 }).rival()).toBeUndefined()
})

test('notes of a node that was just enrolled are still on their way', () => {
  expect(
    watch({ other: 1 }, { other: 500 }, {}, {}, {}, { other: 500 + RIVAL_BEATS - 1 }).rival(),
  ).toBeUndefined()
})

// A node whose data are of last year knows the count of then, and one of last month another: both of an enrolment that has ended.
test('what two nodes noted at different times is no growth', () => {
  const { rivals } = watch({}, {}, {}, {})
  rivals.noted('b', 'a', 'other', 100, 10_000)
  rivals.noted('c', 'a', 'other', 200_000, 20_000)
  expect(rivals.rivalOf('a', 20_000)).toBeUndefined()
  rivals.noted('b', 'a', 'other', 100 + RIVAL_BEATS, 21_000)
  expect(rivals.rivalOf('a', 21_000)).toMatchObject({ nonce: 'other', lives: true })
})

test('a server that is heard of no more lives no more, until that is forgotten', () => {
  const { rivals } = watch(...counts(70, 10, 1))
  expect(rivals.rivalOf('a', 60_000)).toMatchObject({ nonce: 'other', lives: false })
  rivals.forget('a')
  expect(rivals.rivalOf('a', 60_000)).toBeUndefined()
})

test('what is known of another node, or of the time before an enrolment, says nothing', () => {
  const { rivals } = watch(...counts(70, 10, 1))
  expect(rivals.rivalOf('b', 9_000)).toBeUndefined()
  rivals.saw('a', 'next', 9_000)
  expect(rivals.rivalOf('a', 9_000)).toBeUndefined()
})

test('a quarantine outlives the other server where it began ten seconds after the last sign of it, whoever began it', () => {
  const { rivals } = watch(...counts(70, 10, 1))
  const at = (nowMs: number, waitedMs: number) => {
    const rival = rivals.rivalOf('a', nowMs)
    return rival !== undefined && hasOutlived(rival, waitedMs)
  }
  const signMs = 60_000 - (rivals.rivalOf('a', 60_000)?.agoMs ?? 0)
  expect([at(signMs + 9_999, 0), at(signMs + 10_000, 0)]).toEqual([false, true])
  expect([at(signMs + 55_000, 45_001), at(signMs + 55_000, 45_000)]).toEqual([false, true])
})

test('of two that vote both sides name the same one', () => {
  expect([yieldsTo('1a', '2b'), yieldsTo('2b', '1a')]).toEqual([true, false])
})
