/** `once`, and what a client refuses before it sends anything: against the real API on embedded nodes. */

import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ClientOptions,
  ConflictError,
  createClient,
  DuplicateError,
  type FetchLike,
  RefusedError,
  type ReserveOptions,
  UnreachableError,
} from '@fencepost/client'
import { Agent, fetch as undiciFetch } from 'undici'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { freePort } from '../support/free-port.ts'
import { listening } from '../support/listening.ts'
import { startReservationApi } from '../support/reservation-api.ts'
import { startSidecar } from '../support/sidecar.ts'

const api = duringTests(() => startReservationApi())

describe('once', () => {
  test('the first call works, and every later one is answered with its result', async () => {
    const client = createClient({ url: api.origin })
    let done = 0
    const pay = () => client.once('once:pay', async () => ({ payment: `p-${++done}` }))
    expect(await pay()).toEqual({ replayed: false, result: { payment: 'p-1' } })
    expect(await pay()).toEqual({ replayed: true, result: { payment: 'p-1' } })
    expect(done).toBe(1)
  })

  test('work without a result is replayed without one', async () => {
    const client = createClient({ url: api.origin })
    expect(await client.once('once:void', async () => {})).toEqual({ replayed: false, result: undefined })
    expect(await client.once('once:void', async () => {})).toEqual({ replayed: true, result: undefined })
  })

  test('while another holder works it is a conflict, and with waitMs its result', async () => {
    const client = createClient({ url: api.origin })
    const held = await client.reserve('once:busy')
    await expect(client.once('once:busy', async () => 2)).rejects.toThrow(ConflictError)
    const waiting = client.once('once:busy', async () => 2, { waitMs: 8_000 })
    await held.complete(1)
    expect(await waiting).toEqual({ replayed: true, result: 1 })
  })

  // Bug: it was completed a second time, and what had been done and recorded ended in a FencedError: somebody else had come after.
  test('work that completes or releases its reservation itself is left at that', async () => {
    const client = createClient({ url: api.origin })
    const completing = client.once('once:completes', async (held) => {
      await held.complete({ payment: 1 })
      return { payment: 1 }
    })
    expect(await completing).toEqual({ replayed: false, result: { payment: 1 } })
    expect(await client.once('once:completes', async () => ({ payment: 2 }))).toEqual({
      replayed: true,
      result: { payment: 1 },
    })
    expect(await client.withReservation('once:releases', (held) => held.release())).toBeUndefined()
    expect(await client.read('once:releases')).toMatchObject({ state: 'FREE' })
  })

  // Bug: it was completed with what the work returned, so a retry was told that the payment was made, and replayed nothing.
  test('work that abandons its reservation and returns records nothing: the next one learns that it is not the first', async () => {
    const client = createClient({ url: api.origin })
    const abandoning = client.once('once:abandons', async (held) => held.abandon(), { leaseMs: 200 })
    expect(await abandoning).toEqual({ replayed: false, result: undefined })
    const next = await client.once('once:abandons', async ({ attempt }) => attempt, { waitMs: 8_000 })
    expect(next).toEqual({ replayed: false, result: 2 })
  })

  test('a duplicate that the work itself meets is its error, and not the result', async () => {
    const client = createClient({ url: api.origin })
    await client.once('once:inner', async () => 'inner')
    const outer = client.once('once:outer', async () => {
      await client.reserve('once:inner')
    })
    await expect(outer).rejects.toThrow(DuplicateError)
    expect(await client.read('once:outer')).toMatchObject({ state: 'HELD' })
  })

  test.each<['release' | 'hold' | undefined, string]>([
    [undefined, 'HELD'],
    ['release', 'FREE'],
    ['hold', 'HELD'],
  ])('work that throws with onError %s leaves it %s', async (onError, state) => {
    const client = createClient({ url: api.origin })
    const value = `once:${onError}`
    const failing = client.once(value, () => Promise.reject(new Error('no')), { onError })
    await expect(failing).rejects.toThrow('no')
    expect(await client.read(value)).toMatchObject({ state })
  })
})

describe('an intent', () => {
  // Bug: "Cannot use 'in' operator to search for 'method' in 42".
  test.each([undefined, null, 42, {}, () => 'a'])('that is %o is refused with a sentence', async (intent) => {
    const { name, message } = await thrownBy(createClient({ url: api.origin }).reserve(intent as never))
    expect(name).toBe('TypeError')
    expect(message).toMatch(
      /^the intent is .+; give a string such as `payment:\$\{order\.id\}`, a list of strings, or a request$/,
    )
  })

  // Bug: the value "undefined" was read, and it is free.
  test.each([undefined, 42])('that is %o is not read', async (value) => {
    const { name, message } = await thrownBy(createClient({ url: api.origin }).read(value as never))
    expect([name, message]).toEqual(['TypeError', `the value is ${value}; give a string`])
  })
})

// Bug: the option had the type of the runtime's own, which neither undici's nor a function around Bun's has.
test('the fetch of undici reaches a sidecar on a unix socket', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-'))
  const socketPath = join(folder, 'api.sock')
  await using _ = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_API_LISTEN: `unix:${socketPath}`,
  })
  const dispatcher = new Agent({ connect: { socketPath } })
  const client = createClient({
    url: 'http://localhost',
    fetch: (url, init) => undiciFetch(url, { ...init, dispatcher }),
  })
  expect(await client.once('over a socket', async () => 1)).toEqual({ replayed: false, result: 1 })
  await dispatcher.close()
  rmSync(folder, { recursive: true })
  expectTypeOf<typeof undiciFetch>().toExtend<FetchLike>()
  expectTypeOf<typeof fetch>().toExtend<FetchLike>()
})

describe('times', () => {
  const names = ['leaseMs', 'retentionMs', 'waitMs'] as const
  const wrong = [1.5, -1, Number.NaN, Number.POSITIVE_INFINITY, '30s', '30'] as const
  test.each(names.flatMap((name) => wrong.map((value) => [name, value] as const)))(
    '%s of %s is refused with a sentence before a call is sent',
    async (name, value) => {
      let sent = 0
      const client = createClient({
        url: api.origin,
        fetch: (input, init) => {
          sent += 1
          return fetch(input, init)
        },
      })
      const options = { [name]: value } as unknown as ReserveOptions
      const { message } = await thrownBy(client.reserve('times', options))
      expect(message).toMatch(
        new RegExp(
          `^${name} is .+; give a whole number of milliseconds from [01] to \\d+: 30_000 is 30 seconds$`,
        ),
      )
      expect(message).toContain(String(value))
      expect(sent).toBe(0)
    },
  )

  // Bug: the timer of a try has no such time and ended after a millisecond, so the call was sent again and again, for years.
  test('a wait that no timer can wait for is refused', async () => {
    const options = { waitMs: 2 ** 31, signal: AbortSignal.abort() }
    const { message } = await thrownBy(createClient({ url: api.origin }).reserve('times', options))
    expect(message).toMatch(/^waitMs is 2147483648; give a whole number of milliseconds from 0 to 86400000:/)
  })

  test('an extension is refused in the same way, and the reservation stays', async () => {
    await using held = await createClient({ url: api.origin }).reserve('times:extend')
    expect((await thrownBy(held.extend(0.5))).message).toContain('leaseMs is 0.5;')
    expect(held.signal.aborted).toBe(false)
  })

  test.each<ClientOptions>([{ retryForMs: -1 }, { callTimeoutMs: 0 }, { callTimeoutMs: 86_400_001 }])(
    'options of a client: %o',
    (options) => {
      expect(() => createClient(options)).toThrow(/^\w+Ms is \S+; give a whole number of milliseconds/)
    },
  )
})

// Bug: each call was tried for seconds, and its error quoted the header, with the tokens in it.
test('a token that no header takes is refused when the client is made, and is not shown', () => {
  for (const token of ['first-secret\nsecond-secret\n', 'a-secret\u2026'])
    expect(() => createClient({ token })).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        message: expect.not.stringMatching(/secret/),
      }),
    )
})

test('a token is sent without the line break at the end of its file', async () => {
  const sent: unknown[] = []
  const client = createClient({
    token: 'a-secret\n',
    fetch: (_, init) => {
      sent.push(new Headers(init?.headers).get('authorization'))
      return Promise.resolve(Response.json({ state: 'FREE' }))
    },
  })
  expect(await client.read('v')).toEqual({ state: 'FREE' })
  expect(sent).toEqual(['Bearer a-secret'])
})

describe('addresses', () => {
  test.each([
    ['localhost:8081', 'is no address of http or https'],
    ['127.0.0.1:8081', 'is no address of http or https'],
    ['', 'is no address of http or https'],
    ['redis://127.0.0.1:6379', 'is no address of http or https'],
    ['http://127.0.0.1:8081/?a=1', 'has a query or a fragment'],
    ['http://user:secret@127.0.0.1:8081', 'has a user or a password'],
    ['http://user:secret#1@127.0.0.1:8081', 'is no address of http or https'],
    ['http://secret@127.0.0.1:8081', 'has a user or a password'],
  ])('%s is refused when the client is made', (url, why) => {
    expect(() => createClient({ url })).toThrow(why)
    expect(() => createClient({ url })).not.toThrow('secret')
  })

  // No budget ends these calls: had they been tried again, the test would take a minute.
  const retryForMs = 60_000

  test('where no sidecar listens, the first call says so at once', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const error = await thrownBy(createClient({ url, retryForMs }).reserve('v'))
    expect(error).toBeInstanceOf(UnreachableError)
    expect(error.message).toBe(
      `POST ${url}/v1/reservations: no sidecar is reached there (ECONNREFUSED). Start one, or name its address: createClient({ url })`,
    )
  })

  test('after an answer a refused connection is a restart, and is tried again', async () => {
    let refusals = 0
    const client = createClient({
      url: api.origin,
      fetch: (...call) => {
        if (refusals-- <= 0) return fetch(...call)
        return Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }))
      },
    })
    await client.read('addresses')
    refusals = 2
    expect(await client.read('addresses')).toMatchObject({ state: 'FREE' })
    expect(refusals).toBe(-1)
  })

  test('after an answer the page of something between is no refusal: completing is tried again', async () => {
    let pages = 0
    const client = createClient({
      url: api.origin,
      fetch: (input, init) => {
        if (!String(input).endsWith('/complete') || pages > 0) return fetch(input, init)
        pages += 1
        return Promise.resolve(
          new Response('<h1>500</h1>', { status: 500, headers: { 'content-type': 'text/html' } }),
        )
      },
    })
    expect(await client.once('addresses:page', async () => 1)).toEqual({ replayed: false, result: 1 })
    expect(pages).toBe(1)
    expect(await client.read('addresses:page')).toMatchObject({ state: 'COMPLETED' })
  })

  test.each<[string, number, string, string]>([
    ['a page', 200, 'text/html', '<h1>Welcome</h1>'],
    ['another 404', 404, 'text/plain', 'Not Found'],
    ['JSON with success', 200, 'application/json', '{"id":1}'],
    ['JSON without an object', 200, 'application/json', 'null'],
    ['a 404 in JSON', 404, 'application/json', '{"message":"no such route"}'],
  ])('%s of another server is named as such at once', async (_what, status, type, body) => {
    await using server = createServer((_, response) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    )
    const { origin: url } = await listening(server)
    const error = await thrownBy(createClient({ url, retryForMs }).reserve('v'))
    expect(error).toBeInstanceOf(RefusedError)
    expect(error.message).toMatch(/fencepost/)
  })
})

async function thrownBy(work: Promise<unknown>): Promise<Error> {
  return work.then(
    () => expect.fail('it did not throw'),
    (error: Error) => error,
  )
}
