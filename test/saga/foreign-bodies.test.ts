// Bodies that other systems send: with a byte order mark, compressed, in another character set. None is handled as what it is not, and none is lost.
import { gunzipSync, gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import type { InboundMapping } from '../../packages/saga/src/inbound.ts'
import { cloudEventMessages, fencepostMessages } from '../../packages/saga/src/inbound-formats.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { InboxOptions } from '../../packages/saga/src/inbox-options.ts'
import { type Body, bodyOf, type Delivery, type Received } from '../../packages/saga/src/messages.ts'
import { answerOf, calls } from '../../packages/saga/src/operations/calls.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'

const json = '{"city":"Zürich"}'
/** The byte order marks are U+FEFF in each. */
const bodies = {
  'UTF-8': Buffer.from(json),
  'UTF-8 with a byte order mark': Buffer.from(`\u{FEFF}${json}`),
  gzip: gzipSync(json),
  'UTF-16': Buffer.from(`\u{FEFF}${json}`, 'utf16le'),
  'ISO 8859-1': Buffer.from(json, 'latin1'),
} as const
type Coding = keyof typeof bodies

test.each<[string, Uint8Array, Body]>([
  ['no byte', Buffer.of(), { body: '' }],
  ['ASCII', Buffer.from('{}'), { body: '{}' }],
  ['UTF-8', bodies['UTF-8'], { body: json }],
  ['U+FFFD itself', Buffer.from('\u{FFFD}'), { body: '\u{FFFD}' }],
  [
    'a byte that begins no character',
    Buffer.of(0x61, 0xff),
    { body: 'a\u{FFFD}', bytes: Buffer.of(0x61, 0xff) },
  ],
  ['a part of a larger buffer', new Uint8Array([0x61, 0x62, 0x63]).subarray(1), { body: 'bc' }],
])('the body of %s is text, and beside it bytes where the text is not all', (_, bytes, body) => {
  expect(bodyOf(bytes)).toEqual(body)
})

describe('in the inbox', () => {
  let kit: TestKit
  let handled: unknown[]
  const server = duringTests(() => startPostgres())
  beforeEach(async () => {
    kit = await testKit(server)
    handled = []
  })
  const handlers = { Moved: async (_tx: unknown, { payload }: Received) => handled.push(payload) }
  const inbox = (more: Partial<InboxOptions> = {}) =>
    new Inbox({ kit, consumerId: 'test', handlers, retryInPlaceMs: 0, ...more })
  const delivery = (body: Uint8Array, more: Partial<Delivery> = {}): Delivery => ({
    headers: { 'fencepost-message-id': 'm-1', 'fencepost-type': 'Moved' },
    properties: { 'content-type': 'application/json' },
    redelivered: false,
    ...bodyOf(body),
    ...more,
  })
  const outcomes = () => kit.seenOf('consumed').map(({ outcome }) => outcome)

  test.each<Coding>(['UTF-8', 'UTF-8 with a byte order mark'])('JSON in %s is read', async (coding) => {
    await inbox().deliver(delivery(bodies[coding]))
    expect(handled).toEqual([{ city: 'Zürich' }])
  })

  test.each<Coding>(['UTF-8', 'UTF-8 with a byte order mark'])(
    'a CloudEvent in %s is read',
    async (coding) => {
      const event = { specversion: '1.0', id: '1', source: '/x', type: 'Moved', data: JSON.parse(json) }
      const mark = coding === 'UTF-8' ? '' : '\u{FEFF}'
      const body = Buffer.from(mark + JSON.stringify(event))
      await inbox({ inbound: cloudEventMessages }).deliver(delivery(body, { headers: {} }))
      expect(handled).toEqual([{ city: 'Zürich' }])
    },
  )

  /** What an application writes for such a sender. */
  const decoders: readonly (readonly [Coding, (bytes: Uint8Array) => string])[] = [
    ['gzip', (bytes) => gunzipSync(bytes).toString()],
    ['UTF-16', (bytes) => new TextDecoder('utf-16le').decode(bytes)],
    ['ISO 8859-1', (bytes) => Buffer.from(bytes).toString('latin1')],
  ]
  const reading =
    (decode: (bytes: Uint8Array) => string): InboundMapping =>
    (given) => {
      const mapped = fencepostMessages(given)
      return mapped && given.bytes ? { ...mapped, payload: JSON.parse(decode(given.bytes)) } : mapped
    }

  test.each(decoders)('JSON in %s is handled where a mapping reads its bytes', async (coding, decode) => {
    await inbox({ inbound: reading(decode) }).deliver(delivery(bodies[coding]))
    expect(handled).toEqual([{ city: 'Zürich' }])
  })

  test.each(decoders)(
    'JSON in %s is otherwise a dead letter, which keeps every byte for a mapping that comes later',
    async (coding, decode) => {
      await inbox().deliver(delivery(bodies[coding], { properties: { 'content-encoding': 'x-odd' } }))
      expect([handled, outcomes()]).toEqual([[], ['dead_letter']])
      const [letter] = await listDeadLetters(kit)
      expect(letter).toMatchObject({
        errorCode: 'non_retryable',
        properties: { 'content-encoding': 'x-odd' },
      })
      const said = kit.seenOf('parked')[0]!.error as Error
      expect(said.message).toMatch(/no UTF-8.*content-encoding is x-odd.*delivery\.bytes/)
      await replayDeadLetters(kit, [letter!.id])
      expect(await replayOnce(kit, 'test', handlers, { inbound: reading(decode) })).toBe(1)
      expect(handled).toEqual([{ city: 'Zürich' }])
    },
  )

  test('an unmapped body of bytes is replayed as it came, and is the same message as its later deliveries', async () => {
    const given = { ...delivery(bodies.gzip), headers: { n: '7' }, deliveryId: 'orders 0 1' }
    await inbox().deliver(given)
    const ours: InboundMapping = ({ headers, bytes }) => ({
      id: `n ${headers.n}`,
      type: 'Moved',
      payload: JSON.parse(gunzipSync(bytes!).toString()),
    })
    await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
    expect(await replayOnce(kit, 'test', handlers, { inbound: ours })).toBe(1)
    await inbox({ inbound: ours }).deliver(given)
    expect([handled, outcomes()]).toEqual([[{ city: 'Zürich' }], ['dead_letter', 'duplicate']])
  })

  test('bodies that are one text and different bytes are no duplicates under one id', async () => {
    const inbound: InboundMapping = () => ({ id: 'm-1', type: 'Moved', payload: 1 })
    for (const last of [0xfe, 0xff]) await inbox({ inbound }).deliver(delivery(Buffer.of(0x61, last)))
    expect([handled, outcomes()]).toEqual([[1], ['processed', 'dead_letter']])
  })

  test('a binary CloudEvent of another format than text is handed over as bytes', async () => {
    const attributes = { specversion: '1.0', id: '1', source: '/x', type: 'Moved' }
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`ce_${name}`, value]),
    )
    const properties = { 'content-type': 'application/avro' }
    const avro = Buffer.of(2, 0x80, 0xff)
    await inbox({ inbound: cloudEventMessages }).deliver(delivery(avro, { headers, properties }))
    expect(handled).toEqual([avro])
  })

  test('a structured CloudEvent that is no UTF-8 is a dead letter and not its likeness', async () => {
    const properties = { 'content-type': 'application/cloudevents+json' }
    const event = '{"specversion":"1.0","id":"1","source":"/x","type":"Moved","data":"Zürich"}'
    await inbox({ inbound: cloudEventMessages }).deliver(
      delivery(Buffer.from(event, 'latin1'), { headers: {}, properties }),
    )
    expect([handled, outcomes()]).toEqual([[], ['dead_letter']])
  })

  test('a dead letter shows what came with it, and the reason names what a mapping could have read', async () => {
    const properties = { 'routing-key': 'orders', type: 'Moved' }
    await inbox().deliver(delivery(bodies['UTF-8'], { headers: { 'Idempotency-Key': 'secret' }, properties }))
    const [letter] = await listDeadLetters(kit)
    expect(letter).toMatchObject({ headers: { 'Idempotency-Key': 'secret' }, properties })
    expect(letter!.errorMessage).toMatch(/\(headers: Idempotency-Key; of the broker: routing-key, type\)/)
    expect(letter!.errorMessage).not.toContain('secret')
    // What a sender put into its headers is not for everyone who may call the handler.
    const by = { name: 'bob', role: 'operate' } as const
    const shown = await answerOf(calls.listDeadLetters, kit, { id: '', input: { limit: '10' }, by })
    expect(shown).toMatchObject({ dead_letters: [{ messageId: letter!.messageId }] })
    expect(JSON.stringify(shown)).not.toContain('secret')
  })
})
