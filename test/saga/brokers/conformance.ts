/**
 * What every broker adapter must do, on the real broker. A new adapter runs this first; only the bench is its own.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BrokerUnavailableError, PublishRefusedError } from '../../../packages/saga/src/errors.ts'
import { readDelivery } from '../../../packages/saga/src/inbound.ts'
import { fencepostMessages } from '../../../packages/saga/src/inbound-formats.ts'
import type {
  InboundMessage,
  MessagePublisher,
  MessageSubscriber,
  OutboundMessage,
  Verdict,
} from '../../../packages/saga/src/messages.ts'
import { eventually } from '../../support/eventually.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'
import { TestProcess } from '../../support/processes.ts'
import { outboxToConsumer } from './end-to-end.ts'
import { bodiesOfBytes, type Foreign, foreignMessages } from './foreign-messages.ts'

/** Short, for the test that waits for it, and far above what a busy machine needs to handle one message. */
export const VISIBILITY_MS = 3_000

export type Channel = {
  readonly destination: string
  readonly subscriber: MessageSubscriber
  /** The same subscriber for another process: module, factory and its options, which JSON can carry. */
  readonly elsewhere?: { readonly module: string; readonly factory: string; readonly options: unknown }
}

export type BrokerBench = AsyncDisposable & {
  readonly publisher: MessagePublisher
  /** Another one, not connected yet. */
  freshPublisher(): MessagePublisher
  /** A fresh queue, stream or subject. A message of a dead consumer comes again there after {@link VISIBILITY_MS}. */
  channel(name: string): Promise<Channel>
  /** Sends as another system does: with these headers and none of ours. */
  sendForeign(destination: string, foreign: Foreign): Promise<void>
  /** The same with a body that is no text, where the broker carries any bytes. */
  sendBytes?(destination: string, headers: Record<string, string>, body: Uint8Array): Promise<void>
  /** A destination without a receiver, where the broker can tell. */
  readonly nowhere?: string
  /** It waits in place for messages to be retried, and takes the first that it reads for a redelivery. */
  readonly isLog?: true
  /** SIGKILL of the broker, and its start. */
  kill(): Promise<void>
  start(): Promise<void>
}

let ids = 0
export function outbound(
  destination: string,
  n: number,
  more: Partial<OutboundMessage> = {},
): OutboundMessage {
  ids += 1
  return {
    messageId: `00000000-0000-4000-8000-${String(ids).padStart(12, '0')}`,
    aggregateType: 'order',
    aggregateId: `o-${n}`,
    type: 'Numbered',
    destination,
    body: JSON.stringify({ n }),
    headers: {},
    createdAt: '2026-01-02T03:04:05.678Z',
    ...more,
  }
}

const never = new AbortController().signal
const ack: Verdict = { kind: 'ack' }
const numberOf = ({ body }: InboundMessage): number => JSON.parse(body).n

/** Subscribes with a handler that keeps its messages and answers as told. */
async function listening(
  channel: Channel,
  react: (message: InboundMessage) => Verdict | Promise<Verdict> = () => ack,
  concurrency = 10,
) {
  const got: InboundMessage[] = []
  const errors: unknown[] = []
  const subscription = await channel.subscriber.subscribe(
    async (delivery) => {
      const { message } = readDelivery(fencepostMessages, delivery)
      got.push(message)
      return react(message)
    },
    { concurrency, onError: (error) => errors.push(error) },
  )
  return {
    got,
    errors,
    close: () => subscription.close(),
    [Symbol.asyncDispose]: () => subscription.close(),
  }
}

/** `carriesBytes`: its bench has `sendBytes`. */
export function brokerConformance(
  startBench: () => Promise<BrokerBench>,
  { carriesBytes = false } = {},
): void {
  let bench: BrokerBench
  let postgres: PostgresServer
  beforeAll(async () => {
    ;[bench, postgres] = await Promise.all([startBench(), startPostgres()])
  }, 300_000)
  afterAll(async () => {
    await bench?.[Symbol.asyncDispose]()
    await postgres?.[Symbol.asyncDispose]()
  })

  test('a message arrives with everything it carries', async () => {
    const channel = await bench.channel('whole')
    await using listener = await listening(channel)
    const message = outbound(channel.destination, 1, {
      body: JSON.stringify({ text: 'Grüße, 世界 \u0000 😀', n: 1 }),
      headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tenant: 'a b' },
    })
    await bench.publisher.publish(message, never)
    await eventually('the message', () => listener.got.length === 1)
    const { destination: _, ...carried } = message
    expect(listener.got[0]).toEqual({ ...carried, redelivered: bench.isLog === true })
  })

  test('an acknowledged message does not come again', async () => {
    const channel = await bench.channel('acked')
    {
      await using listener = await listening(channel)
      for (let n = 0; n < 20; n += 1) await bench.publisher.publish(outbound(channel.destination, n), never)
      await eventually('all messages', () => listener.got.length === 20)
    }
    await using again = await listening(channel)
    await bench.publisher.publish(outbound(channel.destination, 99), never)
    await eventually('the new message', () => again.got.length > 0)
    expect(again.got.map(numberOf)).toEqual([99])
  })

  test('a message to be retried comes again later; others go on meanwhile', async () => {
    const channel = await bench.channel('again')
    const beganMs = performance.now()
    let backMs = 0
    await using listener = await listening(channel, (message) => {
      if (numberOf(message) !== 1) return ack
      if (listener.got.filter((one) => numberOf(one) === 1).length === 1)
        return { kind: 'again', delayMs: 2_000 }
      backMs = performance.now() - beganMs
      return ack
    })
    await bench.publisher.publish(outbound(channel.destination, 1), never)
    await bench.publisher.publish(outbound(channel.destination, 2), never)
    await eventually('all three deliveries', () => listener.got.length === 3, { withinMs: 15_000 })
    expect(listener.got.map(numberOf)).toEqual(bench.isLog ? [1, 1, 2] : [1, 2, 1])
    // Brokers with fixed delays may be early, down to the next shorter one.
    expect(backMs).toBeGreaterThan(990)
    expect(listener.got[bench.isLog ? 1 : 2]).toMatchObject({
      messageId: listener.got[0]!.messageId,
      body: listener.got[0]!.body,
    })
  })

  test('no more messages are handed out at once than the limit', async () => {
    const channel = await bench.channel('limit')
    let under = 0
    let most = 0
    await using listener = await listening(
      channel,
      async () => {
        under += 1
        most = Math.max(most, under)
        await new Promise(setImmediate)
        under -= 1
        return ack
      },
      3,
    )
    for (let n = 0; n < 60; n += 1) await bench.publisher.publish(outbound(channel.destination, n), never)
    await eventually('all messages', () => listener.got.length === 60, { withinMs: 15_000 })
    expect(most).toBeLessThanOrEqual(3)
  })

  test('closing waits for messages being handled', async () => {
    const channel = await bench.channel('closing')
    const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const listener = await listening(channel, async () => {
      entered.resolve()
      await go.promise
      return ack
    })
    await bench.publisher.publish(outbound(channel.destination, 1), never)
    await entered.promise
    let closed = false
    const closing = listener.close().then(() => {
      closed = true
    })
    await new Promise(setImmediate)
    expect(closed).toBe(false)
    go.resolve()
    await closing
  })

  test('a message without a destination is refused, where the broker can tell', async () => {
    const { nowhere } = bench
    // A stream or a mailbox is created by the first write: every destination exists.
    const sent = bench.publisher.publish(
      outbound(nowhere ?? (await bench.channel('somewhere')).destination, 1),
      never,
    )
    if (nowhere === undefined) await expect(sent).resolves.toBeUndefined()
    else await expect(sent).rejects.toBeInstanceOf(PublishRefusedError)
    const channel = await bench.channel('after-nowhere')
    const destinations = Array.from({ length: 9 }, (_, n) => (n === 4 && nowhere) || channel.destination)
    const together = await Promise.allSettled(
      destinations.map((destination, n) => bench.publisher.publish(outbound(destination, n), never)),
    )
    // It alone is refused, also when others are sent beside it.
    expect(together.map(({ status }) => status)).toEqual(
      destinations.map((destination) => (destination === nowhere ? 'rejected' : 'fulfilled')),
    )
  })

  test('from the outbox to the inbox: every event once, each aggregate in order, failures included', async () => {
    await outboxToConsumer(postgres, bench.publisher, await bench.channel('end-to-end'))
  })

  foreignMessages(
    () => bench,
    () => postgres,
  )
  if (carriesBytes)
    bodiesOfBytes(
      () => bench,
      () => postgres,
    )

  test('messages that a killed consumer held come again, marked as redelivered', async () => {
    const channel = await bench.channel('killed')
    if (channel.elsewhere !== undefined) {
      const { module, factory, options } = channel.elsewhere
      const script = join(import.meta.dirname, '../../support/hanging-consumer.ts')
      await using consumer = new TestProcess(process.execPath, [
        script,
        module,
        factory,
        JSON.stringify(options),
      ])
      await bench.publisher.publish(outbound(channel.destination, 7), never)
      await consumer.line(/took/)
      await consumer.end({ signal: 'SIGKILL' })
    } else await bench.publisher.publish(outbound(channel.destination, 7), never)
    await using listener = await listening(channel)
    await eventually('the message', () => listener.got.length === 1, { withinMs: 15_000 })
    expect(listener.got[0]).toMatchObject({
      body: '{"n":7}',
      redelivered: channel.elsewhere !== undefined,
    })
  })

  test('the broker is killed: no confirmed message is lost, and both sides reconnect by themselves', async () => {
    const channel = await bench.channel('outage')
    await using listener = await listening(channel)
    const confirmed = new Set<number>()
    const faults = new Set<string>()
    const send = async (n: number) => {
      try {
        await bench.publisher.publish(outbound(channel.destination, n), never)
        confirmed.add(n)
      } catch (error) {
        const { cause } = error as { cause?: unknown }
        faults.add(error instanceof BrokerUnavailableError ? 'unavailable' : `${error}: ${cause}`)
      }
    }
    for (let n = 0; n < 20; n += 1) await send(n)
    const during = (async () => {
      for (let n = 20; faults.size === 0 && n < 100_000; n += 1) await send(n)
    })()
    await bench.kill()
    await during
    const late = bench.freshPublisher()
    await expect(late.publish(outbound(channel.destination, -1), never)).rejects.toBeInstanceOf(
      BrokerUnavailableError,
    )
    await bench.start()
    await eventually(
      'a publisher that began while the broker was away',
      async () => {
        await late.publish(outbound(channel.destination, -2), never)
        return true
      },
      { withinMs: 30_000, everyMs: 100 },
    )
    await late.close()
    await eventually(
      'a publisher that is back',
      async () => {
        const before = confirmed.size
        await send(1_000_000 + before)
        return confirmed.size > before
      },
      { withinMs: 30_000, everyMs: 100 },
    )
    await eventually(
      'everything that was confirmed',
      () => {
        const seen = new Set(listener.got.map(numberOf))
        return [...confirmed].every((n) => seen.has(n))
      },
      { withinMs: 30_000 },
    )
    expect([...faults]).toEqual(['unavailable'])
  }, 300_000)
}
