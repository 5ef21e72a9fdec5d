// The option `quorum` of a consumer: a duplicate of a message in progress waits without the database, and PostgreSQL decides.
import { type Client, createClient } from '@fencepost/client'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { InboxOptions } from '../../packages/saga/src/inbox-options.ts'
import type { SagaKit } from '../../packages/saga/src/kit.ts'
import type { Handler, InboundMessage } from '../../packages/saga/src/messages.ts'
import { derivedKey } from '../../packages/saga/src/request-hash.ts'
import { eventually } from '../support/eventually.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { startReservationApi, type TestApi } from '../support/reservation-api.ts'
import { orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let server: PostgresServer
let api: TestApi
let client: Client
let kit: TestKit
let clock: VirtualClock
beforeAll(async () => {
  ;[server, api] = await Promise.all([startPostgres(), startReservationApi()])
  client = createClient({ url: api.origin })
})
afterAll(async () => {
  await api[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})
beforeEach(async () => {
  clock = new VirtualClock()
  kit = await testKit(server, { clock })
})

const message = (messageId: string, aggregateId = ''): InboundMessage =>
  orderMessage(messageId, 'Paid', aggregateId, { createdAt: '' })
const inboxOf = (one: SagaKit, handler: Handler, options: Partial<InboxOptions> = {}) =>
  new Inbox({
    kit: one,
    consumerId: 'c',
    handlers: { Paid: handler },
    quorum: { client },
    retryInPlaceMs: 0,
    ...options,
  })
/** Another process on the same tables: it has a pool and a clock of its own. */
const otherKit = () => testKit(server, { pool: server.pool(), schema: kit.schemaName, clock })
const outcomesOf = (one: TestKit) => one.seenOf('consumed').map(({ outcome }) => outcome)

/** A process in the middle of a message. */
async function handlingElsewhere(messageId: string, aggregateId = '') {
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const inbox = inboxOf(kit, async () => {
    entered.resolve()
    await go.promise
  })
  const verdict = inbox.receive(message(messageId, aggregateId))
  await entered.promise
  return {
    async finish() {
      go.resolve()
      expect(await verdict).toEqual({ kind: 'ack' })
    },
  }
}

test('a duplicate of a message that another process handles goes back to the broker, without a connection', async () => {
  const elsewhere = await handlingElsewhere('m-1')
  const mine = await otherKit()
  const idle = mine.pool.totalCount
  let handled = 0
  const inbox = inboxOf(mine, async () => {
    handled += 1
  })
  let queries = 0
  mine.pool.on('acquire', () => {
    queries += 1
  })
  expect(await inbox.receive(message('m-1'))).toEqual({ kind: 'again', delayMs: 1_000 })
  expect([queries, mine.pool.totalCount]).toEqual([0, idle])
  await elsewhere.finish()
  expect(await inbox.receive(message('m-1'))).toEqual({ kind: 'ack' })
  expect([handled, outcomesOf(mine)]).toEqual([0, ['defer', 'duplicate']])
})

test('without the option the same duplicate holds a connection until the other process has committed', async () => {
  const elsewhere = await handlingElsewhere('m-1')
  const mine = await otherKit()
  const plain = new Inbox({ kit: mine, consumerId: 'c', handlers: { Paid: async () => {} } })
  let over = false
  const verdict = plain.receive(message('m-1')).finally(() => {
    over = true
  })
  await eventually('a connection in use', () => mine.pool.totalCount - mine.pool.idleCount === 1)
  expect(over).toBe(false)
  await elsewhere.finish()
  expect(await verdict).toEqual({ kind: 'ack' })
})

test('an ordered duplicate waits in its place, and what is behind it in its sequence does, too', async () => {
  const elsewhere = await handlingElsewhere('m-1', 'a')
  const mine = await otherKit()
  const handled: string[] = []
  const inbox = inboxOf(mine, async (_tx: unknown, { messageId }: InboundMessage) => handled.push(messageId))
  const verdicts = Promise.all([inbox.receive(message('m-1', 'a')), inbox.receive(message('m-2', 'a'))])
  await eventually('the refusal', () => outcomesOf(mine).length === 1)
  await elsewhere.finish()
  expect(handled).toEqual([])
  await eventually('both verdicts', async () => {
    await clock.advance(1_000)
    return outcomesOf(mine).includes('processed')
  })
  expect([await verdicts, handled]).toEqual([[{ kind: 'ack' }, { kind: 'ack' }], ['m-2']])
  expect(outcomesOf(mine).filter((outcome) => outcome !== 'defer')).toEqual(['duplicate', 'processed'])
})

test('a retry does not meet the reservation of its own first attempt', async () => {
  let attempts = 0
  const inbox = inboxOf(kit, async () => {
    attempts += 1
    if (attempts === 1) throw new Error('not the first time')
  })
  expect(await inbox.receive(message('m-1'))).toMatchObject({ kind: 'again' })
  await clock.advance(60_000)
  await kit.pool.query(`UPDATE ${kit.schema}.inbox SET next_attempt_at = clock_timestamp()`)
  expect(await inbox.receive(message('m-1'))).toEqual({ kind: 'ack' })
  expect(outcomesOf(kit)).toEqual(['retry', 'processed'])
})

test('PostgreSQL decides: what only the quorum has as done is handled, and what only PostgreSQL has is a duplicate', async () => {
  const quorumValueOf = (id: string) => derivedKey(['inbox', kit.schemaName, 'c', id])
  await (await client.reserve(quorumValueOf('m-1'))).complete()
  const inbox = inboxOf(kit, async () => {})
  expect(await inbox.receive(message('m-1'))).toEqual({ kind: 'ack' })
  expect(await inbox.receive(message('m-1'))).toEqual({ kind: 'ack' })
  expect(outcomesOf(kit)).toEqual(['processed', 'duplicate'])
})

test('two consumers of one database do not refuse each other the same message', async () => {
  const elsewhere = await handlingElsewhere('m-1')
  const mine = await otherKit()
  const other = inboxOf(mine, async () => {}, { consumerId: 'd' })
  expect(await other.receive(message('m-1'))).toEqual({ kind: 'ack' })
  await elsewhere.finish()
})

const silent: typeof fetch = (_url, init) =>
  new Promise((_resolve, reject) => {
    init?.signal?.addEventListener('abort', () => reject(init.signal!.reason))
  })

test.each<[string, () => Client]>([
  ['refuses connections', () => createClient({ url: 'http://127.0.0.1:9', retryForMs: 0 })],
  ['does not answer', () => createClient({ fetch: silent, callTimeoutMs: 60_000, retryForMs: 60_000 })],
])(
  'a quorum that %s delays one message by a second at most, and the next ones not at all',
  async (_, away) => {
    let calls = 0
    const made = away()
    const counted: Client = {
      ...made,
      reserve: (...args) => {
        calls += 1
        return made.reserve(...args)
      },
    }
    const inbox = inboxOf(kit, async () => {}, { quorum: { client: counted } })
    const first = inbox.receive(message('m-1'))
    await eventually('the call', () => calls === 1)
    await clock.advance(1_000)
    expect(await first).toEqual({ kind: 'ack' })
    for (const id of ['m-2', 'm-3']) expect(await inbox.receive(message(id))).toEqual({ kind: 'ack' })
    expect([calls, kit.seenOf('consumer_error').length]).toEqual([1, 1])
    await clock.advance(10_000)
    const later = inbox.receive(message('m-4'))
    await eventually('the next call', () => calls === 2)
    await clock.advance(1_000)
    expect(await later).toEqual({ kind: 'ack' })
  },
)
