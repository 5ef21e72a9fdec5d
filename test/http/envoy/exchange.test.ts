/** The moments between a claim and Envoy's next message, which no real stream shows at will: no request is sent. */
import { expect, test } from 'vitest'
import type { Conversation } from '../../../src/http/envoy/conversation.ts'
import { exchangeOver } from '../../../src/http/envoy/exchange.ts'
import type { ProcessingRequest, ProcessingResponse } from '../../../src/http/envoy/messages.ts'
import { createBodyMemory } from '../../../src/http/server/body-memory.ts'
import { answerHead, requestHead } from '../../support/envoy-client.ts'

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
  expect(await exchange.forward([['fencepost-attempt', '1']], 1_024, held)).toMatchObject({
    kind: 'never_sent',
  })
  expect(answers).toEqual([])
})
