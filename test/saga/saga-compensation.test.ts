// A saga that is compensated: a step that cannot be undone is reported, and none is skipped, whatever runs in between.
import type { Pool, PoolClient } from 'pg'
import { beforeEach, expect, test } from 'vitest'
import { BusinessError, OperationInProgressError } from '../../packages/saga/src/errors.ts'
import { createSagaKit } from '../../packages/saga/src/kit.ts'
import { defineSaga, type SagaStepDefinition } from '../../packages/saga/src/saga-definition.ts'
import { compensateSaga, getSaga, retrySaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { compensateSagaStep, processSagaStep } from '../../packages/saga/src/saga-step.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { FakeProvider } from '../support/fake-provider.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'

type Step = SagaStepDefinition<unknown>

let kit: TestKit
let provider: FakeProvider
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
  provider = new FakeProvider()
})

const pay: Step = {
  name: 'pay',
  effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10),
  compensate: { effect: ({ stepKey }) => provider.refund(stepKey) },
}
const no: Step = { name: 'no', effect: () => Promise.reject(new BusinessError('no', 'not to be had')) }

/** A runner of one version of the definition. */
function version(...steps: Step[]) {
  return versionWithin(1, ...steps)
}

/** Failures are retried within `backoffMs`: if that is short, by the same `runOnce` on a slow machine. */
function versionWithin(backoffMs: number, ...steps: Step[]) {
  const backoff = { initialMs: backoffMs, maxMs: backoffMs }
  const runner = createSagaRunner({ kit, definitions: [defineSaga('order', steps)], backoff })
  return {
    begin: () => kit.transaction((tx) => runner.begin(tx, 'order', { sagaId: 'a', input: {} })),
    runOnce: () => runner.runOnce(),
    settle: async () => {
      for (;;) {
        await kit.pool.query(`UPDATE ${kit.schema}.saga_instances SET next_attempt_at = clock_timestamp()`)
        await runner.runOnce()
        const saga = (await getSaga(kit, 'a'))!
        if (saga.status !== 'running' && saga.status !== 'compensating') return saga
      }
    },
  }
}

test('a refused compensation does not count as executed: the saga is parked, and retry compensates again', async () => {
  let refusing = true
  const refund = async (stepKey: string) => {
    if (refusing) throw new BusinessError('too_late', 'refunds are closed')
    await provider.refund(stepKey)
  }
  const saga = version({ ...pay, compensate: { effect: ({ stepKey }) => refund(stepKey) } }, no)
  await saga.begin()
  expect(await saga.settle()).toMatchObject({ status: 'parked', lastError: 'refunds are closed' })
  refusing = false
  await retrySaga(kit, 'a')
  expect((await saga.settle()).status).toBe('compensated')
  expect(provider.kept).toBe(0)
})

test('a saga parked by a refusal after the pivot goes on when a retry is no longer refused', async () => {
  let willing = false
  const carrier: Step = {
    name: 'carrier',
    effect: async () => {
      if (!willing) throw new BusinessError('closed', 'no carrier today')
    },
  }
  const saga = version(pay, { name: 'decide', pivot: true }, carrier)
  await saga.begin()
  expect((await saga.settle()).status).toBe('parked')
  willing = true
  await retrySaga(kit, 'a')
  expect((await saga.settle()).status).toBe('completed')
  expect(provider.kept).toBe(1)
})

test('a saga compensated by hand after its pivot is parked with everything as it was, and retry goes forward', async () => {
  let stuck = true
  const ship: Step = {
    name: 'ship',
    effect: async () => {
      if (stuck) throw new Error('not now')
    },
  }
  const saga = version(pay, { name: 'decide', pivot: true }, ship)
  await saga.begin()
  await saga.runOnce()
  expect(await compensateSaga(kit, 'a', 'the customer called')).toBe(true)
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  const parked = await saga.settle()
  expect(parked).toMatchObject({ status: 'parked', lastError: expect.stringContaining('decide') })
  expect(provider.kept).toBe(1)
  stuck = false
  await retrySaga(kit, 'a')
  expect((await saga.settle()).status).toBe('completed')
})

test('a pivot of unknown effect is not skipped by the compensation', async () => {
  let answers = false
  const decide: Step = {
    name: 'decide',
    pivot: true,
    maxAttempts: 2,
    effect: async () => {
      if (!answers) throw new Error('connection reset')
    },
  }
  const saga = version(pay, decide)
  await saga.begin()
  expect((await saga.settle()).status).toBe('parked')
  expect(provider.kept).toBe(1)
  answers = true
  await retrySaga(kit, 'a')
  expect((await saga.settle()).status).toBe('completed')
})

test('a runner of an older version does not complete a saga without the step that it does not know', async () => {
  let shipped = 0
  const ship: Step = { name: 'ship', effect: async () => (shipped += 1) }
  const newer = version(pay, ship)
  await newer.begin()
  const older = versionWithin(24 * 60 * 60_000, pay)
  await older.runOnce()
  expect(await getSaga(kit, 'a')).toMatchObject({
    status: 'running',
    lastError: expect.stringContaining('ship'),
  })
  expect((await newer.settle()).status).toBe('completed')
  expect([shipped, provider.kept]).toEqual([1, 1])
})

test('a step that was renamed meanwhile is not skipped by the compensation', async () => {
  const stuck: Step = { name: 'stuck', effect: () => Promise.reject(new Error('not now')) }
  const before = versionWithin(24 * 60 * 60_000, pay, stuck)
  await before.begin()
  await before.runOnce()
  expect(await compensateSaga(kit, 'a', 'the customer called')).toBe(true)
  await versionWithin(24 * 60 * 60_000, { ...pay, name: 'charge' }, stuck).runOnce()
  expect(await getSaga(kit, 'a')).toMatchObject({
    status: 'compensating',
    lastError: expect.stringContaining('pay'),
  })
  expect((await before.settle()).status).toBe('compensated')
  expect(provider.kept).toBe(0)
})

// Bug: a runner of the new version executed what it had no row of, so the renamed step charged a second time.
test('a saga is executed with the steps with which it was begun: one that was renamed or added since is not', async () => {
  let going = false
  const stuck: Step = {
    name: 'stuck',
    effect: async () => {
      if (!going) throw new Error('not now')
    },
  }
  const before = versionWithin(24 * 60 * 60_000, pay, stuck)
  await before.begin()
  await before.runOnce()
  going = true
  const check: Step = { name: 'check', effect: () => Promise.reject(new BusinessError('no', 'unchecked')) }
  const saga = await version({ ...pay, name: 'charge' }, check, stuck).settle()
  expect(saga.steps.map(({ name, status }) => `${name} ${status}`)).toEqual(['pay done', 'stuck done'])
  expect([saga.status, provider.kept, provider.calls.length]).toEqual(['completed', 1, 1])
})

/** The first statement of this kind waits until the test lets it go. */
function holding(pool: Pool, kind: RegExp) {
  const reached = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  let held = false
  const connect = async () => {
    const client: PoolClient = await pool.connect()
    return new Proxy(client, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        if (name !== 'query') return member.bind(target)
        return async (...args: unknown[]) => {
          if (!held && kind.test(String(args[0]))) {
            held = true
            reached.resolve()
            await go.promise
          }
          return member.apply(target, args)
        }
      },
    })
  }
  const proxied = new Proxy(pool, {
    get: (target, name) => {
      if (name === 'connect') return connect
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  return { pool: proxied, reached: reached.promise, go: go.resolve }
}

test('a compensation that waits for a claim being committed sees that the step is running', async () => {
  const { schemaName, schema } = kit
  await kit.pool.query(
    `INSERT INTO ${schema}.saga_steps (saga_id, step, status) VALUES ('a', 'pay', 'pending')`,
  )
  const looking = holding(server.pool(), /FOR UPDATE/)
  const undone = compensateSagaStep(
    createSagaKit({ pool: looking.pool, schema: schemaName }),
    { sagaId: 'a', step: 'pay', leaseMs: 60_000 },
    {},
  )
  const outcome = expect(undone).rejects.toBeInstanceOf(OperationInProgressError)
  await looking.reached
  const committing = holding(server.pool(), /^COMMIT/)
  const answer = Promise.withResolvers<void>()
  const step = processSagaStep(
    createSagaKit({ pool: committing.pool, schema: schemaName }),
    { sagaId: 'a', step: 'pay', request: null, leaseMs: 60_000 },
    { effect: () => answer.promise, commit: async () => null },
  )
  await committing.reached
  looking.go()
  await eventually('the compensation waits', async () => {
    const { rows } = await kit.pool.query(`SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted`)
    return rows[0].n > 0
  })
  committing.go()
  await outcome
  answer.resolve()
  expect((await step).outcome).toBe('completed')
})
