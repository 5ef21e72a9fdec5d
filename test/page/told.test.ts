/** What the page says of a decision, and of the headers that its reader typed. */
import { expect, test } from 'vitest'
import { headersIn, reportOf } from '../../src/page/words.ts'

// Bug: the line above the list said "done", while the question was only dropped because its record had moved on.
test.each([
  [{ decided: true }, 'Requeue it: done.'],
  [
    { decided: false, because: 'it has an outcome by now' },
    'Requeue it: not decided. It had moved on: it has an outcome by now.',
  ],
  [{ decided: false }, 'Requeue it: not decided.'],
])('of %o', (decided, told) => {
  expect(reportOf('Requeue it', decided)).toBe(told)
})

// Bug: of two lines of one header the first was left out of the answer that clients get, without a word.
test('a header is given once', () => {
  expect(headersIn('set-cookie: a=1\nSet-Cookie: b=2')).toBe(
    'set-cookie is given twice; put its values into one line.',
  )
  expect(headersIn(' Content-Type: text/plain \n\nx-empty:')).toEqual({
    'content-type': 'text/plain',
    'x-empty': '',
  })
  expect(headersIn('no header')).toBe('A header is NAME: VALUE, and this line is not: no header')
})
