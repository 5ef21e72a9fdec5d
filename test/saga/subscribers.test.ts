// A subscriber of events that throws changes no outcome, and is heard of.
import { expect, test, vi } from 'vitest'
import { createMailboxPublisher } from '../../packages/saga/src/brokers/mailbox.ts'
import { listDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import type { SagaEvents } from '../../packages/saga/src/events.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { newMessageId, outboxLag, publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { getSaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, orderEvent, orderMessage, testKit } from '../support/saga-kit.ts'

const server = duringTests(() => startPostgres())

const reject: SagaEvents = async () => {
  throw new Error('a label is missing')
}
test.each<[string, SagaEvents]>([
  [
    'throws',
    () => {
      throw new Error('a label is missing')
    },
  ],
  ['rejects', reject],
])(
  'whatever a subscriber that %s says, messages are sent once, handled once, and sagas end',
  async (_, events) => {
    using console_ = vi.spyOn(console, 'error').mockImplementation(() => {})
    const kit = await testKit(server, { events })
    await kit.transaction((tx) => publish(kit, tx, orderEvent('Paid', 'a', { destination: 'q' })))
    await using relay = createOutboxRelay({
      kit,
      publisher: createMailboxPublisher(kit),
      retry: { maxAttempts: 1 },
    })
    expect(await relay.drainOnce()).toBe(1)
    expect([await outboxLag(kit), await countOf(kit, 'mailbox')]).toMatchObject([{ pending: 0 }, 1])
    let handled = 0
    const inbox = new Inbox({ kit, consumerId: 'test', handlers: { Paid: async () => (handled += 1) } })
    const message = orderMessage(newMessageId(kit), 'Paid', 'a', { createdAt: '' })
    expect(await inbox.receive(message)).toEqual({ kind: 'ack' })
    const runner = createSagaRunner({ kit, definitions: [defineSaga('order', [{ name: 'one' }])] })
    await kit.transaction((tx) => runner.begin(tx, 'order', { sagaId: 'a', input: {} }))
    await runner.runOnce()
    expect((await getSaga(kit, 'a'))!.status).toBe('completed')
    expect([handled, await listDeadLetters(kit)]).toEqual([1, []])
    expect(console_).toHaveBeenCalledExactlyOnceWith(
      'fencepost saga: a subscriber of events threw: a label is missing',
    )
  },
)
