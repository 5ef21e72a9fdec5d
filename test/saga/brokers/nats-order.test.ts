// What a subscriber of NATS holds without handling it comes again late, and after newer messages.
import { expect, test } from 'vitest'
import { createNatsPublisher, createNatsSubscriber } from '../../../packages/saga/src/brokers/nats.ts'
import type { Verdict } from '../../../packages/saga/src/messages.ts'
import { closing } from '../../support/closing.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startNats } from '../../support/nats-server.ts'
import { outbound } from './conformance.ts'

const server = duringTests(() => startNats())

/** How many are handled at once. */
const together = 4

type Handled = { readonly body: string; readonly redelivered: boolean }

const bodies = (count: number) => Array.from({ length: count }, (_, n) => `{"n":${n + 1}}`)

async function bench(stream: string, ackWaitMs: number, messages: number) {
  const connection = { servers: server.url }
  const got: Handled[] = []
  const go = Promise.withResolvers<Verdict>()
  const consume = () =>
    createNatsSubscriber({ connection, stream, subjects: [stream], durable: 'test', ackWaitMs }).subscribe(
      async ({ body, redelivered }) => {
        got.push({ body, redelivered })
        return got.length <= together ? go.promise : { kind: 'ack' }
      },
      { concurrency: together, onError: () => {} },
    )
  const first = await consume()
  const publisher = createNatsPublisher({ connection })
  for (let n = 1; n <= messages; n += 1)
    await publisher.publish(outbound(stream, n), new AbortController().signal)
  await publisher.close()
  await eventually('the first messages', () => got.length === together)
  return { got, first, consume, end: () => go.resolve({ kind: 'ack' }) }
}

test('a consumer that is closed leaves no message behind that newer ones overtake', async () => {
  const { got, first, consume, end } = await bench('deployed', 30_000, 12)
  const closed = first.close()
  end()
  await closed
  await using _second = closing(await consume())
  await eventually('all messages', () => got.length === 12)
  expect(got.map(({ body }) => body)).toEqual(bodies(12))
})

// Bug: nobody kept a message that waited in the client, so the server took it for lost while another was handled.
test('a message behind one that takes longer than ackWaitMs is delivered once', async () => {
  const { got, first, end } = await bench('slow', 1_000, 12)
  const beganMs = performance.now()
  await eventually('more than two ackWaitMs', () => performance.now() - beganMs > 2_500)
  end()
  try {
    await eventually('the others', () => new Set(got.map(({ body }) => body)).size === 12)
    expect(got).toEqual(bodies(12).map((body) => ({ body, redelivered: false })))
  } finally {
    await first.close()
  }
})
