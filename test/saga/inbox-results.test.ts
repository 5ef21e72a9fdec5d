// Consumers that answer: the first delivery and its duplicates get one result, and an error is never a result.
import { beforeAll, describe, expect, test } from 'vitest'
import { listDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { BusinessError, NonRetryableError } from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { Handler } from '../../packages/saga/src/messages.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})

let ids = 0
const message = () => {
  ids += 1
  return orderMessage(`m-${ids}`, 'Asked', `o-${ids}`, { body: '{"n":2}' })
}
const forms: Record<string, (work: () => Promise<unknown>) => Handler> = {
  'in the transaction': (work) => async () => work(),
  outside: (work) => ({ outside: async () => work() }),
}

describe.each(Object.entries(forms))('a handler %s', (_name, form) => {
  const consumer = (work: () => Promise<unknown>, reply: () => Promise<void> = async () => {}) => {
    const answers: unknown[] = []
    const inbox = new Inbox({
      kit,
      consumerId: 'answers',
      handlers: { Asked: form(work) },
      retryInPlaceMs: 0,
      retry: { maxAttempts: 3, backoff: { initialMs: 1, maxMs: 1 } },
      onProcessed: async ({ messageId }, outcome) => {
        answers.push({ messageId, ...outcome })
        await reply()
      },
    })
    return { inbox, answers }
  }

  test('answers a duplicate with the stored result', async () => {
    let runs = 0
    const { inbox, answers } = consumer(async () => ({ run: ++runs, at: new Date(0) }))
    const asked = message()
    const { messageId } = asked
    expect([await inbox.receive(asked), await inbox.receive(asked)]).toEqual([
      { kind: 'ack' },
      { kind: 'ack' },
    ])
    const result = { run: 1, at: '1970-01-01T00:00:00.000Z' }
    expect(answers).toEqual([
      { messageId, replayed: false, result },
      { messageId, replayed: true, result },
    ])
  })

  test('that throws answers nothing', async () => {
    const { inbox, answers } = consumer(() => Promise.reject(new Error('no')))
    expect(await inbox.receive(message())).toMatchObject({ kind: 'again' })
    expect(answers).toEqual([])
  })

  test('that refuses ends its message, and neither delivery gets an answer', async () => {
    const { inbox, answers } = consumer(() =>
      Promise.reject(new BusinessError('sold_out', 'no pens are left')),
    )
    const asked = message()
    expect([await inbox.receive(asked), await inbox.receive(asked)]).toEqual([
      { kind: 'ack' },
      { kind: 'ack' },
    ])
    expect(answers).toEqual([])
  })

  test('whose answer could not be sent is not executed again, and answers when the message comes again', async () => {
    let [runs, replies] = [0, 0]
    const { inbox, answers } = consumer(
      async () => ++runs,
      async () => {
        replies += 1
        if (replies === 1) throw new Error('the reply queue is away')
      },
    )
    const asked = message()
    expect(await inbox.receive(asked)).toMatchObject({ kind: 'again' })
    expect(await inbox.receive(asked)).toEqual({ kind: 'ack' })
    expect([runs, answers]).toEqual([
      1,
      [
        { messageId: asked.messageId, replayed: false, result: 1 },
        { messageId: asked.messageId, replayed: true, result: 1 },
      ],
    ])
  })
})

// Bug: it was told as a dead letter, which nobody found, and a BusinessError as the refusal of a message that was processed.
test.each([
  ['an error', () => new Error('no such queue'), 3],
  ['a refusal', () => new BusinessError('closed', 'no such queue'), 3],
  ['what no retry can help', () => new NonRetryableError('no such queue'), 1],
])(
  'an answer that fails by %s is given up after its attempts, and told as what it is',
  async (_, error, calls) => {
    let replies = 0
    const inbox = new Inbox({
      kit,
      consumerId: 'mute',
      handlers: { Asked: async () => 1 },
      retryInPlaceMs: 0,
      retry: { maxAttempts: 3, backoff: { initialMs: 1, maxMs: 1 } },
      onProcessed: async () => {
        replies += 1
        throw error()
      },
    })
    const asked = message()
    kit.seen.length = 0
    while ((await inbox.receive(asked)).kind !== 'ack');
    expect(replies).toBe(calls)
    expect(kit.seenOf('parked').map(({ what }) => what)).toEqual([`the answer to message ${asked.messageId}`])
    expect(kit.seenOf('consumed').at(-1)).toMatchObject({ outcome: 'processed', error: error() })
    expect(await listDeadLetters(kit)).toEqual([])
  },
)

// Bug: it was told as a dead letter that waits for a person, and there was none.
test('a last attempt that fails after another delivery has succeeded is told as its duplicate', async () => {
  const inboxOf = (outside: () => Promise<unknown>) =>
    new Inbox({ kit, consumerId: 'twice', handlers: { Asked: { outside } }, retry: { maxAttempts: 1 } })
  const asked = message()
  const late = inboxOf(async () => {
    await inboxOf(async () => 1).receive(asked)
    throw new Error('too late')
  })
  kit.seen.length = 0
  expect(await late.receive(asked)).toEqual({ kind: 'ack' })
  expect(kit.seenOf('consumed').map(({ outcome }) => outcome)).toEqual(['processed', 'duplicate'])
  expect(kit.seenOf('parked')).toEqual([])
})

test('without onProcessed no result is stored', async () => {
  const inbox = new Inbox({ kit, consumerId: 'quiet', handlers: { Asked: async () => ({ large: true }) } })
  await inbox.receive(message())
  expect(await countOf(kit, `inbox WHERE consumer_id = 'quiet' AND result IS NULL`)).toBe(1)
})
