/** The client against the real API on embedded nodes; the test controls its network. */

import {
  type ClientOptions,
  ConflictError,
  createClient,
  type DescribedRequest,
  DuplicateError,
  EntityBusyError,
  FencedError,
  type FencepostError,
  LeaseLostError,
  MismatchError,
  QuorumUnavailableError,
  RefusedError,
  type Reservation,
  UndecidedError,
  UnreachableError,
  type WithReservationOptions,
} from '@fencepost/client'
import { describe, expect, expectTypeOf, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/system/clock.ts'
import { createAwayNodes } from '../support/away-nodes.ts'
import { eventually } from '../support/eventually.ts'
import { runningClock } from '../support/held-clock.ts'
import { startReservationApi } from '../support/reservation-api.ts'

async function thrownBy(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => expect.fail('it did not throw'),
    (error: unknown) => error,
  )
}

test('an intent is reserved, done once, and a duplicate from then on', async () => {
  await using api = await startReservationApi()
  const client = createClient({ url: api.origin })
  await using reservation = await client.reserve('v', { leaseMs: 20_000 })
  expect(reservation).toMatchObject({ attempt: 1, signal: { aborted: false } })
  expect(reservation.remainingMs).toBeGreaterThan(15_000)
  expect(await client.read('v')).toMatchObject({ state: 'HELD', fencingToken: reservation.fencingToken })
  await reservation.extend(40_000)
  expect(reservation.remainingMs).toBeGreaterThan(30_000)
  await reservation.complete({ payment: 'p-1' })
  const error = await thrownBy(client.reserve('v'))
  expect(error).toBeInstanceOf(DuplicateError)
  expect(error).toMatchObject({
    name: 'DuplicateError',
    result: { payment: 'p-1' },
    fencingToken: reservation.fencingToken,
    attempt: 1,
  })
})

test('an extension that meets the completion whose answer was lost does not call the lease lost', async () => {
  await using api = await startReservationApi()
  let completions = 0
  const client = createClient({
    url: api.origin,
    fetch: async (input, init) => {
      const answer = await fetch(input, init)
      if (!input.endsWith('/complete') || completions++ > 0) return answer
      // Where the heartbeat falls into it.
      expect(await thrownBy(reservation.extend())).toBeInstanceOf(LeaseLostError)
      throw new TypeError('cut off')
    },
  })
  await using reservation = await client.reserve('v', { heartbeat: false })
  await reservation.complete('paid')
  expect([completions, reservation.signal.aborted]).toEqual([2, false])
})

test('a completion with another result than before is a duplicate, and the reservation has ended', async () => {
  await using api = await startReservationApi()
  const client = createClient({ url: api.origin })
  const work = async () => {
    await using reservation = await client.reserve('v')
    const { id, fencingToken } = reservation
    // An earlier try of this call, whose answer was lost.
    await api.call(`/v1/reservations/${id}/complete`, { fencing_token: fencingToken, result: 'at 12:00:00' })
    await reservation.complete('at 12:00:01').finally(() => {
      expect(reservation).toMatchObject({ remainingMs: 0, signal: { aborted: false } })
    })
  }
  const error = await thrownBy(work())
  expect(error).toBeInstanceOf(DuplicateError)
  expect(error).toMatchObject({ result: 'at 12:00:00', attempt: 1 })
  expect(await client.read('v')).toMatchObject({ state: 'COMPLETED', result: 'at 12:00:00' })
})

test('a reservation left without completing is released', async () => {
  await using api = await startReservationApi()
  const client = createClient({ url: api.origin })
  {
    await using _ = await client.reserve('v')
    expect(await thrownBy(client.reserve('v'))).toBeInstanceOf(ConflictError)
  }
  await using again = await client.reserve('v')
  expect(again.attempt).toBe(1)
})

describe('a reservation whose work may have been done is not released', () => {
  test('after a failed complete the lease is left to expire, and the next attempt is the second', async () => {
    await using api = await startReservationApi()
    const client = createClient({
      url: api.origin,
      retryForMs: 10,
      fetch: (input, init) =>
        String(input).endsWith('/complete') ? Promise.reject(new TypeError('cut off')) : fetch(input, init),
    })
    const work = async () => {
      await using reservation = await client.reserve('v', { leaseMs: 3_000 })
      await reservation.complete({ payment: 'p-1' })
    }
    expect(await thrownBy(work())).toBeInstanceOf(UnreachableError)
    expect(await client.read('v')).toMatchObject({ state: 'HELD', attempt: 1 })
    await using next = await client.reserve('v', { waitMs: 9_000 })
    expect(next.attempt).toBe(2)
  })

  test('after the signal stopped the work the lease is left to expire, too', async () => {
    await using api = await startReservationApi()
    let cut = false
    const client = createClient({
      url: api.origin,
      fetch: (input, init) => (cut ? Promise.reject(new TypeError('cut off')) : fetch(input, init)),
    })
    const work = client.withReservation(
      'v',
      (reservation) => {
        cut = true
        return new Promise((_, reject) => {
          reservation.signal.addEventListener('abort', () => {
            cut = false
            reject(reservation.signal.reason)
          })
        })
      },
      { leaseMs: 500 },
    )
    expect(await thrownBy(work)).toBeInstanceOf(LeaseLostError)
    await using next = await client.reserve('v', { waitMs: 5_000 })
    expect(next.attempt).toBe(2)
  })
})

describe('withReservation', () => {
  test('withReservation completes with the result of the work', async () => {
    await using api = await startReservationApi()
    const client = createClient({ url: api.origin })
    expect(await client.withReservation(['a', 'b'], async (held) => ({ token: held.fencingToken }))).toEqual({
      token: expect.any(Number),
    })
    expect(await client.read('b')).toMatchObject({ state: 'COMPLETED' })
  })

  test.each<[onError: 'release' | 'hold' | undefined, state: string]>([
    // Bug: it was free at once, so a charge whose answer was lost was made again by an attempt that was told to be the first.
    [undefined, 'EXPIRED'],
    ['release', 'FREE'],
    ['hold', 'EXPIRED'],
  ])('work that throws, onError %s: %s', async (onError, state) => {
    await using api = await startReservationApi()
    const client = createClient({ url: api.origin })
    const failure = new Error('no')
    // Short only where its end is waited for: what is to be released must still be held.
    const leaseMs = state === 'EXPIRED' ? 150 : 20_000
    const options = { leaseMs, ...(onError === undefined ? {} : { onError }) }
    const work = client.withReservation('v', () => Promise.reject(failure), options)
    expect(await thrownBy(work)).toBe(failure)
    await eventually(state, async () => (await client.read('v')).state === state)
  })

  test('work that releases its reservation before it throws leaves it free', async () => {
    await using api = await startReservationApi()
    const client = createClient({ url: api.origin })
    const refused = new Error('not enough money')
    const work = client.withReservation('v', async (held) => {
      await held.release()
      throw refused
    })
    expect(await thrownBy(work)).toBe(refused)
    expect(await client.read('v')).toMatchObject({ state: 'FREE' })
  })
})

test('the heartbeat extends the lease for as long as the work takes', async () => {
  await using api = await startReservationApi()
  const client = createClient({ url: api.origin })
  await using reservation = await client.reserve('v', { leaseMs: 2_000 })
  const renewals = () => api.events.filter((event) => event.kind === 'lease_renewed').length
  // Five thirds of a lease: without them it would be over.
  await eventually('five renewals', () => renewals() >= 5)
  expect(reservation.signal.aborted).toBe(false)
  await reservation.complete()
  const settled = renewals()
  expect(await client.read('v')).toMatchObject({ state: 'COMPLETED' })
  expect(renewals()).toBeLessThanOrEqual(settled + 1)
})

test('cut off from everything, the signal fires before the lease has ended on the nodes', async () => {
  // The monotonic clock stops while the process is suspended: no holder is warned in time then.
  using clock = runningClock()
  await using api = await startReservationApi({ clock })
  let cut = false
  const client = createClient({
    url: api.origin,
    fetch: (input, init) => (cut ? Promise.reject(new TypeError('cut off')) : fetch(input, init)),
  })
  await using reservation = await client.reserve('v', { leaseMs: 1_000 })
  cut = true
  const aborted = new Promise((resolve) => reservation.signal.addEventListener('abort', resolve))
  // As the nodes see it at this moment, however long it takes to ask them.
  reservation.signal.addEventListener('abort', () => clock.stop())
  await aborted
  const standing = await createClient({ url: api.origin }).read('v')
  expect(standing).toMatchObject({ state: 'HELD' })
  expect(standing.remainingLeaseMs).toBeGreaterThan(0)
  expect(reservation.signal.reason).toBeInstanceOf(LeaseLostError)
  expect(() => reservation.throwIfLost()).toThrow(LeaseLostError)
  expect(reservation.remainingMs).toBe(0)
})

test('with the wall clock far ahead, as after a suspend, the signal fires at the next failed extension', async () => {
  await using api = await startReservationApi()
  let tries = 0
  let cut = false
  const client = createClient({
    url: api.origin,
    fetch: (input, init) => {
      tries += cut ? 1 : 0
      return cut ? Promise.reject(new TypeError('cut off')) : fetch(input, init)
    },
  })
  await using reservation = await client.reserve('v', { leaseMs: 6_000 })
  cut = true
  const ahead = Date.now() + 3_600_000
  const wall = vi.spyOn(Date, 'now').mockImplementation(() => ahead)
  onTestFinished(() => wall.mockRestore())
  const startedMs = performance.now()
  await new Promise((resolve) => reservation.signal.addEventListener('abort', resolve))
  // At about a third of the lease, long before its end on the monotonic clock; and without a tight loop until then.
  expect(performance.now() - startedMs).toBeLessThan(5_000)
  expect(tries).toBe(1)
})

test('a result that JSON can not hold is an error of its own, and another result can be given', async () => {
  await using api = await startReservationApi()
  const client = createClient({ url: api.origin })
  await using reservation = await client.reserve('v')
  expect(await thrownBy(reservation.complete({ rows: 1n }))).toBeInstanceOf(TypeError)
  await reservation.complete({ rows: '1' })
  expect(await client.read('v')).toMatchObject({ result: { rows: '1' } })
})

test('extensions run one after the other, so a late answer never replaces that of a later extension', async () => {
  await using api = await startReservationApi()
  const asked: string[] = []
  let answerFirst = (): void => {}
  const first = new Promise<void>((resolve) => {
    answerFirst = resolve
  })
  const client = createClient({
    url: api.origin,
    fetch: async (input, init) => {
      if (!String(input).endsWith('/extend')) return fetch(input, init)
      asked.push(String(init?.body))
      if (asked.length === 1) await first
      return fetch(input, init)
    },
  })
  await using reservation = await client.reserve('v', { leaseMs: 20_000, heartbeat: false })
  const both = [reservation.extend(), reservation.extend(40_000)]
  await new Promise(setImmediate)
  expect(asked.length).toBe(1)
  answerFirst()
  await Promise.all(both)
  expect((await client.read('v')).remainingLeaseMs).toBeGreaterThan(reservation.remainingMs)
  expect(reservation.remainingMs).toBeGreaterThan(30_000)
})

test.each(['complete', 'release', 'abandon', Symbol.asyncDispose] as const)(
  '%s ends an extension that is under way, too',
  async (how) => {
    await using api = await startReservationApi()
    const extending: AbortSignal[] = []
    const client = createClient({
      url: api.origin,
      fetch: (input, init) => {
        if (!String(input).endsWith('/extend')) return fetch(input, init)
        extending.push(init!.signal!)
        return new Promise((_, reject) => {
          init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason))
        })
      },
    })
    const reservation = await client.reserve('v', { leaseMs: 5_000, heartbeat: false })
    const extension = thrownBy(reservation.extend())
    await eventually('it is under way', () => extending.length === 1)
    await reservation[how]()
    expect(extending.map(({ aborted }) => aborted)).toEqual([true])
    expect(await extension).toBeInstanceOf(LeaseLostError)
    expect(reservation.signal.aborted).toBe(false)
  },
)

test('a reservation whose answer was lost is requested again, and is the same one', async () => {
  await using api = await startReservationApi()
  const tokens: unknown[] = []
  let lost = 2
  const client = createClient({
    url: api.origin,
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      if (lost === 0) return response
      lost -= 1
      tokens.push(((await response.json()) as { fencing_token: number }).fencing_token)
      throw new TypeError('connection reset')
    },
  })
  await using reservation = await client.reserve('v')
  expect(tokens).toEqual([reservation.fencingToken, reservation.fencingToken])
})

test('a conflict with an own unanswered attempt is retried, and ends in the reservation', async () => {
  await using api = await startReservationApi()
  let tries = 0
  const client = createClient({
    url: api.origin,
    fetch: async (input, init) => {
      tries += 1
      if (tries === 1) throw new TypeError('connection reset')
      if (tries > 2) return fetch(input, init)
      // The answer to the second attempt while the first is still claiming.
      const problem = { code: 'reservation-conflict', status: 409, detail: 'held' }
      return new Response(JSON.stringify(problem), { status: 409 })
    },
  })
  await using reservation = await client.reserve('v')
  expect([tries, reservation.attempt]).toEqual([3, 1])
})

test('retries wait for Retry-After and end with the time budget', async () => {
  await using api = await startReservationApi()
  for (const node of api.nodes.slice(0, 3)) node.stop()
  const askedAtMs: number[] = []
  const client = createClient({
    url: api.origin,
    retryForMs: 4_000,
    fetch: (input, init) => {
      askedAtMs.push(performance.now())
      return fetch(input, init)
    },
  })
  const error = await thrownBy(client.read('v'))
  expect(error).toBeInstanceOf(QuorumUnavailableError)
  expect(askedAtMs.length).toBeGreaterThan(1)
  const gaps = askedAtMs.slice(1).map((at, index) => at - askedAtMs[index]!)
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1_000)
})

test('the caller can abort a request for a reservation', async () => {
  await using api = await startReservationApi()
  const client = createClient({ url: api.origin })
  await using _ = await client.reserve('v')
  const controller = new AbortController()
  const waiting = client.reserve('v', { waitMs: 10_000, signal: controller.signal })
  const reason = new Error('enough')
  await eventually('it was refused once', () =>
    api.events.some((event) => event.kind === 'claim_ended' && event.result === 'held'),
  )
  controller.abort(reason)
  expect(await thrownBy(waiting)).toBe(reason)
})

describe('every refusal has its class', () => {
  type Reach = (client: ReturnType<typeof createClient>) => Promise<unknown>
  const request = { method: 'POST', path: '/p', headers: { 'idempotency-key': 'k' }, body: '1' }
  test.each<[name: string, type: new (...args: never[]) => FencepostError, reach: Reach]>([
    ['held', ConflictError, async (client) => [await client.reserve('v'), await client.reserve('v')]],
    [
      'entity',
      EntityBusyError,
      async (client) => [
        await client.reserve('v', { entities: ['e'] }),
        await client.reserve('w', { entities: ['e'] }),
      ],
    ],
    [
      'mismatch',
      MismatchError,
      async (client) => [await client.reserve(request), await client.reserve({ ...request, body: '2' })],
    ],
    ['refused', RefusedError, (client) => client.reserve('')],
    [
      'undecided',
      UndecidedError,
      async (client) => {
        ;(await client.reserve('v', { leaseMs: 100 })).abandon()
        await client.reserve('v', { takeover: 'indeterminate', waitMs: 2_000 })
      },
    ],
    [
      'fenced',
      FencedError,
      async (client) => {
        const late = await client.reserve('v', { leaseMs: 100, heartbeat: false })
        await client.reserve('v', { waitMs: 2_000 })
        await late.complete('late')
      },
    ],
    [
      'lost',
      LeaseLostError,
      async (client) => {
        const late = await client.reserve('v')
        await late.release()
        await late.extend()
      },
    ],
    [
      'unreachable',
      UnreachableError,
      () => createClient({ url: 'http://127.0.0.1:1', retryForMs: 10 }).read('v'),
    ],
  ])('%s', async (_name, type, reach) => {
    await using api = await startReservationApi()
    expect(await thrownBy(reach(createClient({ url: api.origin })))).toBeInstanceOf(type)
  })
})

test('a completion of unknown effect is an error of its own, and reserving again tells what stands', async () => {
  const { nodes, away } = createAwayNodes(systemClock)
  await using api = await startReservationApi({ nodes })
  const client = createClient({ url: api.origin, retryForMs: 100 })
  const late = await client.reserve('v', { leaseMs: 100, heartbeat: false })
  away(3, 4)
  await (await client.reserve('v', { waitMs: 2_000 })).release()
  away()
  expect(await thrownBy(late.complete('late'))).toMatchObject({
    name: 'CompletionUndecidedError',
    code: 'completion-undecided',
  })
  expect(await thrownBy(client.reserve('v'))).toMatchObject({ name: 'DuplicateError', result: 'late' })
})

test('types: what is given and what comes back', () => {
  type Client = ReturnType<typeof createClient>
  expectTypeOf<Parameters<Client['reserve']>[0]>().toExtend<
    string | readonly string[] | { readonly method: string; readonly path: string }
  >()
  expectTypeOf<Awaited<ReturnType<Client['reserve']>>>().toEqualTypeOf<Reservation>()
  expectTypeOf<Reservation>().toExtend<AsyncDisposable>()
  expectTypeOf<Reservation['fencingToken']>().toBeNumber()
  const work = (client: Client) => client.withReservation('v', async () => ({ id: 1 }))
  expectTypeOf<ReturnType<typeof work>>().resolves.toEqualTypeOf<{ id: number }>()
  expectTypeOf<DuplicateError['result']>().toBeUnknown()
  expectTypeOf<EntityBusyError>().toExtend<ConflictError>()
  expectTypeOf<FencedError>().toExtend<LeaseLostError>()
  // @ts-expect-error: a lease is a number of milliseconds, and says so in its name
  const wrong: Parameters<Client['reserve']>[1] = { lease: '30s' }
  expect(wrong).toBeDefined()
  // Bug: with exactOptionalPropertyTypes no option took what may be missing, as a variable of the environment or a caller's signal may.
  type Given<T> = { readonly [K in keyof T]: T[K] | undefined }
  expectTypeOf<Given<ClientOptions>>().toExtend<ClientOptions>()
  expectTypeOf<Given<WithReservationOptions>>().toExtend<WithReservationOptions>()
  expectTypeOf<Pick<Given<DescribedRequest>, 'query' | 'headers' | 'body'>>().toExtend<
    Partial<DescribedRequest>
  >()
})

test.each([
  [undefined, 'FREE'],
  ['mine', 'HELD'],
])('a request aborted after its grant, session %s: %s', async (sessionId, state) => {
  await using api = await startReservationApi()
  const granted = Promise.withResolvers<void>()
  let first = true
  const answers: Promise<unknown>[] = []
  const client = createClient({
    url: api.origin,
    fetch: async (input, init) => {
      if (!first) {
        const answer = fetch(input, init)
        answers.push(answer)
        return answer
      }
      first = false
      await fetch(input, { ...init, signal: null })
      granted.resolve()
      return new Promise<never>((_, reject) =>
        init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason)),
      )
    },
  })
  const controller = new AbortController()
  const asking = client.reserve('v', {
    signal: controller.signal,
    ...(sessionId === undefined ? {} : { sessionId }),
  })
  await granted.promise
  controller.abort(new Error('the user left'))
  expect(await thrownBy(asking)).toBe(controller.signal.reason)
  const other = createClient({ url: api.origin })
  await eventually(`it is ${state}`, async () => (await other.read('v')).state === state)
  if (state === 'HELD') return expect(answers).toEqual([])
  await using reservation = await other.reserve('v')
  expect(reservation.attempt).toBe(1)
})
