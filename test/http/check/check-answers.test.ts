/** The answers to gateways, as far as no real gateway is needed to see them. */

import { expect, test } from 'vitest'
import { checkAnswer } from '../../../src/http/check/check-answers.ts'

// A header holds no letter beyond those of Latin-1, and Node refuses to send one that does.
test('nginx gets the problem document as one line of ASCII, whatever it says', () => {
  const DETAIL = 'Grüße \u{1f680}'
  const answer = checkAnswer(
    { decided: { kind: 'refused', problem: { code: 'key-invalid', detail: DETAIL } } },
    {
      dialect: 'auth-request',
      request: {
        method: 'POST',
        target: '/',
        path: '/',
        query: '',
        host: 'shop',
        httpVersion: '1.1',
        headers: [],
      },
    },
    () => '00000000-0000-4000-8000-000000000000',
  )
  const problem = answer.headers.find(([name]) => name === 'Fencepost-Problem')?.[1] ?? ''
  expect(problem).toMatch(/^[\x20-\x7e]+$/)
  expect(JSON.parse(problem)).toMatchObject({ code: 'key-invalid', detail: DETAIL })
})
