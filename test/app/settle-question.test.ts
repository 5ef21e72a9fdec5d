/** What the application is asked about an orphan, how its reply is read, and what is stored of the answer in it. */
import { beforeAll, describe, expect, test } from 'vitest'
import { askOf } from '../../src/app/settle-question.ts'
import type { SettleReply } from '../../src/core/coordination/settle-orphan.ts'
import type { ProtectedRoute, Route } from '../../src/core/routes/route.ts'
import { systemClock } from '../../src/system/clock.ts'
import { createApplication } from '../../src/upstream/application.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { route } from '../support/proxy.ts'

const ORPHAN = {
  recordKey: `dedup:t:e:v:${'0'.repeat(64)}`,
  fingerprint: 'f'.repeat(64),
  token: 1,
  attempt: 1,
}
const LIMIT_BYTES = 256 * 1024
const REPLY_BYTES = Math.ceil(LIMIT_BYTES * 1.4) + 64 * 1024
const AT_MS = 1_750_000_000_000

const stack = stackOfTests()
let server: TestApplication
let application: ReturnType<typeof createApplication>

beforeAll(async () => {
  server = stack.use(await startApplication())
  application = stack.use(
    createApplication({
      address: { kind: 'http', origin: server.origin },
      connectTimeoutMs: 500,
      bodyIdleMs: 60_000,
      connectionsMax: 1,
      keepAliveMs: 4_000,
      host: 'client',
      clock: systemClock,
    }),
  )
})

/** Asks once; what is wrong with the reply goes into `troubles`. */
async function asked(troubles: string[], routes: readonly Route[] = [route()]): Promise<SettleReply> {
  const ask = askOf(
    { settlePath: '/settle', routes, storedResponseLimitBytes: LIMIT_BYTES },
    {
      application,
      clock: { ...systemClock, wallMs: () => AT_MS },
      onFailure: (cause) => troubles.push(String(cause)),
    },
  )
  if (ask === undefined) throw new Error('nobody is asked')
  return ask(ORPHAN)
}

const replyWith = (reply: unknown) => {
  server.respond = (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/json' })
    response.end(typeof reply === 'string' ? reply : JSON.stringify(reply))
  }
}

const base64 = (text: string) => Buffer.from(text).toString('base64')
const completedWith = (response: unknown) => ({ outcome: 'completed', response })

test.each<[status: number, body: string, logged: RegExp[]]>([
  [
    200,
    `{"outcome":"completed","why":"${'x'.repeat(1_000_000)}"}`,
    [new RegExp(`more than ${REPLY_BYTES} bytes`)],
  ],
  [404, 'no such page '.repeat(100_000), []],
])('an oversized reply %i counts as unknown, and keeps no connection', async (status, body, logged) => {
  server.respond = (_request, response) => void response.writeHead(status).end(body)
  for (let round = 0; round < 3; round += 1) {
    const troubles: string[] = []
    expect(await asked(troubles)).toBe('unknown')
    expect(troubles).toEqual(logged.map((text) => expect.stringMatching(text)))
  }
})

test('a reply without a length that breaks off counts as unknown, and the round goes on', async () => {
  server.respond = (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: {}\n\n', () => response.destroy())
  }
  expect(await asked([])).toBe('unknown')
})

test.each(['completed', 'released', 'unknown'] as const)(
  'a reply that says only %s is that, with and without an empty response',
  async (outcome) => {
    const troubles: string[] = []
    for (const reply of [{ outcome }, { outcome, response: null }]) {
      replyWith(reply)
      expect(await asked(troubles)).toBe(outcome)
    }
    expect(troubles).toEqual([])
  },
)

test('a reply with the answer is completed with it, byte for byte, without the headers that are never stored', async () => {
  const bytes = Buffer.from([0, 0xff, 0x0a, 0x22])
  replyWith(
    completedWith({
      status: 201,
      headers: { Location: '/things/1', 'Content-Type': 'image/x', 'Set-Cookie': 'a=b', 'X-Two': ['1', '2'] },
      body_base64: bytes.toString('base64'),
    }),
  )
  const troubles: string[] = []
  expect(await asked(troubles)).toEqual({
    verdict: 'completed',
    outcome: {
      kind: 'response',
      status: 201,
      headers: [
        ['Location', '/things/1'],
        ['Content-Type', 'image/x'],
        ['X-Two', '1'],
        ['X-Two', '2'],
        ['Idempotency-Omitted', 'set-cookie'],
      ],
      body: bytes,
      completedAtWallMs: AT_MS,
    },
  })
  expect(troubles).toEqual([])
})

test('an empty answer is stored without the length that the application states', async () => {
  const headers = { 'Content-Length': '5', 'Content-Type': 'text/plain' }
  replyWith(completedWith({ status: 200, headers, body_base64: '' }))
  expect(await asked([])).toMatchObject({
    outcome: { kind: 'response', headers: [['Content-Type', 'text/plain']], body: Buffer.alloc(0) },
  })
})

test.each<[what: string, reply: unknown, logged: RegExp]>([
  ['no JSON', 'completed', /no JSON/],
  ['JSON without an outcome', { response: { status: 201 } }, /neither completed, released nor unknown/],
  ['a number', '7', /neither completed, released nor unknown/],
  ['released, with an answer', { outcome: 'released', response: { status: 201 } }, /says "released"/],
  ['unknown, with an answer', { outcome: 'unknown', response: { status: 201 } }, /says "unknown"/],
  ['an answer that is a text', completedWith('201'), /"response" of its reply is not/],
  ['a status that is none', completedWith({ status: 99 }), /"response" of its reply is not/],
  ['a header that is a number', completedWith({ status: 201, headers: { a: 1 } }), /"response" of its reply/],
  ['a body that is not base64', completedWith({ status: 201, body_base64: 'ü' }), /"response" of its reply/],
  ['a status that settles nothing', completedWith({ status: 503 }), /status 503/],
  ['part of a resource', completedWith({ status: 206 }), /status 206/],
  ['a refusal for now', completedWith({ status: 409, headers: { 'retry-after': '1' } }), /status 409/],
])(
  '%s counts as unknown, and the log says why, for which lock, and nothing of the content',
  async (_, reply, logged) => {
    replyWith(reply)
    const troubles: string[] = []
    expect(await asked(troubles)).toBe('unknown')
    expect(troubles).toEqual([expect.stringMatching(logged)])
    expect(troubles[0]).toContain(`/settle about ${'0'.repeat(16)}-1: `)
    expect(troubles[0]).toContain('nothing was decided')
  },
)

describe('an answer without its body is a tombstone with its status and location: duplicates get 410', () => {
  const TOMBSTONE = {
    verdict: 'completed',
    outcome: { kind: 'tombstone', status: 201, location: '/x', completedAtWallMs: AT_MS },
  }
  const card = '{"card":"4111"}'
  const json = { Location: '/x', 'Content-Type': 'application/json' }

  test.each<
    [
      what: string,
      body: string | undefined,
      headers: object,
      differs: Partial<ProtectedRoute>,
      logged: RegExp[],
    ]
  >([
    ['no body was sent', undefined, json, {}, []],
    [
      'the body is a byte too large',
      'x'.repeat(LIMIT_BYTES + 1),
      json,
      {},
      [/262145 bytes, and at most 262144 are stored/],
    ],
    [
      'a route stores less',
      'four',
      json,
      { storedResponseLimitBytes: 3 },
      [/4 bytes, and at most 3 are stored/],
    ],
    ['a route stores no bodies', 'four', json, { bodyStorage: 'none' }, [/bodyStorage: none/]],
    ['a route redacts, and the body can not be read', `${card},`, json, { redact: ['/card'] }, [/redacts/]],
  ])('where %s', async (_, body, headers, differs, logged) => {
    replyWith(
      completedWith({
        status: 201,
        headers,
        ...(body === undefined ? {} : { body_base64: base64(body) }),
      }),
    )
    const troubles: string[] = []
    expect(await asked(troubles, [route(), route(differs)])).toEqual(TOMBSTONE)
    expect(troubles).toEqual(logged.map((text) => expect.stringMatching(text)))
  })

  test('but the largest body that is stored is stored', async () => {
    replyWith(completedWith({ status: 201, headers: json, body_base64: base64('x'.repeat(LIMIT_BYTES)) }))
    expect(await asked([])).toMatchObject({ outcome: { kind: 'response' } })
  })
})

describe('a record does not name its route, so only what every route would store is stored', () => {
  const stored = async (routes: readonly Route[]) => {
    replyWith(
      completedWith({
        status: 201,
        headers: { 'Content-Type': 'application/json', 'Set-Id': '7' },
        body_base64: base64('{"card":"4111","id":7,"pin":1}'),
      }),
    )
    const reply = await asked([], routes)
    if (typeof reply === 'string' || reply.outcome.kind !== 'response') return reply
    return [String(reply.outcome.body), reply.outcome.headers.map(([name]) => name).join()]
  }
  const whole = '{"card":"4111","id":7,"pin":1}'
  const bypass: Route = { name: 'b', match: {}, mode: 'bypass', upstreamTimeoutMs: 1 }

  test.each<[what: string, routes: readonly Route[], body: string, headers: string]>([
    ['no route protects', [bypass], whole, 'Content-Type'],
    ['one route keeps a header', [route({ storedHeaders: ['set-id'] })], whole, 'Content-Type,Set-Id'],
    ['one of two keeps a header', [route({ storedHeaders: ['set-id'] }), route()], whole, 'Content-Type'],
    ['one of two redacts', [route(), route({ redact: ['/card'] })], '{"id":7,"pin":1}', 'Content-Type'],
    ['each redacts', [route({ redact: ['/pin'] }), route({ redact: ['/card'] })], '{"id":7}', 'Content-Type'],
  ])('%s', async (_, routes, body, headers) => {
    expect(await stored(routes)).toEqual([body, headers])
  })

  test('a route that does not store the status decides for all', async () => {
    expect(await stored([route(), route({ store: { 201: 'release' } })])).toBe('unknown')
  })
})
