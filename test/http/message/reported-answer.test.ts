/** The form in which an answer that the sidecar did not see is reported: by a gateway, or by the application that is asked. */
import { expect, test } from 'vitest'
import { type ReportedAnswer, reportedAnswerIn } from '../../../src/http/message/reported-answer.ts'

test.each<[what: string, given: unknown, answer: ReportedAnswer | undefined]>([
  ['a status alone', { status: 201 }, { status: 201, headers: [], body: undefined }],
  [
    'several lines of one header',
    { status: 200, headers: { Link: ['</a>', '</b>'] }, body_base64: 'b2s=' },
    {
      status: 200,
      headers: [
        ['Link', '</a>'],
        ['Link', '</b>'],
      ],
      body: Buffer.from('ok'),
    },
  ],
  ['an empty body', { status: 200, body_base64: '' }, { status: 200, headers: [], body: Buffer.alloc(0) }],
  [
    'an empty body whose stated length a duplicate would wait for',
    { status: 200, headers: { 'content-length': '5', ETag: '"1"' }, body_base64: '' },
    { status: 200, headers: [['ETag', '"1"']], body: Buffer.alloc(0) },
  ],
  ['no status', { headers: {} }, undefined],
  ['a status of nothing final', { status: 103 }, undefined],
  ['a status that is no whole number', { status: 200.5 }, undefined],
  ['headers that are no text', { status: 200, headers: { A: 1 } }, undefined],
  ['a body that is not base64', { status: 200, body_base64: 'bm8-' }, undefined],
  ['a body that is no text', { status: 200, body_base64: 7 }, undefined],
  ['no object', 'ok', undefined],
  ['nothing', null, undefined],
])('%s', (_, given, answer) => {
  expect(reportedAnswerIn(given)).toEqual(answer)
})
