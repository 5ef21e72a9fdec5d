// Which message a delivery is, format by format, and what becomes of one that no format reads.
import { beforeEach, describe, expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { type InboundMapping, readDelivery } from '../../packages/saga/src/inbound.ts'
import {
  cloudEventMessages,
  fencepostMessages,
  headerMessages,
} from '../../packages/saga/src/inbound-formats.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { InboxOptions } from '../../packages/saga/src/inbox-options.ts'
import type { Delivery, Received } from '../../packages/saga/src/messages.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

const delivery = (more: Partial<Delivery> = {}): Delivery => ({
  headers: {},
  properties: {},
  body: '{"n":1}',
  redelivered: false,
  ...more,
})
const event = { specversion: '1.0', id: '7', source: '/shop', type: 'OrderPlaced' }
const prefixed = (prefix: string, attributes: Record<string, string> = event) =>
  Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`${prefix}${name}`, value]))
const structured = (more: object = {}, contentType = 'application/cloudevents+json') =>
  delivery({ properties: { 'content-type': contentType }, body: JSON.stringify({ ...event, ...more }) })

describe('a delivery that a ready mapping reads', () => {
  const own = { 'fencepost-message-id': 'm-1', 'fencepost-type': 'OrderPlaced' }
  test.each<[string, InboundMapping, Delivery, { id: string; order?: string | null; payload?: unknown }]>([
    ['our own format', fencepostMessages, delivery({ headers: own }), { id: 'm-1' }],
    [
      'our own format with an aggregate',
      fencepostMessages,
      delivery({ headers: { ...own, 'fencepost-aggregate-type': 'order', 'fencepost-aggregate-id': 'o-1' } }),
      { id: 'm-1', order: 'order/o-1' },
    ],
    ['a structured CloudEvent', cloudEventMessages, structured({ data: 5 }), { id: '/shop 7', payload: 5 }],
    [
      'a structured CloudEvent that is not declared',
      cloudEventMessages,
      structured({ data: 5 }, 'application/json'),
      { id: '/shop 7', payload: 5 },
    ],
    ['a CloudEvent without data', cloudEventMessages, structured(), { id: '/shop 7', payload: null }],
    [
      'a CloudEvent with bytes',
      cloudEventMessages,
      structured({ data_base64: 'AQI=' }),
      { id: '/shop 7', payload: Buffer.of(1, 2) },
    ],
    [
      'a CloudEvent with a subject',
      cloudEventMessages,
      structured({ data: 5, subject: 'o-1' }),
      { id: '/shop 7', order: '/shop/o-1', payload: 5 },
    ],
    [
      'a CloudEvent with a partition key',
      cloudEventMessages,
      structured({ data: 5, subject: 'o-1', partitionkey: 'p' }),
      { id: '/shop 7', order: '/shop/p', payload: 5 },
    ],
    ...['ce-', 'ce_', 'cloudEvents:', 'cloudEvents_', 'Ce-'].map(
      (prefix) =>
        [
          `a binary CloudEvent, ${prefix}`,
          cloudEventMessages,
          delivery({ headers: prefixed(prefix) }),
          { id: '/shop 7' },
        ] as [string, InboundMapping, Delivery, { id: string }],
    ),
    [
      'a binary CloudEvent of HTTP with an encoded id',
      cloudEventMessages,
      delivery({ headers: prefixed('ce-', { ...event, id: 'Z%C3%BCrich' }) }),
      { id: '/shop Zürich' },
    ],
    [
      'a binary CloudEvent of text',
      cloudEventMessages,
      delivery({ headers: prefixed('ce_'), properties: { 'content-type': 'text/plain' }, body: 'hello' }),
      { id: '/shop 7', payload: 'hello' },
    ],
    [
      'an id in the header idempotency-key, its type in a header',
      headerMessages(),
      delivery({ headers: { 'Idempotency-Key': '"k"', type: 'OrderPlaced' } }),
      { id: 'k', order: null },
    ],
    [
      'an id in a header, its type as the broker has it',
      headerMessages({ id: 'x-request-id' }),
      delivery({ headers: { 'x-request-id': 'k' }, properties: { type: 'OrderPlaced' } }),
      { id: 'k', order: null },
    ],
    [
      'an id in a header, its type in the body',
      headerMessages({ orderingKey: ({ body }) => JSON.parse(body).order }),
      delivery({ headers: { 'idempotency-key': 'k' }, body: '{"type":"OrderPlaced","order":"o-1"}' }),
      { id: 'k', order: 'o-1' },
    ],
  ])('%s', (_, mapping, given, expected) => {
    const { message, orderingKey, ...rest } = readDelivery(mapping, given)
    const byAggregate =
      message.aggregateId === '' ? undefined : `${message.aggregateType}/${message.aggregateId}`
    expect({
      id: message.messageId,
      order: orderingKey === undefined ? byAggregate : orderingKey,
      ...(rest.payload === undefined ? {} : { payload: rest.payload.value }),
    }).toEqual({ order: undefined, ...expected })
    expect(message.type).toBe('OrderPlaced')
  })

  test('a CloudEvent goes on with the trace that it brings', () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    expect(readDelivery(cloudEventMessages, structured({ traceparent })).message.headers).toEqual({
      traceparent,
    })
  })
})

describe('a delivery that no mapping reads says why', () => {
  test.each<[string, InboundMapping, Delivery, RegExp]>([
    [
      'another format',
      fencepostMessages,
      delivery(),
      /no inbound mapping knows the format.*cloudEventMessages/,
    ],
    [
      'our id without a type',
      fencepostMessages,
      delivery({ headers: { 'fencepost-message-id': 'm' } }),
      /no fencepost-type/,
    ],
    ['a CloudEvent of 0.3', cloudEventMessages, structured({ specversion: '0.3' }), /version 0\.3; 1\.0/],
    ['a CloudEvent without an id', cloudEventMessages, structured({ id: '' }), /no attribute id/],
    [
      'a CloudEvent without a source',
      cloudEventMessages,
      structured({ source: undefined }),
      /no attribute source/,
    ],
    [
      'a CloudEvent whose source has a blank',
      cloudEventMessages,
      structured({ source: '/a b' }),
      /no URI reference/,
    ],
    ['a batch', cloudEventMessages, structured({}, 'application/cloudevents-batch+json'), /is a batch/],
    [
      'what is declared as a CloudEvent and is none',
      cloudEventMessages,
      delivery({ properties: { 'content-type': 'application/cloudevents+json' }, body: '[]' }),
      /no JSON object/,
    ],
    [
      'an id in a header, and no type',
      headerMessages(),
      delivery({ headers: { 'idempotency-key': 'k' } }),
      /no type; say where/,
    ],
    ['a mapping that gives no id', () => ({ id: '', type: 't' }), delivery(), /gave no id/],
    [
      'a mapping that gives a number',
      () => ({ id: 7, type: 't' }) as never,
      delivery(),
      /gave no id for the message, but 7/,
    ],
    [
      'a mapping that throws',
      () => {
        throw new TypeError('boom')
      },
      delivery(),
      /could not read the message: boom/,
    ],
  ])('%s', (_, mapping, given, words) => {
    expect(() => readDelivery(mapping, given)).toThrow(words)
    expect(() => readDelivery(mapping, given)).toThrow(expect.objectContaining({ code: 'unmapped' }))
  })
})

describe('in the inbox', () => {
  let kit: TestKit
  let handled: Received[]
  const server = duringTests(() => startPostgres())
  beforeEach(async () => {
    kit = await testKit(server)
    handled = []
  })
  const handlers = { OrderPlaced: async (_tx: unknown, message: Received) => handled.push(message) }
  const inbox = (more: Partial<InboxOptions> = {}) =>
    new Inbox({ kit, consumerId: 'test', handlers, retryInPlaceMs: 0, ...more })
  const own = (id: string, more: Partial<Delivery> = {}, type = 'OrderPlaced') =>
    delivery({ headers: { 'fencepost-message-id': id, 'fencepost-type': type }, ...more })
  const outcomes = () => kit.seenOf('consumed').map(({ outcome }) => outcome)

  test.each<[string, string, string, 'duplicate' | 'processed']>([
    [
      'a UUID in another case',
      'ABCDEF00-0000-4000-8000-000000000001',
      'abcdef00-0000-4000-8000-000000000001',
      'duplicate',
    ],
    ['a ULID', '01ARZ3NDEKTSV4RRFFQ69G5FAV', '01ARZ3NDEKTSV4RRFFQ69G5FAV', 'duplicate'],
    ['a text in another case', 'order-A', 'order-a', 'processed'],
    ['a text too long for an index', 'x'.repeat(9_000), 'x'.repeat(9_000), 'duplicate'],
    [
      'a text too long for an index, with another end',
      `${'x'.repeat(9_000)}1`,
      `${'x'.repeat(9_000)}2`,
      'processed',
    ],
    ['a text with a NUL', 'a\0b', 'a\0b', 'duplicate'],
  ])('of two messages by the id %s the second is rightly known or new', async (_, first, second, outcome) => {
    for (const id of [first, second]) expect(await inbox().deliver(own(id))).toEqual({ kind: 'ack' })
    expect(outcomes()).toEqual(['processed', outcome])
    expect(handled[0]!.messageId).toBe(first)
  })

  test.each<[InboxOptions['onUnhandled'], readonly string[], number]>([
    [undefined, ['dead_letter', 'dead_letter'], 2],
    ['dead-letter', ['dead_letter', 'dead_letter'], 2],
    ['pass', ['passed', 'passed'], 0],
    [({ reason }) => (reason === 'unmapped' ? 'dead-letter' : 'pass'), ['dead_letter', 'passed'], 1],
    [
      () => {
        throw new Error('no decision')
      },
      ['dead_letter', 'dead_letter'],
      2,
    ],
  ])('onUnhandled %s: %j', async (onUnhandled, expected, letters) => {
    const one = inbox(onUnhandled === undefined ? {} : { onUnhandled })
    expect(await one.deliver(delivery())).toEqual({ kind: 'ack' })
    expect(await one.deliver(own('m-1', {}, 'OrderSeen'))).toEqual({ kind: 'ack' })
    expect(kit.seenOf('unhandled').map(({ outcome }) => outcome)).toEqual(expected)
    expect(outcomes()).toEqual(expected)
    expect(await countOf(kit, 'dead_letters')).toBe(letters)
  })

  test('a message that a newer version was retrying and an older one passes over holds up nothing behind it', async () => {
    const newer = new Inbox({
      kit,
      consumerId: 'test',
      handlers: { OrderSeen: () => Promise.reject(new Error('not yet')) },
      retryInPlaceMs: 0,
      retry: { backoff: { initialMs: 60_000, maxMs: 60_000 } },
    })
    const of = (messageId: string, type: string) => orderMessage(messageId, type, 'a', { createdAt: '' })
    expect(await newer.receive(of('m-1', 'OrderSeen'))).toMatchObject({ kind: 'again' })
    const older = inbox({ onUnhandled: 'pass' })
    expect(await older.receive(of('m-1', 'OrderSeen'))).toEqual({ kind: 'ack' })
    expect(await older.receive(of('m-2', 'OrderPlaced'))).toEqual({ kind: 'ack' })
    expect(outcomes()).toEqual(['retry', 'passed', 'processed'])
  })

  test('a sender that can keep its message gets it back instead of filling the table', async () => {
    expect(await inbox().deliver(delivery({ canRefuse: true }))).toMatchObject({ kind: 'refuse' })
    expect(outcomes()).toEqual(['returned'])
    expect(await countOf(kit, 'dead_letters')).toBe(0)
  })

  test('two unmapped messages of equal content are two dead letters; two deliveries of one are one letter', async () => {
    for (let n = 0; n < 2; n += 1) await inbox().deliver(delivery())
    for (let n = 0; n < 2; n += 1) await inbox().deliver(delivery({ deliveryId: 'orders 0 17' }))
    expect(
      (await listDeadLetters(kit)).map(({ messageId }) => messageId.split(' ').slice(1).join(' ')),
    ).toEqual([expect.any(String), expect.any(String), 'orders 0 17'])
  })

  const cloudEvent = { ...structured({ data: { n: 5 } }), deliveryId: 'orders 0 1' }

  test('an unmapped message is replayed once a mapping reads it, and is handled once with its other deliveries', async () => {
    await inbox().deliver(cloudEvent)
    const [letter] = await listDeadLetters(kit)
    await replayDeadLetters(kit, [letter!.id])
    expect(await replayOnce(kit, 'test', handlers)).toBe(0)
    expect((await listDeadLetters(kit))[0]).toMatchObject({ status: 'dead', errorCode: 'unmapped' })
    await replayDeadLetters(kit, [letter!.id])
    const reading = { inbound: cloudEventMessages }
    expect(await replayOnce(kit, 'test', handlers, reading)).toBe(1)
    expect(handled.map(({ messageId, payload }) => [messageId, payload])).toEqual([['/shop 7', { n: 5 }]])
    // Its producer sends it again, and this time the mapping is there.
    await inbox(reading).deliver(cloudEvent)
    expect(outcomes()).toEqual(['dead_letter', 'duplicate'])
  })

  test('an unmapped message that came again and was handled is not handled a second time by its replay', async () => {
    await inbox().deliver(cloudEvent)
    const reading = { inbound: cloudEventMessages }
    await inbox(reading).deliver(cloudEvent)
    const [letter] = await listDeadLetters(kit)
    await replayDeadLetters(kit, [letter!.id])
    expect(await replayOnce(kit, 'test', handlers, reading)).toBe(1)
    let outside = 0
    await inbox().deliver({ ...cloudEvent, deliveryId: 'orders 0 2' })
    await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
    const counting = { OrderPlaced: { outside: async () => (outside += 1) } }
    expect(await replayOnce(kit, 'test', counting, reading)).toBe(1)
    expect([handled.length, outside]).toEqual([1, 0])
  })

  test('a replayed dead letter gets the payload that its mapping reads, not its envelope', async () => {
    const reading = { inbound: cloudEventMessages }
    const failing = { OrderPlaced: () => Promise.reject(new Error('not today')) }
    await inbox({ ...reading, handlers: failing, retry: { maxAttempts: 1 } }).deliver(cloudEvent)
    await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
    expect(await replayOnce(kit, 'test', handlers, reading)).toBe(1)
    expect(handled.map(({ payload }) => payload)).toEqual([{ n: 5 }])
  })

  test.each([
    ['a UUID in capitals', 'ABCDEF00-0000-4000-8000-000000000001'],
    ['a text too long for an index', 'x'.repeat(9_000)],
  ])('a replayed dead letter by the id %s has the id that its handler saw before', async (_, id) => {
    const seen: string[] = []
    const failing: InboxOptions['handlers'] = {
      OrderPlaced: async (_tx, { messageId }) => {
        seen.push(messageId)
        throw new Error('not today')
      },
    }
    await inbox({ handlers: failing, retry: { maxAttempts: 1 } }).deliver(own(id))
    await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
    await replayOnce(kit, 'test', failing)
    expect(seen).toEqual([id, id])
  })

  test('an unhandled type is replayed once there is a handler, and has parked no sequence', async () => {
    const aggregate = { 'fencepost-aggregate-type': 'order', 'fencepost-aggregate-id': 'o-1' }
    const of = (id: string, type: string) =>
      delivery({ headers: { 'fencepost-message-id': id, 'fencepost-type': type, ...aggregate } })
    await inbox().deliver(of('m-1', 'OrderSeen'))
    await inbox().deliver(of('m-2', 'OrderPlaced'))
    expect(outcomes()).toEqual(['dead_letter', 'processed'])
    await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
    expect(await replayOnce(kit, 'test', { OrderSeen: handlers.OrderPlaced })).toBe(1)
    expect(handled.map(({ type }) => type)).toEqual(['OrderPlaced', 'OrderSeen'])
  })

  test('a body that is no text for PostgreSQL is kept, and replayed as it came', async () => {
    const reading = { inbound: headerMessages({ type: () => 'OrderPlaced' }) }
    const given = delivery({ headers: { 'idempotency-key': 'k' }, body: 'a\ud83d' })
    await inbox(reading).deliver(given)
    const [letter] = await listDeadLetters(kit)
    expect(letter).toMatchObject({ messageId: 'k', errorCode: 'non_retryable', payload: 'a\u{FFFD}' })
    await replayDeadLetters(kit, [letter!.id])
    const read: InboundMapping = ({ body }) => ({ id: 'k', type: 'OrderPlaced', payload: body })
    expect(await replayOnce(kit, 'test', handlers, { inbound: read })).toBe(1)
    expect(handled.map(({ payload }) => payload)).toEqual(['a\u{FFFD}'])
  })

  test('while the database is away an unmapped message comes again', async () => {
    const away = { ...kit, transaction: () => Promise.reject(new Error('the database is away')) }
    expect(await inbox({ kit: away }).deliver(delivery())).toMatchObject({ kind: 'again' })
    expect(kit.seenOf('consumer_error')).toHaveLength(1)
    expect(outcomes()).toEqual([])
  })
})
