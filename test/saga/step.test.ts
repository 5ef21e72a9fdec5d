// A step with an effect outside: once in the database whatever happens, once at the provider as far as it honours the key.
import { beforeAll, expect, test } from 'vitest'
import {
  AttemptsExhaustedError,
  BusinessError,
  CommitOutcomeUnknownError,
  FencedOutError,
  IdempotencyKeyReuseError,
  LeaseEndedError,
  NonRetryableError,
  OperationInProgressError,
} from '../../packages/saga/src/errors.ts'
import { runIdempotentStep } from '../../packages/saga/src/step.ts'
import type { StepHandlers, StepRequest } from '../../packages/saga/src/step-definition.ts'
import { unparkStep } from '../../packages/saga/src/step-record.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { Declined, FakeProvider } from '../support/fake-provider.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
  await kit.pool.query('CREATE TABLE payments (key text, charge_id text, fencing_token bigint)')
})

const paymentsOf = async (key: string) =>
  (await kit.pool.query('SELECT charge_id FROM payments WHERE key = $1', [key])).rows.length
const rowOf = async (key: string) =>
  (await kit.pool.query(`SELECT * FROM ${kit.schema}.idempotency_keys WHERE key = $1`, [key])).rows[0]
/** The lease of a crashed holder, over: the test need not wait for it. */
const expire = (key: string) =>
  kit.pool.query(
    `UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp() WHERE key = $1`,
    [key],
  )

type Paid = { chargeId: string }
function pay(
  provider: FakeProvider,
  key: string,
  options: Partial<StepRequest> = {},
  handlers: Partial<StepHandlers<Paid, unknown, unknown>> = {},
) {
  const step = { scope: 'pay', key, request: { key }, leaseMs: 30_000, ...options }
  return runIdempotentStep<Paid, unknown, unknown>(kit, step, {
    effect: async ({ idempotencyKey }) => {
      try {
        return await provider.charge(idempotencyKey, 10)
      } catch (error) {
        if (error instanceof Declined) throw new BusinessError('declined', error.message, { key })
        throw error
      }
    },
    commit: async (tx, { chargeId }, { fencingToken }) => {
      await tx.query('INSERT INTO payments VALUES ($1, $2, $3)', [key, chargeId, fencingToken])
      return { paid: true }
    },
    ...handlers,
  })
}

test('a step is executed once and replayed afterwards', async () => {
  const provider = new FakeProvider()
  expect(await pay(provider, 'once')).toEqual({
    replayed: false,
    outcome: 'completed',
    result: { paid: true },
  })
  expect(await pay(provider, 'once')).toEqual({
    replayed: true,
    outcome: 'completed',
    result: { paid: true },
  })
  expect([provider.calls.length, await paymentsOf('once')]).toEqual([1, 1])
})

test('of twenty concurrent callers one calls the provider, the others are told to retry, and then replay', async () => {
  const provider = new FakeProvider()
  const go = Promise.withResolvers<void>()
  provider.hold = go.promise
  const all = Array.from({ length: 20 }, () => pay(provider, 'twenty'))
  const busy = all.map((one) =>
    one.then(
      () => 'paid',
      (error) => (error as Error).constructor.name,
    ),
  )
  const nineteen = Promise.withResolvers<void>()
  let refused = 0
  for (const one of all)
    one.catch((error) => {
      if (error instanceof OperationInProgressError && error.retryAfterMs > 0) refused += 1
      if (refused === 19) nineteen.resolve()
    })
  await nineteen.promise
  go.resolve()
  expect((await Promise.all(busy)).sort()).toEqual([...Array(19).fill('OperationInProgressError'), 'paid'])
  expect((await pay(provider, 'twenty')).replayed).toBe(true)
  expect(provider.calls).toHaveLength(1)
})

test('no connection and no transaction is held while the provider is called', async () => {
  const provider = new FakeProvider()
  let during = ''
  await pay(
    provider,
    'idle',
    {},
    {
      effect: async ({ idempotencyKey }) => {
        const { rows } = await kit.pool.query(
          `SELECT string_agg(state, ',') AS states FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'postgres'
         AND (state LIKE 'idle in transaction%' OR state = 'active') AND backend_type = 'client backend'`,
        )
        during = rows[0].states
        return provider.charge(idempotencyKey, 10)
      },
    },
  )
  expect(during).toBeNull()
})

test('a definite refusal is an outcome: committed with its rows, replayed, never sent again', async () => {
  const provider = new FakeProvider()
  provider.moods.push('decline')
  const reject = async (
    tx: { query(text: string, values: unknown[]): Promise<unknown> },
    error: BusinessError,
  ) => {
    await tx.query('INSERT INTO payments VALUES ($1, $2, 0)', ['declined', error.code])
    return { paid: false, why: error.code }
  }
  const first = await pay(provider, 'declined', {}, { reject })
  const second = await pay(provider, 'declined', {}, { reject })
  expect(first).toEqual({ replayed: false, outcome: 'failed', result: { paid: false, why: 'declined' } })
  expect(second).toEqual({ ...first, replayed: true })
  expect([provider.calls.length, await paymentsOf('declined')]).toEqual([1, 1])
})

test('a fault before the charge: the next attempt need not wait, and uses the same key', async () => {
  const provider = new FakeProvider()
  provider.moods.push('fail-before')
  await expect(pay(provider, 'before')).rejects.toThrow('provider: 503')
  expect((await pay(provider, 'before')).replayed).toBe(false)
  expect(new Set(provider.calls).size).toBe(1)
  expect([provider.charges.size, await paymentsOf('before')]).toEqual([1, 1])
})

test('a fault after the charge: reconcile finds it, and the provider is not called again', async () => {
  const provider = new FakeProvider()
  provider.moods.push('fail-after')
  const reconcile = async ({ idempotencyKey }: { idempotencyKey: string }) => provider.find(idempotencyKey)
  await expect(pay(provider, 'after', {}, { reconcile })).rejects.toThrow('connection reset')
  await pay(provider, 'after', {}, { reconcile })
  expect([provider.calls.length, provider.charges.size, await paymentsOf('after')]).toEqual([1, 1, 1])
})

test('a vanished holder is taken over after its lease; when it comes back, it has no effect', async () => {
  const provider = new FakeProvider()
  const go = Promise.withResolvers<void>()
  const stalled = pay(
    provider,
    'stalled',
    {},
    {
      effect: async ({ idempotencyKey }) => {
        await go.promise
        return provider.charge(idempotencyKey, 10)
      },
    },
  )
  const outcome = expect(stalled).rejects.toBeInstanceOf(FencedOutError)
  while ((await rowOf('stalled')) === undefined) await new Promise(setImmediate)
  await expect(pay(provider, 'stalled')).rejects.toBeInstanceOf(OperationInProgressError)
  await expire('stalled')
  const second = await pay(provider, 'stalled')
  expect(second.replayed).toBe(false)
  go.resolve()
  await outcome
  expect([provider.charges.size, await paymentsOf('stalled')]).toEqual([1, 1])
  expect(kit.seenOf('taken_over').at(-1)).toMatchObject({ key: 'stalled', attempt: 2 })
})

test('fencing tokens rise with every takeover', async () => {
  const tokens: number[] = []
  const provider = new FakeProvider()
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const failing = pay(
      provider,
      'tokens',
      {},
      {
        effect: async ({ fencingToken }) => {
          tokens.push(fencingToken)
          throw new Error('again')
        },
      },
    )
    await expect(failing).rejects.toThrow('again')
  }
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  expect(new Set(tokens).size).toBe(3)
})

test('attempts are bounded; the step is parked until an operator retries it', async () => {
  const provider = new FakeProvider()
  provider.moods.push('fail-before', 'fail-before', 'fail-before')
  const ask = () => pay(provider, 'parked', { maxAttempts: 3 })
  await expect(ask()).rejects.toThrow('503')
  await expect(ask()).rejects.toThrow('503')
  await expect(ask()).rejects.toBeInstanceOf(AttemptsExhaustedError)
  await expect(ask()).rejects.toBeInstanceOf(AttemptsExhaustedError)
  expect(provider.calls).toHaveLength(3)
  expect(await unparkStep(kit, 'pay', 'parked')).toBe(true)
  expect((await ask()).outcome).toBe('completed')
})

test('crashes count as attempts: a step that kills its process is parked, too', async () => {
  const provider = new FakeProvider()
  for (let crash = 1; crash <= 2; crash += 1) {
    // A process that dies in the effect leaves exactly this: a claim without an outcome.
    const dead = pay(provider, 'crash', { maxAttempts: 2 }, { effect: () => new Promise(() => {}) })
    dead.catch(() => 'it lost its lease, and nobody is there to hear it')
    while ((await rowOf('crash'))?.attempts !== crash) await new Promise(setImmediate)
    await expire('crash')
  }
  await expect(pay(provider, 'crash', { maxAttempts: 2 })).rejects.toBeInstanceOf(AttemptsExhaustedError)
  expect((await rowOf('crash')).status).toBe('parked')
})

test('a step that can never succeed is parked at once', async () => {
  const failing = pay(
    new FakeProvider(),
    'never',
    {},
    { effect: () => Promise.reject(new NonRetryableError('no such customer')) },
  )
  await expect(failing).rejects.toBeInstanceOf(AttemptsExhaustedError)
})

test('another request under the same key is refused while the first runs and afterwards', async () => {
  const provider = new FakeProvider()
  await pay(provider, 'reuse')
  await expect(pay(provider, 'reuse', { request: { other: 1 } })).rejects.toBeInstanceOf(
    IdempotencyKeyReuseError,
  )
})

test('after a failed commit the next attempt writes the charge once', async () => {
  const provider = new FakeProvider()
  let first = true
  const commit: StepHandlers<Paid, unknown>['commit'] = async (tx, { chargeId }) => {
    await tx.query('INSERT INTO payments VALUES ($1, $2, 0)', ['commit', chargeId])
    if (first) {
      first = false
      await tx.query('SELECT 1 / 0')
    }
    return 'ok'
  }
  await expect(pay(provider, 'commit', {}, { commit })).rejects.toMatchObject({ code: '22012' })
  await pay(provider, 'commit', {}, { commit })
  expect([provider.charges.size, await paymentsOf('commit')]).toEqual([1, 1])
})

test('a business error out of commit is a fault: the effect has taken place', async () => {
  const provider = new FakeProvider()
  const commit = () => Promise.reject(new BusinessError('late', 'too late'))
  await expect(pay(provider, 'late', {}, { commit })).rejects.toMatchObject({
    code: 'late_refusal',
    cause: { code: 'late' },
  })
  expect((await rowOf('late')).status).toBe('in_progress')
})

test('a commit whose own call fails is a fault like others, not repeated as after an outage', async () => {
  let runs = 0
  const commit = () => {
    runs += 1
    return Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))
  }
  await expect(pay(new FakeProvider(), 'calls', {}, { commit })).rejects.toThrow('ECONNREFUSED')
  expect(runs).toBe(1)
})

test('when the backend dies in the settling transaction, it is repeated, and the outcome written once', async () => {
  const provider = new FakeProvider()
  let runs = 0
  const outcome = await pay(
    provider,
    'backend',
    {},
    {
      commit: async (tx, { chargeId }) => {
        runs += 1
        await tx.query('INSERT INTO payments VALUES ($1, $2, 0)', ['backend', chargeId])
        if (runs === 1) {
          const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
          await kit.pool.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]!.pid])
        }
        return 'ok'
      },
    },
  )
  expect(outcome.outcome).toBe('completed')
  expect([runs, provider.calls.length, await paymentsOf('backend')]).toEqual([2, 1, 1])
})

test('the signal aborts before the lease ends, and an effect that ignores it is not waited for', async () => {
  const clock = new VirtualClock()
  const slow = await testKit(server, { clock })
  const entered = Promise.withResolvers<AbortSignal>()
  const step = runIdempotentStep(
    slow,
    { scope: 'pay', key: 'slow', request: {}, leaseMs: 1000 },
    {
      effect: ({ signal }) => {
        entered.resolve(signal)
        return new Promise(() => {})
      },
      commit: async () => null,
    },
  )
  const outcome = expect(step).rejects.toBeInstanceOf(LeaseEndedError)
  const signal = await entered.promise
  await clock.advance(899)
  expect(signal.aborted).toBe(false)
  await clock.advance(1)
  expect(signal.aborted).toBe(true)
  await outcome
})

// Bug: the lease counted from before the wait, so the effect began and was given up in the same moment.
test('a step that waited for a connection has its whole lease for the effect', async () => {
  const clock = new VirtualClock()
  const pool = server.pool({ max: 1 })
  const small = await testKit(server, { clock, pool })
  const held = await pool.connect()
  const signals: AbortSignal[] = []
  const step = runIdempotentStep(
    small,
    { scope: 'pay', key: 'waited', request: {}, leaseMs: 1_000 },
    {
      effect: async ({ signal }) => {
        signals.push(signal)
        await clock.advance(800)
      },
      commit: async () => null,
    },
  )
  await clock.advance(5_000)
  held.release()
  expect((await step).outcome).toBe('completed')
  expect(signals.map(({ aborted }) => aborted)).toEqual([false])
})

/** A kit whose first transaction is committed, and `then` happens before it tells its caller that the answer is lost. */
const withLostAnswer = (then: () => Promise<unknown>): TestKit => {
  let lost = false
  const transaction: TestKit['transaction'] = async (work, options) => {
    const result = await kit.transaction(work, options)
    if (lost) return result
    lost = true
    await then()
    throw new CommitOutcomeUnknownError()
  }
  return { ...kit, transaction }
}

test.each([
  ['still its own', async () => {}, 1],
  ['taken over as another one is, where it has expired', () => expire('unanswered 2'), 2],
] as const)('a claim whose COMMIT was not answered is %s', async (_, meanwhile, attempt) => {
  const key = `unanswered ${attempt}`
  const attempts: number[] = []
  const outcome = await runIdempotentStep(
    withLostAnswer(meanwhile),
    { scope: 'pay', key, request: {}, leaseMs: 30_000 },
    { effect: async (context) => attempts.push(context.attempt), commit: async () => null },
  )
  expect([outcome.outcome, attempts]).toEqual(['completed', [attempt]])
})

// Bug: the count began anew, so the attempt was taken for the first one, and a provider that had forgotten the key charged again.
test('a step that a person lets go asks for what its earlier attempts did before it calls the provider', async () => {
  const provider = new FakeProvider()
  provider.moods.push('fail-after')
  await expect(pay(provider, 'let go', { maxAttempts: 1 })).rejects.toBeInstanceOf(AttemptsExhaustedError)
  expect(await unparkStep(kit, 'pay', 'let go')).toBe(true)
  const attempts: number[] = []
  const reconcile: StepHandlers<Paid, unknown>['reconcile'] = async ({ attempt, idempotencyKey }) => {
    attempts.push(attempt)
    return provider.find(idempotencyKey)
  }
  await pay(provider, 'let go', { maxAttempts: 1 }, { reconcile })
  expect([attempts, provider.calls.length, await paymentsOf('let go')]).toEqual([[2], 1, 1])
})

test('a step parked for longer than its answers last still answers repetitions', async () => {
  const provider = new FakeProvider()
  provider.moods.push('fail-before')
  await expect(pay(provider, 'days', { maxAttempts: 1 })).rejects.toBeInstanceOf(AttemptsExhaustedError)
  // Two days pass until an operator looks at it, and the provider forgets its keys after one.
  await kit.pool.query(
    `UPDATE ${kit.schema}.idempotency_keys SET expires_at = clock_timestamp() - interval '1 day' WHERE key = 'days'`,
  )
  await unparkStep(kit, 'pay', 'days')
  expect((await pay(provider, 'days')).replayed).toBe(false)
  expect((await pay(provider, 'days')).replayed).toBe(true)
  expect([provider.calls.length, await paymentsOf('days')]).toEqual([2, 1])
})

test('an exhausted pool costs no attempt: the outcome is written when a connection is free', async () => {
  const clock = new VirtualClock()
  // Long enough for a connection of a busy server to be made.
  const pool = server.pool({ max: 1, connectionTimeoutMillis: 1_500 })
  const small = await testKit(server, { clock, pool })
  const held: { release(): void }[] = []
  const step = runIdempotentStep(
    small,
    { scope: 'pay', key: 'crowded', request: {}, leaseMs: 60_000 },
    {
      effect: async () => {
        held.push(await pool.connect())
      },
      commit: async () => 'paid',
    },
  )
  const outcome = expect(step).resolves.toMatchObject({ outcome: 'completed', result: 'paid' })
  await eventually('the next try', () => held.length === 1 && clock.pendingTimers === 1)
  held[0]!.release()
  await clock.advance(2_500)
  await outcome
})
