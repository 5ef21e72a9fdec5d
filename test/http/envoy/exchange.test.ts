/** What was not let through was not sent: the moments between a claim and Envoy's going on, which no real stream shows at will. */
import { expect, test } from 'vitest'
import type { Conversation } from '../../../src/http/envoy/conversation.ts'
import { exchangeOver } from '../../../src/http/envoy/exchange.ts'
import type { ProcessingRequest, ProcessingResponse } from '../../../src/http/envoy/messages.ts'
import { answerHead, requestHead } from '../../support/envoy-client.ts'

/** What Envoy has said, all of it already, and whether the stream has ended behind it. */
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
])('nothing is sent where Envoy %s before the claim is granted', async (_, messages, over) => {
  const { conversation, answers } = said(messages, over)
  const exchange = exchangeOver(conversation, requestHead({}))
  expect(await exchange.forward([['fencepost-attempt', '1']], 1_024)).toMatchObject({ kind: 'never_sent' })
  expect(answers).toEqual([])
})
