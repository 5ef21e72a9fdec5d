/** What an operator may decide, for every decision and every state of a record. */
import { expect, test } from 'vitest'
import { DECISIONS, rulingOn } from '../../../src/core/operator/decision-rules.ts'
import type { RecordState } from '../../../src/core/operator/record-view.ts'

const STATES = ['absent', 'released', 'live', 'expired', 'completed', 'damaged', 'unknown'] as const
const WORK = `dedup:shop:test:v1:${'a'.repeat(64)}`
const LOCK = `dedup:shop:test:v1:lock:${'a'.repeat(64)}`

const viewed = (state: RecordState, recordKey = WORK, more: { minorityOutcome?: true } = {}) => ({
  recordKey,
  state,
  answered: 2,
  required: 3,
  ...more,
})

const wordOf = (ruling: ReturnType<typeof rulingOn>) =>
  ruling.kind === 'possible' ? (ruling.breaks === undefined ? 'yes' : `breaks ${ruling.breaks}`) : ruling.kind

test('what is possible, what breaks a promise, and what is refused', () => {
  const table = Object.fromEntries(
    DECISIONS.map((decision) => [decision, STATES.map((state) => wordOf(rulingOn(decision, viewed(state))))]),
  )
  expect(table).toEqual({
    //         absent     released   live           expired     completed         damaged           unknown
    end: ['refused', 'refused', 'breaks live', 'refused', 'refused', 'refused', 'unavailable'],
    complete: [
      'refused',
      'refused',
      'breaks live',
      'yes',
      'breaks completed',
      'breaks damaged',
      'unavailable',
    ],
    forget: ['refused', 'refused', 'breaks live', 'yes', 'breaks completed', 'refused', 'unavailable'],
    ask: ['refused', 'refused', 'refused', 'yes', 'refused', 'refused', 'unavailable'],
  })
})

test('every refusal says why, and every decision what it does', () => {
  for (const decision of DECISIONS)
    for (const state of STATES) {
      const ruling = rulingOn(decision, viewed(state))
      const sentences = ruling.kind === 'possible' ? ruling.effects : [ruling.because]
      expect(
        sentences.every((sentence) => /^[A-Z0-9"].*[.)]$/.test(sentence)),
        `${decision} ${state}`,
      ).toBe(true)
    }
})

test('of an entity’s lock only the claim can be ended', () => {
  const words = DECISIONS.map((decision) => wordOf(rulingOn(decision, viewed('live', LOCK))))
  expect(words).toEqual(['breaks live', 'refused', 'refused', 'refused'])
})

test('an outcome that a node has is waited for, and not decided against', () => {
  const words = DECISIONS.map((decision) =>
    wordOf(rulingOn(decision, viewed('expired', WORK, { minorityOutcome: true }))),
  )
  expect(words).toEqual(['refused', 'refused', 'refused', 'refused'])
})
