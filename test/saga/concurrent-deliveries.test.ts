// A message that kills its process becomes a dead letter alone: its neighbours, which died with it, are handled.
import { expect, test } from 'vitest'
import { createMailboxPublisher } from '../../packages/saga/src/brokers/mailbox.ts'
import { ConcurrentDeliveries } from '../../packages/saga/src/concurrent-deliveries.ts'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { NonRetryableError } from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { enter } from '../../packages/saga/src/inbox-rows.ts'
import type { InboundMessage } from '../../packages/saga/src/messages.ts'
import { newMessageId, publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { TestProcess } from '../support/processes.ts'
import { countOf, orderEvent, orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const server = duringTests(() => startPostgres())

/** The consumer after five that the message has killed. */
async function startedAfterDeaths(kit: TestKit): Promise<TestProcess> {
  const script = `${import.meta.dirname}/../support/dying-consumer.ts`
  const start = () => new TestProcess(process.execPath, [script, server.url, kit.schemaName])
  for (let deaths = 0; deaths < 5; deaths += 1) {
    await using consumer = start()
    expect(await consumer.exited).toMatchObject({ signal: 'SIGKILL' })
  }
  return start()
}

test('a message that kills its process takes no other message with it into the dead letters', async () => {
  const kit = await testKit(server)
  await using relay = createOutboxRelay({ kit, publisher: createMailboxPublisher(kit) })
  for (const [index, type] of ['Good', 'Good', 'Poison', 'Good', 'Good'].entries())
    await kit.transaction((tx) => publish(kit, tx, orderEvent(type, `${index}`, { destination: 'orders' })))
  await relay.drainOnce()
  await using survivor = await startedAfterDeaths(kit)
  await survivor.until('an empty mailbox', async () => (await countOf(kit, 'mailbox')) === 0)
  expect(await listDeadLetters(kit)).toMatchObject([
    { type: 'Poison', errorCode: 'never_ended', errorMessage: expect.stringContaining('5 deliveries') },
  ])
  expect(await countOf(kit, `inbox WHERE status = 'processed'`)).toBe(4)
})

/** A dead letter whose replay was asked for, and how to ask for it again. */
async function replayedDeadLetter() {
  const kit = await testKit(server)
  const failing = async () => {
    throw new NonRetryableError('no')
  }
  const inbox = new Inbox({ kit, consumerId: 'test', handlers: { Poison: failing } })
  const headers = { 'fencepost-message-id': newMessageId(kit), 'fencepost-type': 'Poison' }
  await inbox.deliver({ headers, properties: {}, body: '{}', redelivered: false })
  const [letter] = await listDeadLetters(kit)
  const replayed = () => replayDeadLetters(kit, [letter!.id])
  await replayed()
  return { kit, replayed }
}

// Bug: it stayed `replaying`, and each process that was started began it again, and died.
test('a dead letter that kills its process is dead again after five replays, and the next process lives', async () => {
  const { kit, replayed } = await replayedDeadLetter()
  await using survivor = await startedAfterDeaths(kit)
  await survivor.until(
    'the letter to be dead',
    async () => (await listDeadLetters(kit))[0]?.status === 'dead',
  )
  expect(await listDeadLetters(kit)).toMatchObject([
    { type: 'Poison', errorMessage: expect.stringContaining('its process died each time') },
  ])
  await survivor.end({ signal: 'SIGKILL' })
  // A person may ask for it again, when the handler is better.
  await replayed()
  const better = { Poison: async () => {} }
  // Until the server has noticed that the process is gone, its transaction may hold the letter.
  await eventually('the letter to be replayed', async () => (await replayOnce(kit, 'test', better)) === 1)
})

// Bug: found where the test above failed by chance. That the letter was dead and that its replay had ended were two statements.
test('a process that is killed as soon as the letter is dead leaves no count to the next replay', async () => {
  const { kit, replayed } = await replayedDeadLetter()
  // As five processes that died of it leave it.
  await kit.pool.query(`UPDATE ${kit.schema}.inbox SET unfinished = 5`)

  let killed = false
  const query: TestKit['query'] = async (text, values) => {
    if (killed) throw new Error('the process is gone')
    const answer = await kit.query(text, values)
    killed = text.includes("SET status = 'dead'")
    return answer as never
  }
  const better = { Poison: async () => {} }
  expect(await replayOnce({ ...kit, query }, 'test', better)).toBe(0)
  expect(killed).toBe(true)
  expect(await listDeadLetters(kit)).toMatchObject([{ status: 'dead' }])

  await replayed()
  expect(await replayOnce(kit, 'test', better)).toBe(1)
})

/** An inbox whose handler begins, tells so, and ends on demand. */
function heldInbox(kit: TestKit) {
  const begun: string[] = []
  const ends = new Map<string, PromiseWithResolvers<void>>()
  const endOf = (id: string) => {
    if (!ends.has(id)) ends.set(id, Promise.withResolvers())
    return ends.get(id)!
  }
  const inbox = new Inbox({
    kit,
    consumerId: 'test',
    retryInPlaceMs: 0,
    handlers: {
      Paid: {
        outside: async ({ aggregateId, body }) => {
          begun.push(`${aggregateId}${body}`)
          await endOf(`${aggregateId}${body}`).promise
        },
      },
    },
  })
  const message = (aggregateId: string, n: number, redelivered = false): InboundMessage =>
    orderMessage(newMessageId(kit), 'Paid', aggregateId, {
      body: `${n}`,
      createdAt: new Date().toISOString(),
      redelivered,
    })
  return { inbox, begun, message, end: (id: string) => endOf(id).resolve() }
}

/** The traces of dead processes. */
const unfinished = (kit: TestKit, inbox: Inbox, message: InboundMessage, count: number) =>
  inbox
    .receive(message)
    .then(() =>
      kit.pool.query(
        `UPDATE ${kit.schema}.inbox SET status = 'received', processed_at = NULL, unfinished = $2 WHERE message_id = $1`,
        [message.messageId, count],
      ),
    )

/** A message with so many deliveries without an end, to be delivered again while another message is in progress. */
async function suspectBehindAnother(count: number) {
  const kit = await testKit(server)
  const { inbox, begun, message, end } = heldInbox(kit)
  const suspect = message('s', 1, true)
  end('s1')
  await unfinished(kit, inbox, suspect, count)
  begun.length = 0
  const other = inbox.receive(message('a', 1))
  await expect.poll(() => begun).toEqual(['a1'])
  return { kit, inbox, begun, message, end, suspect, other }
}

test('a suspect begins when nothing else is in progress, and nothing begins beside it', async () => {
  const { kit, inbox, begun, message, end, suspect, other } = await suspectBehindAnother(1)
  const waiting = inbox.receive(suspect)
  await expect.poll(() => countOf(kit, `inbox WHERE unfinished = 2 AND status = 'waiting'`)).toBe(1)
  const late = inbox.receive(message('b', 1))
  end('b1')
  expect(begun).toEqual(['a1'])
  end('a1')
  expect(await Promise.all([other, waiting, late])).toEqual(Array(3).fill({ kind: 'ack' }))
  expect(begun).toEqual(['a1', 's1', 'b1'])
})

test('a suspect that waits keeps its place before the next message of its sequence, also in another process', async () => {
  const { kit, inbox, message, end, suspect, other } = await suspectBehindAnother(1)
  const waiting = inbox.receive(suspect)
  await expect.poll(() => countOf(kit, `inbox WHERE status = 'waiting'`)).toBe(1)
  const { rows } = await kit.pool.query(
    `SELECT ordering_key FROM ${kit.schema}.inbox WHERE message_id = $1`,
    [suspect.messageId],
  )
  const entry = {
    consumerId: 'test',
    message: message('s', 2),
    hash: Buffer.from('x'),
    orderingKey: rows[0].ordering_key,
    retentionMs: 1_000,
  }
  expect(await kit.transaction((tx) => enter(kit, tx, entry))).toMatchObject({ kind: 'later' })
  end('a1')
  await Promise.all([other, waiting])
})

test('deaths beside others make a suspect and no more; a suspect counts its deliveries when it is alone', async () => {
  const { kit, inbox, begun, end, suspect, other } = await suspectBehindAnother(2)
  const waiting = Array.from({ length: 5 }, () => inbox.receive(suspect))
  await expect.poll(() => countOf(kit, `inbox WHERE status = 'waiting' AND unfinished = 2`)).toBe(1)
  end('a1')
  expect(await Promise.all([other, ...waiting])).toEqual(Array(6).fill({ kind: 'ack' }))
  expect(begun).toEqual(['a1', 's1'])
  expect(await listDeadLetters(kit)).toEqual([])
})

test('an inbox that stops gives back what waits for its turn', async () => {
  const { kit, inbox, begun, end, suspect, other } = await suspectBehindAnother(1)
  const waiting = inbox.receive(suspect)
  await expect.poll(() => countOf(kit, `inbox WHERE status = 'waiting'`)).toBe(1)
  inbox.stop()
  end('a1')
  expect(await other).toEqual({ kind: 'ack' })
  expect(await waiting).toEqual({ kind: 'again', delayMs: 0 })
  expect(begun).toEqual(['a1'])
})

test('they come in the order in which they asked; one that is alone lets nobody in', async () => {
  const [deliveries, clock] = [new ConcurrentDeliveries(60_000), new VirtualClock()]
  const began: string[] = []
  const ask = (name: string, alone: boolean) =>
    deliveries.enter(clock, alone).then((leave) => {
      began.push(name)
      return leave
    })
  const [a, b] = [ask('a', false), ask('b', false)]
  const [s, t, c] = [ask('s', true), ask('t', true), ask('c', false)]
  await clock.advance(0)
  expect(began).toEqual(['a', 'b'])
  for (const [ending, then] of [
    [a, ['a', 'b']],
    [b, ['a', 'b', 's']],
    [s, ['a', 'b', 's', 't']],
    [t, ['a', 'b', 's', 't', 'c']],
    [c, ['a', 'b', 's', 't', 'c']],
  ] as const) {
    ;(await ending)()
    await clock.advance(0)
    expect(began).toEqual(then)
  }
  expect(clock.pendingTimers).toBe(0)
})

test('a handler that waits for another message of its process stands still for a while and not for ever', async () => {
  const [deliveries, clock] = [new ConcurrentDeliveries(60_000), new VirtualClock()]
  const leaveOuter = await deliveries.enter(clock, false)
  const [alone, inner] = [deliveries.enter(clock, true), deliveries.enter(clock, false)]
  const began: string[] = []
  void alone.then(() => began.push('alone'))
  void inner.then(() => began.push('inner'))
  await clock.advance(59_999)
  expect(began).toEqual([])
  await clock.advance(1)
  expect(began).toEqual(['alone'])
  await clock.advance(60_000)
  expect(began).toEqual(['alone', 'inner'])
  for (const leave of [await alone, await inner, leaveOuter]) leave()
  await (await deliveries.enter(clock, true))()
  expect(clock.pendingTimers).toBe(0)
})
