// A saga ends, forward or compensated, whatever dies on the way; every charge is kept or refunded.
import { beforeEach, expect, test } from 'vitest'
import {
  AttemptsExhaustedError,
  BusinessError,
  IdempotencyKeyReuseError,
  LeaseEndedError,
  OperationInProgressError,
  StepOvertakenError,
  StepSuspendedError,
} from '../../packages/saga/src/errors.ts'
import { defineSaga, type SagaStepDefinition } from '../../packages/saga/src/saga-definition.ts'
import { compensateSaga, getSaga, retrySaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner, type SagaRunnerOptions } from '../../packages/saga/src/saga-runner.ts'
import { compensateSagaStep, processSagaStep } from '../../packages/saga/src/saga-step.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { Declined, FakeProvider, type Mood } from '../support/fake-provider.ts'
import { MemoryLocks } from '../support/memory-locks.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let kit: TestKit
let provider: FakeProvider
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
  provider = new FakeProvider()
})

type Order = { amount: number }
const reserve: SagaStepDefinition<Order> = {
  name: 'reserve',
  commit: async (tx, _value, { sagaId }) => {
    await tx.query(`INSERT INTO ${kit.schema}.fences VALUES ($1, 1)`, [`stock/${sagaId}`])
    return { reserved: true }
  },
  compensate: {
    commit: async (tx, { sagaId }) => {
      await tx.query(`DELETE FROM ${kit.schema}.fences WHERE resource = $1`, [`stock/${sagaId}`])
    },
  },
}
const pay: SagaStepDefinition<Order> = {
  name: 'pay',
  maxAttempts: 3,
  effect: async ({ idempotencyKey, input }) => {
    try {
      return await provider.charge(idempotencyKey, input.amount)
    } catch (error) {
      if (error instanceof Declined) throw new BusinessError('declined', 'card declined')
      throw error
    }
  },
  compensate: { effect: ({ stepKey }) => provider.refund(stepKey) },
}
const ship: SagaStepDefinition<Order> = { name: 'ship' }

function runner(
  steps: readonly SagaStepDefinition<Order>[],
  options: Partial<Omit<SagaRunnerOptions, 'definitions'>> = {},
) {
  const one = createSagaRunner({
    kit,
    definitions: [defineSaga<Order>('order', steps)],
    backoff: { initialMs: 1, maxMs: 1 },
    ...options,
  })
  const begin = (sagaId: string, input: Order = { amount: 10 }) =>
    kit.transaction((tx) => one.begin(tx, 'order', { sagaId, input }))
  /** Until no step is running. */
  const settle = async (sagaId: string) => {
    for (;;) {
      await one.runOnce()
      const saga = await getSaga(kit, sagaId)
      if (saga!.status !== 'running' && saga!.status !== 'compensating') return saga!
      await kit.pool.query(`UPDATE ${kit.schema}.saga_instances SET next_attempt_at = clock_timestamp()`)
    }
  }
  return { runner: one, begin, settle }
}
const reserved = () => countOf(kit, `fences WHERE resource LIKE 'stock/%'`)
const statuses = (saga: { steps: readonly { name: string; status: string }[] }) =>
  saga.steps.map(({ name, status }) => `${name} ${status}`)

test('a saga runs its steps in order, each seeing the results of those before', async () => {
  let seen: unknown
  const see: SagaStepDefinition<Order> = { name: 'see', effect: async ({ results }) => (seen = results) }
  const { begin, settle } = runner([reserve, pay, see])
  await begin('a')
  const saga = await settle('a')
  expect(saga.status).toBe('completed')
  expect(statuses(saga)).toEqual(['reserve done', 'pay done', 'see done'])
  expect(seen).toMatchObject({ reserve: { reserved: true }, pay: { chargeId: expect.any(String) } })
  expect([provider.kept, await reserved()]).toEqual([1, 1])
})

test('when a step is refused, the steps before are compensated and those after never begin', async () => {
  provider.moods.push('decline')
  const { begin, settle } = runner([reserve, pay, ship])
  await begin('a')
  const saga = await settle('a')
  expect(saga.status).toBe('compensated')
  expect(saga.reason).toContain('declined')
  expect(statuses(saga)).toEqual(['reserve compensated', 'pay compensated', 'ship suspended'])
  expect([provider.kept, await reserved()]).toEqual([0, 0])
})

test('a step whose attempts end with an unknown outcome is compensated, too: it may have taken effect', async () => {
  provider.moods.push('fail-after', 'fail-after', 'fail-after')
  const { begin, settle } = runner([reserve, pay, ship])
  await begin('a')
  expect((await settle('a')).status).toBe('compensated')
  expect(provider.charges.size).toBe(1)
  expect([provider.kept, await reserved()]).toEqual([0, 0])
})

test('faults are retried with the same key', async () => {
  provider.moods.push('fail-before', 'fail-after')
  const { begin, settle } = runner([reserve, pay, ship])
  await begin('a')
  expect((await settle('a')).status).toBe('completed')
  expect(new Set(provider.calls).size).toBe(1)
  expect([provider.calls.length, provider.kept]).toEqual([3, 1])
})

test('after the pivot a refusal parks the saga, and retry goes forward', async () => {
  let willing = false
  const stubborn: SagaStepDefinition<Order> = {
    name: 'stubborn',
    maxAttempts: 1,
    effect: async () => {
      if (!willing) throw new Error('not now')
    },
  }
  const { begin, settle } = runner([reserve, { name: 'decide', pivot: true }, stubborn])
  await begin('a')
  expect((await settle('a')).status).toBe('parked')
  willing = true
  expect(await retrySaga(kit, 'a')).toBe(true)
  expect((await settle('a')).status).toBe('completed')
})

test('a failed compensation is retried, then parked, never skipped; retry goes on compensating', async () => {
  let broken = true
  const sticky: SagaStepDefinition<Order> = {
    ...pay,
    compensate: {
      effect: async ({ stepKey }) => {
        if (broken) throw new Error('refund service down')
        await provider.refund(stepKey)
      },
    },
  }
  const no: SagaStepDefinition<Order> = {
    name: 'no',
    effect: () => Promise.reject(new BusinessError('no', 'no')),
  }
  const { begin, settle } = runner([reserve, sticky, no])
  await begin('a')
  const parked = await settle('a')
  expect(parked).toMatchObject({ status: 'parked', lastError: 'refund service down' })
  expect(await reserved()).toBe(1)
  broken = false
  await retrySaga(kit, 'a')
  expect((await settle('a')).status).toBe('compensated')
  expect([provider.kept, await reserved()]).toEqual([0, 0])
})

test('beginning twice begins once; the same id with another input is refused', async () => {
  const { begin, settle } = runner([reserve])
  expect(await begin('a')).toBe(true)
  expect(await begin('a')).toBe(false)
  await expect(begin('a', { amount: 11 })).rejects.toBeInstanceOf(IdempotencyKeyReuseError)
  await settle('a')
  expect(await reserved()).toBe(1)
})

test('two hundred sagas and four runners: each is executed once', async () => {
  const runners = Array.from({ length: 4 }, () => runner([reserve, pay, ship], { pollIntervalMs: 5 }))
  await Promise.all(Array.from({ length: 200 }, (_, index) => runners[0]!.begin(`s${index}`)))
  for (const one of runners) one.runner.start()
  await eventually(
    'all completed',
    async () => (await countOf(kit, `saga_instances WHERE status = 'completed'`)) === 200,
    { withinMs: 25_000, everyMs: 20 },
  )
  await Promise.all(runners.map((one) => one.runner.stop()))
  expect([provider.calls.length, provider.kept, await reserved()]).toEqual([200, 200, 200])
})

test('a runner that vanished in an effect: another takes the saga over and repeats the step under the same key', async () => {
  const hung = { ...pay, leaseMs: 200, effect: () => new Promise<never>(() => {}) }
  const first = runner([reserve, hung], { marginMs: 100 })
  await first.begin('a')
  void first.runner.runOnce()
  while ((await countOf(kit, `saga_steps WHERE step = 'pay' AND status = 'running'`)) === 0)
    await new Promise(setImmediate)
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  await kit.pool.query(`UPDATE ${kit.schema}.saga_instances SET lease_until = '-infinity'`)
  expect((await runner([reserve, pay]).settle('a')).status).toBe('completed')
  expect([provider.kept, await reserved()]).toEqual([1, 1])
})

test('a saga compensated by hand is undone from its current step', async () => {
  const wait = Promise.withResolvers<never>()
  const later: SagaStepDefinition<Order> = { name: 'later', effect: () => wait.promise }
  const { runner: one, begin, settle } = runner([reserve, pay, later])
  await begin('a')
  void one.runOnce()
  while ((await countOf(kit, `saga_steps WHERE step = 'later' AND status = 'running'`)) === 0)
    await new Promise(setImmediate)
  expect(await compensateSaga(kit, 'a', 'customer called')).toBe(true)
  // The step is still running: it must finish or expire before any step is undone.
  await one.runOnce()
  expect((await getSaga(kit, 'a'))!.status).toBe('compensating')
  wait.reject(new Error('gave up'))
  expect(await settle('a')).toMatchObject({ status: 'compensated', reason: 'customer called' })
  expect([provider.kept, await reserved()]).toEqual([0, 0])
})

/** Longer than any pause of the machine: a test that needs an ended lease sets it in the database. */
const LEASE_MS = 60_000

const charge = (sagaId: string) =>
  processSagaStep(
    kit,
    { sagaId, step: 'pay', request: null, leaseMs: LEASE_MS },
    {
      effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10),
      commit: async () => null,
      compensate: { effect: ({ stepKey }) => provider.refund(stepKey) },
    },
  )
const undo = (sagaId: string) =>
  compensateSagaStep(
    kit,
    { sagaId, step: 'pay', leaseMs: LEASE_MS },
    { effect: ({ stepKey }) => provider.refund(stepKey) },
  )

test('a compensation that comes before its step bars it: the late step makes no charge', async () => {
  expect(await undo('early')).toBe('suspended')
  await expect(charge('early')).rejects.toBeInstanceOf(StepSuspendedError)
  expect(provider.calls).toEqual([])
})

test('step and compensation at once, fifty times: charged and refunded, or never charged', async () => {
  for (let round = 0; round < 50; round += 1) {
    const undone = async (): Promise<void> => {
      for (;;)
        try {
          await undo(`race-${round}`)
          return
        } catch (error) {
          if (!(error instanceof OperationInProgressError)) throw error
        }
    }
    await Promise.allSettled([charge(`race-${round}`), undone()])
  }
  expect(provider.kept).toBe(0)
  expect(await countOf(kit, `saga_steps WHERE status IN ('compensated', 'suspended')`)).toBe(50)
})

test('a step that was paused beyond its lease and compensated meanwhile undoes its own late effect', async () => {
  const go = Promise.withResolvers<void>()
  provider.hold = go.promise
  const late = charge('late')
  const outcome = expect(late).rejects.toThrow()
  while ((await countOf(kit, `saga_steps WHERE saga_id = 'late'`)) === 0) await new Promise(setImmediate)
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  expect(await undo('late')).toBe('compensated')
  // A provider that does not bar the keys it has refunded.
  provider.barred.clear()
  go.resolve()
  await outcome
  expect(provider.charges.size).toBe(1)
  expect(provider.kept).toBe(0)
})

test('a late effect whose undoing fails at first is undone later', async () => {
  const go = Promise.withResolvers<void>()
  provider.hold = go.promise
  let refunds = 0
  const late = processSagaStep(
    kit,
    { sagaId: 'stubborn', step: 'pay', request: null, leaseMs: 60_000 },
    {
      effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10),
      commit: async () => null,
      compensate: {
        effect: async ({ stepKey }) => {
          refunds += 1
          if (refunds < 3) throw new Error('provider: 503')
          await provider.refund(stepKey)
        },
      },
    },
  )
  const outcome = expect(late).rejects.toBeInstanceOf(StepSuspendedError)
  while ((await countOf(kit, `saga_steps WHERE saga_id = 'stubborn'`)) === 0) await new Promise(setImmediate)
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  expect(await undo('stubborn')).toBe('compensated')
  provider.barred.clear()
  go.resolve()
  await outcome
  expect([provider.charges.size, provider.kept, refunds]).toEqual([1, 0, 3])
})

/** A step that woke up too late: its timer fires before it sees the result of its call, which it has made. */
async function abandonedAndCompensated(sagaId: string, provider: FakeProvider, moods: Mood[] = []) {
  const clock = new VirtualClock()
  const slow = await testKit(server, { clock })
  const entered = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  let refunds = 0
  const refund = async ({ stepKey, signal }: { stepKey: string; signal: AbortSignal }) => {
    signal.throwIfAborted()
    await provider.refund(stepKey)
    refunds += 1
  }
  const late = processSagaStep(
    slow,
    { sagaId, step: 'pay', request: null, leaseMs: 60_000 },
    {
      effect: async ({ idempotencyKey }) => {
        entered.resolve()
        await go.promise
        return provider.charge(idempotencyKey, 10)
      },
      commit: async () => null,
      compensate: { effect: refund },
    },
  )
  const outcome = expect(late).rejects.toBeInstanceOf(LeaseEndedError)
  await entered.promise
  await clock.advance(54_000)
  await outcome
  await slow.pool.query(`UPDATE ${slow.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  const undone = compensateSagaStep(slow, { sagaId, step: 'pay', leaseMs: LEASE_MS }, { effect: refund })
  expect(await undone).toBe('compensated')
  // A provider that does not bar the keys it has refunded.
  provider.barred.clear()
  provider.moods.push(...moods)
  go.resolve()
  return { refunded: () => refunds - 1 }
}

test.each<[string, Mood[]]>([
  ['took effect', []],
  ['took effect, and whose answer was lost', ['fail-after']],
])('a late call that was no longer waited for and %s is undone when it ends', async (_, moods) => {
  const { refunded } = await abandonedAndCompensated('abandoned', provider, moods)
  await eventually('the late charge and its refund', () => refunded() === 1)
  expect([provider.charges.size, provider.kept]).toEqual([1, 0])
})

test('a step paused while another process completed it is not undone: it is the same charge', async () => {
  const go = Promise.withResolvers<void>()
  provider.hold = go.promise
  const late = charge('twice')
  const outcome = expect(late).rejects.toBeInstanceOf(StepOvertakenError)
  await eventually('its call', () => provider.calls.length === 1)
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  provider.hold = undefined
  expect((await charge('twice')).outcome).toBe('completed')
  go.resolve()
  await outcome
  expect([provider.charges.size, provider.kept]).toEqual([1, 1])
})

test('a last attempt that ignores its signal is not undone before its lease is over', async () => {
  const clock = new VirtualClock()
  const slow = await testKit(server, { clock })
  const entered = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const late = processSagaStep(
    slow,
    { sagaId: 'last', step: 'pay', request: null, leaseMs: 60_000, maxAttempts: 1 },
    {
      effect: async ({ idempotencyKey }) => {
        entered.resolve()
        await go.promise
        return provider.charge(idempotencyKey, 10)
      },
      commit: async () => null,
    },
  )
  const outcome = expect(late).rejects.toBeInstanceOf(AttemptsExhaustedError)
  await entered.promise
  await clock.advance(54_000)
  await outcome
  const undone = () =>
    compensateSagaStep(
      slow,
      { sagaId: 'last', step: 'pay', leaseMs: LEASE_MS },
      { effect: ({ stepKey }) => provider.refund(stepKey) },
    )
  await expect(undone()).rejects.toBeInstanceOf(OperationInProgressError)
  go.resolve()
  await eventually('the charge', () => provider.charges.size === 1)
  await slow.pool.query(`UPDATE ${slow.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  expect(await undone()).toBe('compensated')
  expect(provider.kept).toBe(0)
})

test('resources are locked while a step runs, and a saga whose lock is held waits its turn', async () => {
  const lockManager = new MemoryLocks()
  const locked: SagaStepDefinition<Order> = { ...pay, resources: () => ['account/7', 'account/1'] }
  const { runner: one, begin, settle } = runner([locked], { lockManager })
  const held = await lockManager.acquire(['account/1'], { leaseMs: 60_000 })
  await begin('a')
  await one.runOnce()
  expect(await getSaga(kit, 'a')).toMatchObject({
    status: 'running',
    attempts: 0,
    steps: [{ status: 'pending' }],
  })
  await held.release()
  expect((await settle('a')).status).toBe('completed')
  expect(lockManager.acquired.at(-1)).toEqual(['account/1', 'account/7'])
})

test.each<[string, SagaStepDefinition<Order>[], string]>([
  ['no steps', [], 'has no steps'],
  ['a name twice', [pay, pay], 'two steps named pay'],
  [
    'two pivots',
    [
      { name: 'a', pivot: true },
      { name: 'b', pivot: true },
    ],
    'two pivots',
  ],
  ['a compensation after the pivot', [{ name: 'a', pivot: true }, pay], 'would never run'],
])('a definition with %s is refused', (_, steps, reason) => {
  expect(() => defineSaga('bad', steps)).toThrow(reason)
})
