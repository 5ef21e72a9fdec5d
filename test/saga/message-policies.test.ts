// What a consumer says about messages: their schema, which errors no retry can help, and how often a type is tried again.

import Type, { type TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import * as v from 'valibot'
import { beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { InboxOptions } from '../../packages/saga/src/inbox-options.ts'
import type { InboundMessage } from '../../packages/saga/src/messages.ts'
import { newMessageId } from '../../packages/saga/src/outbox.ts'
import type { StandardSchema } from '../../packages/saga/src/payload.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
})

const message = (payload: unknown, type = 'Paid'): InboundMessage =>
  orderMessage(newMessageId(kit), type, '', {
    body: JSON.stringify(payload),
    createdAt: new Date().toISOString(),
  })
const inbox = (options: Partial<InboxOptions>) =>
  new Inbox({ kit, consumerId: 'test', handlers: {}, retryInPlaceMs: 0, ...options })

/** As docs/guide/saga.md has it. */
function standard(type: TSchema): StandardSchema {
  const validator = Compile(type)
  const issuesOf = (value: unknown) =>
    validator
      .Errors(value)
      .map(({ message: text, instancePath }) => ({ message: text, path: instancePath.split('/').slice(1) }))
  const validate = (value: unknown) => {
    const completed = validator.Default(structuredClone(value))
    return validator.Check(completed) ? { value: completed } : { issues: issuesOf(completed) }
  }
  return { '~standard': { version: 1, vendor: 'typebox', validate } }
}

const schemas: readonly (readonly [string, StandardSchema])[] = [
  ['zod', z.object({ amount: z.number().positive(), currency: z.string().default('EUR') })],
  [
    'valibot',
    v.object({ amount: v.pipe(v.number(), v.minValue(1)), currency: v.optional(v.string(), 'EUR') }),
  ],
  [
    'typebox, by an adapter',
    standard(
      Type.Object({
        amount: Type.Number({ exclusiveMinimum: 0 }),
        currency: Type.String({ default: 'EUR' }),
      }),
    ),
  ],
  [
    'a schema that takes its time',
    {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) =>
          typeof (value as { amount: unknown }).amount === 'number'
            ? { value: { currency: 'EUR', ...(value as object) } }
            : { issues: [{ message: 'a number expected', path: [{ key: 'amount' }] }] },
      },
    },
  ],
]

test.each(schemas)(
  'a payload is validated by %s: the handler gets what the schema makes of it',
  async (_, schema) => {
    const got: unknown[] = []
    const handlers = { Paid: async (_tx: unknown, { payload }: { payload: unknown }) => got.push(payload) }
    const one = inbox({ handlers, schemas: { Paid: schema } })
    expect(await one.receive(message({ amount: 7 }))).toEqual({ kind: 'ack' })
    expect(await one.receive(message({ amount: 'seven' }))).toEqual({ kind: 'ack' })
    expect(got).toEqual([{ amount: 7, currency: 'EUR' }])
    const [letter] = await listDeadLetters(kit)
    expect(letter).toMatchObject({ errorCode: 'invalid_payload', payload: { amount: 'seven' } })
    expect(letter!.errorMessage).toMatch(/^the payload of the Paid does not match its schema: amount: /)
    // Its replay is validated as well.
    await replayDeadLetters(kit, [letter!.id])
    expect(await replayOnce(kit, 'test', handlers, { schemas: { Paid: schema } })).toBe(0)
    await replayDeadLetters(kit, [letter!.id])
    expect(await replayOnce(kit, 'test', handlers)).toBe(1)
  },
)

test('a type without a schema is not validated, and one whose name is inherited has none', async () => {
  const got: string[] = []
  const handlers = Object.fromEntries(['Other', 'toString'].map((type) => [type, async () => got.push(type)]))
  const one = inbox({ handlers, schemas: { Paid: schemas[0]![1] } })
  for (const type of ['Other', 'toString']) await one.receive(message({ amount: 'seven' }, type))
  expect(got).toEqual(['Other', 'toString'])
})

class Gone extends Error {}
const failing = (error: () => Error) => ({ Paid: () => Promise.reject(error()) })

test.each<[string, InboxOptions['unrecoverable'], () => Error, string]>([
  ['an error that the predicate names', (error) => error instanceof Gone, () => new Gone('x'), 'dead_letter'],
  ['an error that it does not name', (error) => error instanceof Gone, () => new Error('x'), 'retry'],
  [
    'any error, of a message that it names',
    (_error, { type }) => type === 'Paid',
    () => new Error('x'),
    'dead_letter',
  ],
  [
    'an error on which the predicate itself fails',
    () => {
      throw new Error('no idea')
    },
    () => new Gone('x'),
    'retry',
  ],
])('%s: %s', async (_, unrecoverable, error, outcome) => {
  await inbox({ handlers: failing(error), unrecoverable: unrecoverable! }).receive(message({}))
  expect(kit.seenOf('consumed').map((event) => event.outcome)).toEqual([outcome])
})

test('a type has its own number of attempts, and the others have theirs', async () => {
  const backoff = { initialMs: 1, maxMs: 1 }
  const fail = () => Promise.reject(new Error('not today'))
  const one = inbox({
    handlers: { Paid: fail, Mailed: fail },
    retry: { maxAttempts: 1, backoff, byType: { Mailed: { maxAttempts: 3 } } },
    retryInPlaceMs: 1_000,
  })
  for (const type of ['Paid', 'Mailed']) await one.receive(message({}, type))
  expect((await listDeadLetters(kit)).map(({ type, attempts }) => [type, attempts])).toEqual([
    ['Paid', 1],
    ['Mailed', 3],
  ])
})

test.each<[InboxOptions['retry'], RegExp]>([
  [{ maxAttempts: 0 }, /retry\.maxAttempts: 0 \(a whole number from 1 expected\)/],
  [{ byType: { Paid: { maxAttempts: 1.5 } } }, /retry\.maxAttempts of Paid: 1\.5/],
  [
    { byType: { Paid: { maxAttempts: 100_000 } } },
    /retentionMs 604800000 must be longer than all retries of Paid together \(100000 × 60000 ms/,
  ],
])('the policy %j is refused', (retry, words) => {
  expect(() => inbox({ retry: retry! })).toThrow(words)
})
