// Sagas that messages drive, without a runner: the same calls list, show, retry and compensate them.
import { beforeEach, describe, expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { BusinessError, NonRetryableError, StepSuspendedError } from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { Handler } from '../../packages/saga/src/messages.ts'
import { newMessageId } from '../../packages/saga/src/outbox.ts'
import { defineSaga, defineSagaPart } from '../../packages/saga/src/saga-definition.ts'
import { compensateSaga, getSaga, listSagas, retrySaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { compensateSagaStep, processSagaStep } from '../../packages/saga/src/saga-step.ts'
import { duringTests } from '../support/during-tests.ts'
import { FakeProvider } from '../support/fake-provider.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
let provider: FakeProvider
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
  provider = new FakeProvider()
})

type Effect = (context: { readonly idempotencyKey: string }) => Promise<unknown>
const charge: Effect = ({ idempotencyKey }) => provider.charge(idempotencyKey, 10)
const refund = { effect: ({ stepKey }: { stepKey: string }) => provider.refund(stepKey) }
const leaseMs = 60_000

const step = (name: string, effect: Effect = async () => 1, maxAttempts = 5) =>
  processSagaStep(
    kit,
    { sagaId: 's', saga: 'checkout', step: name, request: {}, leaseMs, maxAttempts },
    { effect, commit: async (_, value) => value },
  )
const undo = (name: string, effect: () => Promise<void> = async () => {}, maxAttempts = 5) =>
  compensateSagaStep(kit, { sagaId: 's', saga: 'checkout', step: name, leaseMs, maxAttempts }, { effect })
const no = () => Promise.reject(new BusinessError('no', 'not to be had'))
const fault = () => Promise.reject(new Error('down'))
const statusOf = async () => (await getSaga(kit, 's'))?.status

describe('its state follows the steps that ran here', () => {
  type Deed = () => Promise<unknown>
  // biome-ignore format: one line reads as one case
  const table: readonly [deeds: string, state: string, deeds: readonly Deed[]][] = [
    ['one step is done', 'completed', [() => step('a')]],
    ['a step runs', 'running', [() => step('a'), () => hanging('b')]],
    ['a step has failed once, and will be tried again', 'running', [() => step('a', fault)]],
    ['the only step was refused', 'compensated', [() => step('a', no)]],
    ['a step was refused after another was done', 'compensating', [() => step('a'), () => step('b', no)]],
    ['and that one is undone', 'compensated', [() => step('a'), () => step('b', no), () => undo('a')]],
    ['the undoing has failed once', 'compensating', [() => step('a'), () => undo('a', fault)]],
    ['one of two is undone', 'compensating', [() => step('a'), () => step('b'), () => undo('b')]],
    ['both are undone', 'compensated', [() => step('a'), () => step('b'), () => undo('b'), () => undo('a')]],
    ['the compensation came before its step', 'compensated', [() => undo('a')]],
    ['a step has no attempts left', 'parked', [() => step('a'), () => step('b', fault, 1)]],
    ['an undoing has none left', 'parked', [() => step('a'), () => undo('a', fault, 1)]],
    ['a parked step is undone', 'compensated', [() => step('a', fault, 1), () => undo('a')]],
  ]
  test.each(table)('%s: %s', async (_, state, deeds) => {
    for (const deed of deeds) await deed().catch(() => {})
    expect(await statusOf()).toBe(state)
    expect(await listSagas(kit)).toMatchObject([
      { sagaId: 's', name: 'checkout', drivenBy: 'messages', status: state },
    ])
  })

  /** Returns while the step runs. */
  async function hanging(name: string): Promise<void> {
    const begun = Promise.withResolvers<void>()
    // It is still running when the test is over.
    step(name, () => {
      begun.resolve()
      return new Promise(() => {})
    }).catch(() => {})
    await begun.promise
  }
})

test('two steps that end at the same time are both seen', async () => {
  await Promise.all(['a', 'b', 'c', 'd'].map((name) => step(name)))
  expect(await statusOf()).toBe('completed')
})

test('a refusal is the reason, a parked step says its error, and one whose process died says that', async () => {
  await step('a')
  await step('b', no)
  expect(await getSaga(kit, 's')).toMatchObject({
    reason: 'b: {"code":"no","message":"not to be had","details":null}',
    input: null,
    steps: [
      { name: 'a', status: 'done', result: 1 },
      { name: 'b', status: 'failed' },
    ],
  })
  await step('c', fault, 1).catch(() => {})
  expect(await getSaga(kit, 's')).toMatchObject({ status: 'parked', lastError: 'c: down' })
  expect((await getSaga(kit, 's'))?.steps.at(-1)).toMatchObject({ name: 'c', lastError: 'down' })
  await retrySaga(kit, 's')
  await kit.pool.query(
    `UPDATE ${kit.schema}.idempotency_keys SET attempts = 5, error = NULL, locked_until = clock_timestamp() WHERE key LIKE '%"c"]'`,
  )
  await step('c').catch(() => {})
  expect(await getSaga(kit, 's')).toMatchObject({
    status: 'parked',
    lastError: expect.stringContaining('its process died'),
  })
})

const message = (type: string) => orderMessage(newMessageId(kit), type, 's')
const inboxOf = (handlers: Record<string, Handler>) =>
  new Inbox({ kit, consumerId: 'payments', handlers, retryInPlaceMs: 0 })

describe('an operator retries', () => {
  test('a parked step: its attempts count anew, and its message comes again out of the dead letters', async () => {
    let down = true
    const handlers: Record<string, Handler> = {
      Pay: { outside: () => step('pay', async (context) => (down ? fault() : charge(context)), 1) },
      Later: async () => {},
    }
    const inbox = inboxOf(handlers)
    await inbox.receive(message('Pay'))
    await inbox.receive(message('Later'))
    const [letter] = await listDeadLetters(kit)
    expect(await getSaga(kit, 's')).toMatchObject({ status: 'parked', deadLetters: [letter!.id] })
    down = false
    expect(await retrySaga(kit, 's')).toBe(true)
    expect(await replayOnce(kit, 'payments', handlers)).toBe(2)
    expect(await getSaga(kit, 's')).toMatchObject({ status: 'completed', deadLetters: [] })
    expect([provider.kept, await listDeadLetters(kit)]).toEqual([1, []])
    expect(await retrySaga(kit, 's')).toBe(false)
  })

  test('a message that died although its step is done', async () => {
    let broken = true
    const handlers: Record<string, Handler> = {
      Pay: {
        outside: async () => {
          await step('pay', charge)
          if (broken) throw new NonRetryableError('cannot answer')
        },
      },
    }
    await inboxOf(handlers).receive(message('Pay'))
    expect(await getSaga(kit, 's')).toMatchObject({ status: 'completed', deadLetters: [expect.any(Number)] })
    broken = false
    expect(await retrySaga(kit, 's')).toBe(true)
    expect(await replayOnce(kit, 'payments', handlers)).toBe(1)
    expect(provider.kept).toBe(1)
  })

  test('a parked compensation', async () => {
    let down = true
    await step('pay', charge)
    const handlers: Record<string, Handler> = {
      Refund: {
        outside: () =>
          compensateSagaStep(
            kit,
            { sagaId: 's', step: 'pay', leaseMs, maxAttempts: 1 },
            { effect: async (context) => (down ? fault() : refund.effect(context)) },
          ),
      },
    }
    await inboxOf(handlers).receive(message('Refund'))
    expect(await getSaga(kit, 's')).toMatchObject({ status: 'parked', lastError: 'pay: down' })
    down = false
    expect(await retrySaga(kit, 's')).toBe(true)
    expect(await statusOf()).toBe('compensating')
    await replayOnce(kit, 'payments', handlers)
    expect([await statusOf(), provider.kept]).toEqual(['compensated', 0])
  })
})

describe('an operator compensates', () => {
  const part = (effect = refund.effect) =>
    defineSagaPart('checkout', [
      { name: 'pay', leaseMs, compensate: { effect } },
      { name: 'ship', leaseMs },
    ])
  const runnerWithin = (backoffMs: number, ...parts: ReturnType<typeof part>[]) =>
    createSagaRunner({ kit, definitions: [], parts, backoff: { initialMs: backoffMs, maxMs: backoffMs } })
  const runnerOf = (...parts: ReturnType<typeof part>[]) => runnerWithin(1, ...parts)

  test('what this service did: a runner with its part undoes it, and a step that comes later refuses', async () => {
    await step('pay', charge)
    expect(await compensateSaga(kit, 's', 'the customer called')).toBe(true)
    expect(await getSaga(kit, 's')).toMatchObject({ status: 'compensating', reason: 'the customer called' })
    expect(
      await createSagaRunner({ kit, definitions: [defineSaga('checkout', [{ name: 'pay' }])] }).runOnce(),
    ).toBe(0)
    expect(await runnerOf(part()).runOnce()).toBe(1)
    expect(await getSaga(kit, 's')).toMatchObject({
      status: 'compensated',
      steps: [
        { name: 'pay', status: 'compensated' },
        { name: 'ship', status: 'suspended' },
      ],
    })
    await expect(step('ship')).rejects.toBeInstanceOf(StepSuspendedError)
    expect([provider.kept, await compensateSaga(kit, 's', 'again')]).toEqual([0, false])
  })

  test('a refused compensation parks the saga, and retry compensates again', async () => {
    await step('pay', charge)
    await compensateSaga(kit, 's', 'the customer called')
    await runnerOf(part(no)).runOnce()
    expect(await getSaga(kit, 's')).toMatchObject({ status: 'parked', lastError: 'not to be had' })
    expect(await retrySaga(kit, 's')).toBe(true)
    await runnerOf(part()).runOnce()
    expect([await statusOf(), provider.kept]).toEqual(['compensated', 0])
  })

  test('no step is skipped that the part does not know', async () => {
    await step('pay', charge)
    await step('insure')
    await compensateSaga(kit, 's', 'the customer called')
    // One try, also on a slow machine.
    await runnerWithin(60_000, part()).runOnce()
    expect(await getSaga(kit, 's')).toMatchObject({
      status: 'compensating',
      lastError: 'step insure is done and not in this definition of the saga',
    })
    expect(provider.kept).toBe(1)
  })

  test('an unknown saga is none of this database', async () => {
    expect([await compensateSaga(kit, 'x', 'why'), await retrySaga(kit, 'x')]).toEqual([false, false])
  })
})

test('lists have pages, states and names', async () => {
  for (const sagaId of ['1', '2', '3'])
    await processSagaStep(
      kit,
      { sagaId, ...(sagaId === '2' ? {} : { saga: 'checkout' }), step: 'a', request: {}, leaseMs },
      { effect: sagaId === '3' ? no : async () => 1, commit: async () => 1 },
    )
  const ids = async (filter: Parameters<typeof listSagas>[1]) =>
    (await listSagas(kit, filter)).map(({ sagaId }) => sagaId)
  expect(await ids({ limit: 2 })).toEqual(['1', '2'])
  expect(await ids({ limit: 2, after: '2' })).toEqual(['3'])
  expect(await ids({ name: 'checkout' })).toEqual(['1', '3'])
  expect(await ids({ statuses: ['compensated', 'parked'] })).toEqual(['3'])
})

test('a saga that a runner begins after a step of it belongs to the runner', async () => {
  await step('pay', charge)
  const definitions = [defineSaga('checkout', [{ name: 'pay' }, { name: 'ship' }])]
  const runner = createSagaRunner({ kit, definitions })
  expect(await kit.transaction((tx) => runner.begin(tx, 'checkout', { sagaId: 's', input: {} }))).toBe(true)
  await runner.runOnce()
  expect(await getSaga(kit, 's')).toMatchObject({ drivenBy: 'runner', status: 'completed' })
})
