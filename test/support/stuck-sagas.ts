/** What waits for a person: a saga that is parked, and a message that was given up. */
import { createOutboxRelay, createSagaRunner, defineSaga, publish, type SagaKit } from '@fencepost/saga'
import { RecordingPublisher } from './recording-publisher.ts'

/** A saga whose second step is refused; `repair` lets it through. */
export async function parkedSaga(kit: SagaKit, sagaId: string, input: unknown = { order: sagaId }) {
  let broken = true
  const charge = {
    name: 'charge',
    maxAttempts: 1,
    effect: async () => {
      if (broken) throw new Error('the provider is down')
    },
  }
  const definitions = [defineSaga('order', [{ name: 'reserve-stock', pivot: true }, charge])]
  const runner = createSagaRunner({ kit, definitions, backoff: { initialMs: 0, maxMs: 0 } })
  await kit.transaction((tx) => runner.begin(tx, 'order', { sagaId, input }))
  await runner.runOnce()
  return {
    repair: async () => {
      broken = false
      await runner.runOnce()
    },
  }
}

export async function givenUpMessage(
  kit: SagaKit,
  aggregateId: string,
  payload: unknown = {},
): Promise<void> {
  const publisher = new RecordingPublisher()
  publisher.react = () => 'refuse'
  await kit.transaction((tx) =>
    publish(kit, tx, { aggregateType: 'order', aggregateId, type: 'OrderPaid', payload }),
  )
  await using relay = createOutboxRelay({ kit, publisher, retry: { maxAttempts: 1 } })
  await relay.drainOnce()
}
