/** The moments between a claim and Envoy's next message, which no real stream shows at will: no request is sent. */
import { expect, test } from 'vitest'
import type { Conversation } from '../../../src/http/envoy/conversation.ts'
import { exchangeOver } from '../../../src/http/envoy/exchange.ts'
import type { ProcessingRequest, ProcessingResponse } from '../../../src/http/envoy/messages.ts'
import { problemAnswer } from '../../../src/http/message/answer.ts'
import { createBodyMemory } from '../../../src/http/server/body-memory.ts'
import { answerHead, requestHead, setBy } from '../../support/envoy-client.ts'

/** A stream whose messages of Envoy are all there already; `over`: it has also ended. */
function said(messages: readonly ProcessingRequest[], over: boolean) {
  const left = [...messages]
  const answers: ProcessingResponse[] = []
  const ended = new AbortController()
  if (over) ended.abort()
  const conversation: Conversation = {
    next: async () => left.shift(),
    wentOn: () => left.length > 0 || over,
    answer: (response) => void answers.push(response),
    ended: ended.signal,
    leave: () => {},
    fail: () => {},
  }
  return { conversation, answers }
}

const given = {
  ...answerHead(408, {}, { details: 'request_overall_timeout' }),
  request: 'responseHeaders' as const,
}

test.each<[what: string, messages: readonly ProcessingRequest[], over: boolean]>([
  ['has ended the stream', [], true],
  ['has answered by itself', [given], false],
])('no request is sent where Envoy %s before the claim is granted', async (_, messages, over) => {
  const { conversation, answers } = said(messages, over)
  const exchange = exchangeOver(conversation, requestHead({}))
  using held = createBodyMemory(2 ** 20).hold()
  expect(
    await exchange.forward({ set: [['fencepost-attempt', '1']], removed: [] }, 1_024, held),
  ).toMatchObject({
    kind: 'never_sent',
  })
  expect(answers).toEqual([])
})

test('a call of gRPC whose outcome is that of a later attempt ends as that one did, behind messages of its own', async () => {
  const conversation = said(
    [
      {
        ...answerHead(200, { 'content-type': 'application/grpc' }, { body: true }),
        request: 'responseHeaders' as const,
      },
      {
        responseTrailers: { trailers: { headers: [{ key: 'grpc-status', value: '0' }] } },
        request: 'responseTrailers' as const,
      },
    ],
    false,
  )
  const { answers } = conversation
  const exchange = exchangeOver(
    { ...conversation.conversation, wentOn: () => false },
    requestHead({ 'content-type': 'application/grpc' }),
  )
  using held = createBodyMemory(2 ** 20).hold()
  await exchange.forward({ set: [], removed: [] }, 1_024, held)
  exchange.replace(
    problemAnswer(
      { code: 'response-not-stored', detail: 'It was carried out.' },
      { instance: () => 'u' },
      'gone',
    ),
  )
  const ended = setBy(answers.at(-1)?.responseTrailers?.headerMutation?.setHeaders)
  expect(ended).toMatchObject({ 'grpc-status': '6', 'idempotency-status': 'gone' })
  expect(JSON.parse(decodeURIComponent(ended['grpc-message']!))).toMatchObject({
    code: 'response-not-stored',
  })
})
