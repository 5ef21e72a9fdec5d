// What the types of the kit refuse. The compiler checks this file: a line under @ts-expect-error that compiled would fail it.

import * as client from '@fencepost/client'
import * as kitExports from '@fencepost/saga'
import {
  createConsumer,
  createPostgresLocks,
  createSagaKit,
  createSagaRunner,
  defineSaga,
  processSagaStep,
  publish,
  type Refusal,
  runIdempotentStep,
  SagaConfigError,
  type SagaKit,
  type SagaView,
  sagaResults,
} from '@fencepost/saga'
import pg from 'pg'
import { describe, expect, expectTypeOf, test } from 'vitest'

// Never connected: nothing here reaches a database.
const pool = new pg.Pool()
const kit: SagaKit = createSagaKit({ pool })

type Order = { readonly article: string; readonly amount: number }

const order = defineSaga<Order>('order')
  .step({
    name: 'reserve',
    commit: async (_tx, value, { input }) => {
      expectTypeOf(value).toEqualTypeOf<null>()
      expectTypeOf(input).toEqualTypeOf<Order>()
      return { shelf: 4 }
    },
    compensate: {
      commit: async (_tx, { stepResult, results }) => {
        expectTypeOf(stepResult).toEqualTypeOf<{ shelf: number } | undefined>()
        // @ts-expect-error a later step has no result here
        results.charge
      },
    },
  })
  .step({
    name: 'charge',
    pivot: true,
    effect: async ({ results, input }) => ({ chargeId: `${results.reserve.shelf}/${input.amount}` }),
    commit: async (_tx, value) => {
      expectTypeOf(value).toEqualTypeOf<{ chargeId: string }>()
      return value.chargeId
    },
  })
  // Without commit the result is the effect's value.
  .step({ name: 'ship', effect: async ({ results }) => results.charge.length })

describe('a saga that is defined step by step', () => {
  test('is the same definition as a list of steps', () => {
    expect(order.steps.map(({ name }) => name)).toEqual(['reserve', 'charge', 'ship'])
    expect(defineSaga<Order>('empty').steps).toEqual([])
  })

  test('refuses what a list of steps refuses, at the step that is wrong', () => {
    expect(() => order.step({ name: 'ship' })).toThrow(/two steps named ship/)
    expect(() => order.step({ name: 'late', compensate: {} })).toThrow(/not before the pivot/)
    expect(() => order.step({ name: ' ' })).toThrow(/the name of a step of saga order is " "/)
  })

  test('gives the results of its steps their types', () => {
    const steps = [
      { name: 'reserve', status: 'done', attempts: 1, result: { shelf: 4 }, lastError: null },
      { name: 'charge', status: 'running', attempts: 1, result: null, lastError: null },
    ] satisfies SagaView['steps']
    const results = sagaResults(order, { steps })
    expectTypeOf(results.reserve).toEqualTypeOf<{ shelf: number } | undefined>()
    expectTypeOf(results.ship).toEqualTypeOf<number | undefined>()
    expect(results).toEqual({ reserve: { shelf: 4 } })
  })

  test('begins with its own input alone', () => {
    const runner = createSagaRunner({ kit, definitions: [order] })
    const begin = () =>
      kit.transaction(async (tx) => {
        await runner.begin(tx, order, { sagaId: 's', input: { article: 'a', amount: 1 } })
        // @ts-expect-error the amount is a number
        await runner.begin(tx, order, { sagaId: 's', input: { article: 'a', amount: '1' } })
      })
    expect(begin).toBeTypeOf('function')
  })
})

describe('resources', () => {
  const locking = defineSaga<Order>('locking').step({
    name: 'one',
    resources: ({ input }) => [input.article],
  })

  test('a runner without a lock manager is refused, by the compiler and when it is created', () => {
    // @ts-expect-error a step names resources
    expect(() => createSagaRunner({ kit, definitions: [locking] })).toThrow(SagaConfigError)
    const listed = defineSaga<Order>('listed', [{ name: 'one', resources: () => ['a'] }])
    expect(() => createSagaRunner({ kit, definitions: [listed] })).toThrow(
      /step one of saga listed.*createPostgresLocks/,
    )
    createSagaRunner({ kit, definitions: [order, locking], lockManager: createPostgresLocks(kit) })
  })

  test('a step without a lock manager is refused, by the compiler and at the call', async () => {
    const step = { sagaId: 's', step: 'one', request: {}, leaseMs: 1_000 }
    const handlers = { effect: async () => 1, commit: async () => 1 }
    // @ts-expect-error resources without a lock manager
    await expect(processSagaStep(kit, { ...step, resources: ['a'] }, handlers)).rejects.toThrow(
      /has no lockManager/,
    )
  })
})

describe('handlers', () => {
  // An interface, as people write them.
  interface Messages {
    OrderPlaced: Order
    OrderPaid: { readonly paymentId: string }
  }
  const options = {
    kit,
    subscriber: { subscribe: async () => ({ close: async () => {} }) },
    consumerId: 'typed',
  }

  test('get the payload of their type of message', async () => {
    const consumer = await createConsumer<Messages>({
      ...options,
      handlers: {
        OrderPlaced: async (_tx, { payload }) => expectTypeOf(payload).toEqualTypeOf<Order>(),
        OrderPaid: {
          outside: async ({ payload }) => expectTypeOf(payload.paymentId).toEqualTypeOf<string>(),
        },
      },
    })
    await consumer.stop()
  })

  test('of a message map are complete, and are no others', () => {
    const missing = () =>
      createConsumer<Messages>({
        ...options,
        // @ts-expect-error OrderPaid has no handler
        handlers: { OrderPlaced: async () => {} },
      })
    const misspelt = () =>
      createConsumer<Messages>({
        ...options,
        // @ts-expect-error there is no OrderPayed
        handlers: { OrderPlaced: async () => {}, OrderPaid: async () => {}, OrderPayed: async () => {} },
      })
    expect([missing, misspelt]).toHaveLength(2)
  })

  test('without a message map get a payload of which nothing is known', async () => {
    const handlers = {
      Anything: async (_tx: unknown, { payload }: kitExports.Received) =>
        expectTypeOf(payload).toEqualTypeOf<unknown>(),
    }
    await (await createConsumer({ ...options, handlers })).stop()
  })
})

describe('the outcome of a step', () => {
  const step = { scope: 's', key: 'k', request: {}, leaseMs: 1_000 }

  test('is the result of commit or, without reject, the refusal', () => {
    const run = () =>
      runIdempotentStep(kit, step, {
        effect: async () => ({ chargeId: 'c' }),
        commit: async (_tx, value) => value.chargeId.length,
      })
    type Outcome = Awaited<ReturnType<typeof run>>
    expectTypeOf<Extract<Outcome, { outcome: 'completed' }>['result']>().toEqualTypeOf<number>()
    expectTypeOf<Extract<Outcome, { outcome: 'failed' }>['result']>().toEqualTypeOf<Refusal>()
    expect(run).toBeTypeOf('function')
  })

  test('is that of reject, where there is one', () => {
    const run = () =>
      runIdempotentStep(kit, step, {
        effect: async () => 1,
        commit: async () => 'paid' as const,
        reject: async (_tx, error) => ({ why: error.code }),
      })
    type Outcome = Awaited<ReturnType<typeof run>>
    expectTypeOf<Extract<Outcome, { outcome: 'failed' }>['result']>().toEqualTypeOf<{ why: string }>()
    expect(run).toBeTypeOf('function')
  })
})

test('publish takes no pool', async () => {
  const event = { aggregateType: 'a', aggregateId: '1', type: 'T', payload: {} }
  const published = () =>
    // @ts-expect-error a pool is no transaction
    publish(kit, pool, event)
  expect(published).toBeTypeOf('function')
})

test('the client and the kit export no two classes of one name', () => {
  const classes = (exports: object) =>
    Object.entries(exports).flatMap(([name, value]) =>
      typeof value === 'function' && value.prototype instanceof Error ? [name] : [],
    )
  const ofClient = new Set(classes(client))
  expect(ofClient.size).toBeGreaterThan(5)
  expect(classes(kitExports).filter((name) => ofClient.has(name))).toEqual([])
})
