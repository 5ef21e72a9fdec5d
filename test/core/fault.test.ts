import { expect, test } from 'vitest'
import { faultOf, lastWords } from '../../src/core/fault.ts'

const SECRET = 'hunter2'

test.each<[what: string, error: () => unknown]>([
  ['a message', () => new Error(SECRET)],
  [
    'a message that looks like frames',
    () => new Error(`a\n    at ${SECRET} (file:///b.js:1:1)\n    at file:///${SECRET}:1:1`),
  ],
  [
    'a message that was changed later',
    () => Object.assign(new Error(`${SECRET}\n    at ${SECRET} (file:///b.js:1:1)`), { message: 'other' }),
  ],
  ['a name', () => Object.assign(new Error('a'), { name: `is ${SECRET}` })],
  ['a code', () => Object.assign(new Error('a'), { code: `is ${SECRET}` })],
  ['another property', () => Object.assign(new Error('a'), { command: { args: [SECRET] } })],
  ['a cause', () => new Error('a', { cause: new TypeError(SECRET) })],
  ['a stack of its own', () => Object.assign(new Error('a'), { stack: SECRET })],
  ['an error that quotes its input', () => caught(() => JSON.parse(SECRET))],
  ['no error at all', () => SECRET],
  ['an object', () => ({ message: SECRET, stack: SECRET })],
])('%s of a fault is not repeated', (_what, error) => {
  const fault = error()
  expect(lastWords(fault)).not.toContain(SECRET)
  expect(JSON.stringify(faultOf(fault))).not.toContain(SECRET)
})

test('type, code and place are reported, and those of the causes', () => {
  const cause = Object.assign(new RangeError('a'), { code: 'ERR_B' })
  const words = lastWords(new TypeError('c', { cause }))
  expect(words).toMatch(/^fencepost failed: TypeError\n {4}at [^\n]*fault\.test\.ts:\d+:\d+/)
  expect(words).toMatch(/^caused by: RangeError \(ERR_B\)\n {4}at [^\n]*fault\.test\.ts:\d+:\d+/m)
})

test('a cycle of causes ends', () => {
  const one = new Error('a')
  one.cause = one
  expect(lastWords(one).match(/caused by/g)).toHaveLength(5)
})

function caught(act: () => unknown): unknown {
  try {
    return act()
  } catch (error) {
    return error
  }
}
