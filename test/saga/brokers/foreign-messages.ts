/**
 * Messages of other systems, and those that nobody handles: on every broker each is handled or is a dead letter, and none
 * is acknowledged without a trace. A part of the conformance suite.
 */
import { gunzipSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { createConsumer } from '../../../packages/saga/src/consumer.ts'
import { listDeadLetters, replayDeadLetters } from '../../../packages/saga/src/dead-letters.ts'
import type { InboundMapping } from '../../../packages/saga/src/inbound.ts'
import { cloudEventMessages, fencepostMessages } from '../../../packages/saga/src/inbound-formats.ts'
import type { Received } from '../../../packages/saga/src/messages.ts'
import { eventually } from '../../support/eventually.ts'
import type { PostgresServer } from '../../support/postgres-server.ts'
import { testKit } from '../../support/saga-kit.ts'
import { type BrokerBench, outbound } from './conformance.ts'

export type Foreign = {
  readonly headers: Record<string, string>
  readonly contentType?: string
  readonly body: string
}

const ulid = '01ARZ3NDEKTSV4RRFFQ69G5FAV'
const never = new AbortController().signal
const event = { specversion: '1.0', id: '4711', source: '/shop', type: 'OrderPlaced', subject: 'o-1' }

/** Each was acknowledged and gone: handled by no handler, in no dead letter, told by no event. */
const shapes: readonly (readonly [string, Foreign, { readonly handled?: string; readonly dead?: string }])[] =
  [
    ['without an id', { headers: {}, body: '{"n":1}' }, { dead: 'unmapped' }],
    [
      'with a CloudEvents envelope',
      {
        headers: {},
        contentType: 'application/cloudevents+json',
        body: JSON.stringify({ ...event, data: { n: 2 } }),
      },
      { dead: 'unmapped' },
    ],
    [
      'with its id in the header idempotency-key',
      { headers: { 'idempotency-key': 'order-4711', type: 'OrderPlaced' }, body: '{"n":3}' },
      { dead: 'unmapped' },
    ],
    [
      'with a ULID',
      { headers: { 'fencepost-message-id': ulid, 'fencepost-type': 'OrderPlaced' }, body: '{"n":4}' },
      { handled: ulid },
    ],
    [
      'of a type that nobody handles',
      { headers: { 'fencepost-message-id': 'm-5', 'fencepost-type': 'OrderSeen' }, body: '{"n":5}' },
      { dead: 'unhandled_type' },
    ],
  ]

export function foreignMessages(benchOf: () => BrokerBench, postgresOf: () => PostgresServer): void {
  test('foreign messages and an unhandled type: each is handled or a dead letter, and told by an event', async () => {
    const [bench, kit] = [benchOf(), await testKit(postgresOf())]
    const channel = await bench.channel('foreign')
    const handled: Received[] = []
    await using _consumer = await createConsumer({
      kit,
      subscriber: channel.subscriber,
      consumerId: 'foreign',
      handlers: { OrderPlaced: async (_tx, message) => handled.push(message) },
    })
    for (const [, foreign] of shapes) await bench.sendForeign(channel.destination, foreign)
    await eventually('every message to have its end', () => kit.seenOf('consumed').length >= shapes.length, {
      withinMs: 15_000,
    })
    const letters = await listDeadLetters(kit)
    const ends = shapes.map(([name, { body }]) => {
      const n = (JSON.parse(body).data ?? JSON.parse(body)).n
      const letter = letters.find(({ payload }) => JSON.stringify(payload) === body)
      const taken = handled.find(({ payload }) => (payload as { n: number }).n === n)
      return [
        name,
        {
          ...(taken === undefined ? {} : { handled: taken.messageId }),
          ...(letter === undefined ? {} : { dead: letter.errorCode }),
        },
      ]
    })
    expect(ends).toEqual(shapes.map(([name, , end]) => [name, end]))
    expect(letters).toHaveLength(4)
    expect(
      kit
        .seenOf('unhandled')
        .map(({ reason, outcome }) => `${reason}: ${outcome}`)
        .sort(),
    ).toEqual([
      'unhandled_type: dead_letter',
      'unmapped: dead_letter',
      'unmapped: dead_letter',
      'unmapped: dead_letter',
    ])
  })

  test('a mapped CloudEvent is handled once, structured and binary, beside messages of our own', async () => {
    const [bench, kit] = [benchOf(), await testKit(postgresOf())]
    const channel = await bench.channel('cloud-events')
    const handled: Received[] = []
    await using _consumer = await createConsumer({
      kit,
      subscriber: channel.subscriber,
      consumerId: 'cloud-events',
      inbound: [fencepostMessages, cloudEventMessages],
      handlers: { OrderPlaced: async (_tx, message) => handled.push(message) },
    })
    const { id, source, type, specversion } = event
    const structured = {
      headers: {},
      contentType: 'application/cloudevents+json; charset=utf-8',
      body: JSON.stringify({ ...event, data: { n: 1 } }),
    }
    const binary = {
      headers: { ce_specversion: specversion, ce_id: `${id}-b`, ce_source: source, ce_type: type },
      contentType: 'application/json',
      body: '{"n":2}',
    }
    for (const foreign of [structured, binary, structured])
      await bench.sendForeign(channel.destination, foreign)
    await bench.publisher.publish(outbound(channel.destination, 3, { type, body: '{"n":3}' }), never)
    await eventually('every message to have its end', () => kit.seenOf('consumed').length >= 4, {
      withinMs: 15_000,
    })
    expect(handled.map(({ payload }) => payload)).toHaveLength(3)
    expect(new Set(handled.map(({ payload }) => (payload as { n: number }).n))).toEqual(new Set([1, 2, 3]))
    expect(new Set(handled.map(({ messageId }) => messageId))).toContain('/shop 4711')
    expect(
      kit
        .seenOf('consumed')
        .map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(['duplicate', 'processed', 'processed', 'processed'])
    expect(await listDeadLetters(kit)).toEqual([])
  })

  test('poison beside order: it parks its own sequence, and messages of other sequences keep their order', async () => {
    const [bench, kit] = [benchOf(), await testKit(postgresOf())]
    const channel = await bench.channel('poison')
    const handled: string[] = []
    await using _consumer = await createConsumer({
      kit,
      subscriber: channel.subscriber,
      consumerId: 'poison',
      handlers: {
        Numbered: async (_tx, { aggregateId, payload }) =>
          handled.push(`${aggregateId}/${(payload as { n: number }).n}`),
      },
    })
    const send = (aggregateId: string, body: string) =>
      bench.publisher.publish(outbound(channel.destination, 0, { aggregateId, body }), never)
    await send('good', '{"n":1}')
    await send('bad', 'no JSON')
    await bench.sendForeign(channel.destination, { headers: {}, body: 'not ours' })
    await send('bad', '{"n":1}')
    await bench.sendForeign(channel.destination, {
      headers: {
        'fencepost-message-id': 'seen',
        'fencepost-type': 'Seen',
        'fencepost-aggregate-type': 'order',
        'fencepost-aggregate-id': 'good',
      },
      body: '{}',
    })
    await send('good', '{"n":2}')
    await eventually('every message to have its end', () => kit.seenOf('consumed').length >= 6, {
      withinMs: 15_000,
    })
    expect(handled).toEqual(['good/1', 'good/2'])
    expect((await listDeadLetters(kit)).map(({ errorCode }) => errorCode).sort()).toEqual([
      'behind',
      'non_retryable',
      'unhandled_type',
      'unmapped',
    ])
  })
}

/** For brokers that carry any bytes. Redis Streams, Kafka and the mailbox are read as text (docs/reference/messages.md). */
export function bodiesOfBytes(benchOf: () => BrokerBench, postgresOf: () => PostgresServer): void {
  test('a body that is no UTF-8 is a dead letter that keeps every byte, and a mapping that reads bytes handles it', async () => {
    const [bench, kit] = [benchOf(), await testKit(postgresOf())]
    const channel = await bench.channel('bytes')
    const handled: unknown[] = []
    const bytes = gzipSync('{"n":1}')
    const headers = { 'fencepost-message-id': 'm-1', 'fencepost-type': 'OrderPlaced' }
    const unzipped: InboundMapping = ({ bytes: zipped }) =>
      zipped && { id: 'm-1', type: 'OrderPlaced', payload: JSON.parse(gunzipSync(zipped).toString()) }
    const options = {
      kit,
      subscriber: channel.subscriber,
      consumerId: 'bytes',
      handlers: { OrderPlaced: async (_tx: unknown, { payload }: Received) => handled.push(payload) },
    }
    {
      await using _before = await createConsumer(options)
      await bench.sendBytes?.(channel.destination, headers, bytes)
      await eventually('its end', () => kit.seenOf('consumed').length === 1)
    }
    const [letter] = await listDeadLetters(kit)
    expect(letter).toMatchObject({ errorCode: 'non_retryable', headers })
    await using _after = await createConsumer({ ...options, inbound: unzipped, replayIntervalMs: 20 })
    await replayDeadLetters(kit, [letter!.id])
    await eventually('its replay', () => handled.length === 1)
    expect(handled).toEqual([{ n: 1 }])
  })
}
