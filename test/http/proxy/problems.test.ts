import { describe, expect, test } from 'vitest'
import {
  PROBLEM_CODES,
  PROBLEM_TYPE_BASE,
  PROBLEMS,
  type ProblemCode,
  problemDocument,
} from '../../../src/http/message/problems.ts'
import {
  inProgress,
  KEY_REUSED,
  RECORD_DAMAGED,
  undecided,
} from '../../../src/http/message/record-problems.ts'
import { startApplication, startRawApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { heldClock } from '../../support/held-clock.ts'
import { operatorProblems } from '../../support/operator-problems.ts'
import { hold, openWire, route, startProxy } from '../../support/proxy.ts'
import { reservationProblems } from '../../support/reservation-problems.ts'

type Problem = {
  readonly status: number
  readonly document: Record<string, unknown>
  readonly retryAfter: string | null
}

async function told(response: Response | Promise<Response>): Promise<Problem> {
  const answer = await response
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  return {
    status: answer.status,
    document: (await answer.json()) as Problem['document'],
    retryAfter: answer.headers.get('retry-after'),
  }
}

async function toldOnWire(port: number, bytes: string): Promise<Problem> {
  await using wire = await openWire(port)
  wire.send(bytes)
  await eventually(
    'a whole answer',
    () => wire.received().includes('\r\n\r\n') && wire.received().endsWith('}'),
  )
  const [head = '', body = ''] = wire.received().split('\r\n\r\n')
  return {
    status: Number(/^HTTP\/1\.1 ([0-9]+)/.exec(head)?.[1]),
    document: JSON.parse(body) as Problem['document'],
    retryAfter: /\r\nRetry-After: (.*)/i.exec(head)?.[1] ?? null,
  }
}

/** A proxy in front of an application that answers at once. */
async function simple(
  ask: (proxy: Awaited<ReturnType<typeof startProxy>>) => Promise<Problem>,
  options: Parameters<typeof startProxy>[1] = {},
): Promise<Problem> {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, options)
  return await ask(proxy)
}

/** The application holds the first request of a key while the second arrives. */
async function whileHeld(
  options: Parameters<typeof startProxy>[1],
  ask: (proxy: Awaited<ReturnType<typeof startProxy>>) => Promise<Problem>,
): Promise<Problem> {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    await held.released
    response.end('done')
  })
  await using proxy = await startProxy(application.origin, options)
  const first = proxy.post('held')
  await eventually('the application works', () => application.seen.length === 1)
  const problem = await ask(proxy)
  held.release()
  await first
  return problem
}

async function brokenApplication(answer: string, after: 'keep' | 'end'): Promise<Problem> {
  await using application = await startRawApplication(answer, after)
  await using proxy = await startProxy(application.origin)
  return await told(proxy.post('k'))
}

const POST = 'POST /things HTTP/1.1\r\nHost: a\r\n'

const reached = <C extends string>(problems: Record<C, () => Promise<Response>>) =>
  Object.fromEntries(
    Object.entries<() => Promise<Response>>(problems).map(([code, reach]) => [code, () => told(reach())]),
  ) as Record<C, () => Promise<Problem>>

/** This proxy has no verifier, so that no token is valid. */
const VERIFIED = {
  kind: 'verified_jwt',
  claims: ['sub'],
  issuer: 'https://id.test/',
  audience: 'any',
  algorithms: ['ES256'],
  toleranceMs: 0,
  jwks: {},
} as const

const scenarios: Record<ProblemCode, () => Promise<Problem>> = {
  ...reached(reservationProblems),
  ...reached(operatorProblems),
  'malformed-request': () => simple((proxy) => toldOnWire(proxy.port, `${POST}Host: b\r\n\r\n`)),
  'key-missing': () =>
    simple((proxy) => told(proxy.post(undefined)), { routes: [route({ required: true })] }),
  'key-invalid': () => simple((proxy) => told(proxy.post('a,b'))),
  'scope-invalid': () => simple((proxy) => told(proxy.post('k', '{}', { 'x-tenant-id': 'x'.repeat(129) }))),
  'token-invalid': () =>
    simple((proxy) => told(proxy.post('k', '{}', { authorization: 'Bearer opaque' })), {
      routes: [route({ principal: VERIFIED })],
    }),
  'token-unverifiable': () =>
    simple((proxy) => told(proxy.post('k', '{}', { authorization: 'Bearer e30.e30.c2ln' })), {
      routes: [route({ principal: VERIFIED })],
    }),
  'digest-mismatch': () =>
    simple((proxy) => told(proxy.post('k', '{}', { 'content-digest': `sha-256=:${'A'.repeat(43)}=:` }))),
  'method-refused': () =>
    simple((proxy) => toldOnWire(proxy.port, 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n')),
  'request-timeout': () =>
    simple((proxy) => toldOnWire(proxy.port, `${POST}Idempotency-Key: k\r\nContent-Length: 9\r\n\r\n{`), {
      limits: { requestTimeoutMs: 100, headersTimeoutMs: 100 },
    }),
  'body-too-large': () =>
    simple((proxy) => told(proxy.post('k', 'x'.repeat(101))), { routes: [route({ bodyLimitBytes: 100 })] }),
  'expectation-failed': () =>
    simple((proxy) => toldOnWire(proxy.port, `${POST}Expect: cake\r\nContent-Length: 0\r\n\r\n`)),
  'headers-too-large': () =>
    simple((proxy) => toldOnWire(proxy.port, `${POST}${'a: b\r\n'.repeat(200)}\r\n`)),
  'transfer-encoding-unsupported': () =>
    simple((proxy) => toldOnWire(proxy.port, `${POST}Transfer-Encoding: gzip, chunked\r\n\r\n`)),
  'upgrade-refused': () =>
    simple((proxy) =>
      toldOnWire(proxy.port, `${POST}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n`),
    ),
  'request-in-progress': () => whileHeld({}, (proxy) => told(proxy.post('held'))),
  'duplicate-content': () =>
    simple(
      async (proxy) => {
        await proxy.post('one', '{"a":1}')
        return await told(proxy.post('two', '{"a":1}'))
      },
      { routes: [route({ mode: 'both' })] },
    ),
  'outcome-undecided': async () => {
    await using application = await startRawApplication('', 'reset')
    await using proxy = await startProxy(application.origin, {
      routes: [route({ takeover: 'indeterminate', leaseMs: 150 })],
    })
    await proxy.post('k')
    let last: Problem | undefined
    await eventually('the lease has ended', async () => {
      last = await told(proxy.post('k'))
      return last.document.code === 'outcome-undecided'
    })
    expect(application.requests.length).toBe(1)
    return last!
  },
  'response-not-stored': () =>
    simple(
      async (proxy) => {
        await proxy.post('k')
        return await told(proxy.post('k'))
      },
      { routes: [route({ storedResponseLimitBytes: 4 })] },
    ),
  'key-reused': () =>
    simple(async (proxy) => {
      await proxy.post('k', '{"a":1}')
      return await told(proxy.post('k', '{"a":2}'))
    }),
  'too-many-waiters': () =>
    whileHeld(
      { routes: [route({ onContention: 'wait', wait: { maxMs: 5_000, maxWaiters: 1 } })] },
      async (proxy) => {
        proxy.post('held').catch(() => {})
        await eventually(
          'one waits',
          () => proxy.events.filter((event) => event.kind === 'claim_ended').length >= 2,
        )
        const refused = await told(proxy.post('held'))
        return refused
      },
    ),
  'tenant-in-flight': () => whileHeld({ tenants: { inFlightMax: 1 } }, (proxy) => told(proxy.post('other'))),
  'tenant-new-records': () =>
    simple(
      async (proxy) => {
        await proxy.post('first')
        return await told(proxy.post('second'))
      },
      { tenants: { newRecordsPerSecondMax: 1 }, quotaClock: heldClock() },
    ),
  'internal-error': async () => {
    await using application = await startApplication()
    await using proxy = await startProxy(application.origin, {
      // A pointer that the configuration would have refused.
      routes: [
        route({
          fingerprint: { headers: [], ignore: [], body: { kind: 'exclude', pointers: ['no pointer'] } },
        }),
      ],
    })
    const problem = await told(proxy.post('k'))
    expect(proxy.failures.length).toBe(1)
    return problem
  },
  'record-damaged': async () => {
    await using application = await startApplication()
    await using first = await startProxy(application.origin)
    await first.post('k')
    for (const node of first.nodes) {
      const execute = node.execute.bind(node)
      node.execute = async (command) => {
        const answer = await execute(command)
        if (answer.kind !== 'completed') return answer
        const outcome = Buffer.from(answer.outcome)
        outcome.writeUInt8(outcome.readUInt8(outcome.length - 1) ^ 1, outcome.length - 1)
        return { ...answer, outcome }
      }
    }
    const problem = await told(first.post('k'))
    expect(application.seen.length).toBe(1)
    return problem
  },
  'quorum-unavailable': () =>
    simple(async (proxy) => {
      for (const node of proxy.nodes.slice(0, 3)) node.stop()
      return await told(proxy.post('k'))
    }),
  'too-many-requests-in-flight': () =>
    whileHeld({ limits: { inFlightMax: 1 } }, (proxy) => told(proxy.post('other'))),
  'too-many-bytes-in-flight': () =>
    simple((proxy) => told(proxy.post('k', 'x'.repeat(100))), { bodyMemoryBytes: 120 }),
  draining: async () => {
    const held = hold()
    await using application = await startApplication(async (_request, response) => {
      await held.released
      response.end('done')
    })
    await using proxy = await startProxy(application.origin)
    await using late = await openWire(proxy.port)
    const first = proxy.post('held')
    await eventually('the application works', () => application.seen.length === 1)
    // A request line that has begun keeps its connection open.
    late.send('POST /things HTTP/1.1\r\n')
    await proxy.post('what,came,before,was,read')
    const closed = proxy.proxy.close(5_000)
    late.send('Host: a\r\nIdempotency-Key: late\r\nContent-Length: 2\r\n\r\n{}')
    await eventually('an answer', () => late.received().endsWith('}'))
    held.release()
    expect((await first).status).toBe(200)
    await closed
    expect(application.seen.length).toBe(1)
    const [head = '', body = ''] = late.received().split('\r\n\r\n')
    expect(head).toMatch(/\r\nConnection: close/i)
    return {
      status: 503,
      document: JSON.parse(body),
      retryAfter: /Retry-After: (.*)/.exec(head)?.[1] ?? null,
    }
  },
  'application-unreachable': async () => {
    await using proxy = await startProxy(`http://127.0.0.1:${await freePort()}`)
    return await told(proxy.post('k'))
  },
  'application-reset': () => brokenApplication('', 'end'),
  'application-malformed': () => brokenApplication('HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n', 'keep'),
  'application-timeout': async () => {
    await using application = await startApplication(() => {})
    await using proxy = await startProxy(application.origin, { routes: [route({ upstreamTimeoutMs: 500 })] })
    return await told(proxy.post('k'))
  },
}

/** Bug: Stripe's library for Node, which looks for `error` and at no status, returned a refusal as the payment that it had asked for. */
test.each<[code: ProblemCode]>([
  ['request-in-progress'],
  ['key-reused'],
  ['quorum-unavailable'],
  ['application-reset'],
])('%s is an error for clients that know one by `error` alone', async (code) => {
  const { document } = await scenarios[code]()
  expect(document.error).toEqual({ code, message: document.detail })
})

describe('every code is reached, with status and title of the table', () => {
  test.each(PROBLEM_CODES)('%s', async (code) => {
    const { status, document, retryAfter } = await scenarios[code]()
    const { status: expected, title, retryable } = PROBLEMS[code]
    expect(status).toBe(expected)
    expect(document).toMatchObject({
      type: PROBLEM_TYPE_BASE + code,
      code,
      title,
      status: expected,
      retryable,
    })
    expect(document.instance).toMatch(/^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(document.retry_after === undefined ? null : String(document.retry_after)).toBe(retryAfter)
  })
})

test('each problem about a record says that a new key is no retry, or when it is one', () => {
  for (const { detail } of [RECORD_DAMAGED, inProgress(1), undecided(1)])
    expect(detail).toMatch(/not .*under another key/)
  // Bug: method and path are a part of what a key belongs to, so that another one is no other use of the key.
  expect(KEY_REUSED.detail).toContain('another query, header or body')
})

test.each([
  [0, 1],
  [1, 1],
  [1_000, 1],
  [1_001, 2],
  [29_999.5, 30],
])('Retry-After for %d ms is %d whole seconds', (retryAfterMs, seconds) => {
  const document = problemDocument({ code: 'draining', detail: 'x', retryAfterMs }, 'i')
  expect(document.headers).toContainEqual(['Retry-After', String(seconds)])
  expect(JSON.parse(document.body.toString()).retry_after).toBe(seconds)
})
