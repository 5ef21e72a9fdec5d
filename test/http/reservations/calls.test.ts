/** The reservation API, call by call, on five embedded nodes. */
import { describe, expect, test } from 'vitest'
import { recordKey } from '../../../src/core/request/identity.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { heldClock } from '../../support/held-clock.ts'
import { route } from '../../support/proxy.ts'
import { callApi, reserveAt, snapshot, startReservationApi } from '../../support/reservation-api.ts'

const keyOf = (value: string) => {
  const key = recordKey({ tenant: 'default', env: 'test', apiVersion: 'v1', mode: 'reservation', value })
  if (key.kind !== 'record_key') throw new Error(key.detail)
  return key.recordKey
}

test('an intent is reserved, extended and completed, and answered from its record from then on', async () => {
  await using api = await startReservationApi()
  const reserved = await api.call('/v1/reservations', { session_id: 's', reserved_value: 'v', lease: '20s' })
  expect(reserved).toMatchObject({
    status: 201,
    body: { session_id: 's', status: 'SUCCESS', lease_ms: 20_000, attempt: 1 },
  })
  const { reservation_id: id, fencing_token: token } = reserved.body
  expect(Number(reserved.body.expires_in_ms)).toBeGreaterThan(19_000)

  const held = await api.call('/v1/reservations', { session_id: 'other', reserved_value: 'v' })
  expect(held).toMatchObject({
    status: 409,
    body: { reservation_status: 'CONFLICT', value: 'v', retryable: true },
  })
  expect(await api.call(`/v1/reservations/${id}`)).toMatchObject({ status: 200, body: { state: 'HELD' } })
  expect(
    await api.call(`/v1/reservations/${id}/extend`, { fencing_token: token, lease: '40s' }),
  ).toMatchObject({ status: 200, body: { status: 'SUCCESS', fencing_token: token } })

  const done = { fencing_token: token, result: { payment: 'p-1', lines: [1, 2] } }
  // A caller whose answer was lost sends again: the same answer, not an error. Its maps may have no order.
  const written = { ...done, result: { lines: [1, 2], payment: 'p-1' } }
  for (const completed of [done, done, written]) {
    expect(await api.call(`/v1/reservations/${id}/complete`, completed)).toMatchObject({
      status: 200,
      body: { status: 'COMPLETED' },
    })
  }
  expect(await api.call('/v1/reservations', { session_id: 'other', reserved_value: 'v' })).toMatchObject({
    status: 409,
    body: { reservation_status: 'DUPLICATE', result: done.result, fencing_token: token, retryable: false },
  })
  expect(await api.call('/v1/reservations?value=v')).toMatchObject({
    status: 200,
    body: { state: 'COMPLETED', result: done.result },
  })
  expect(await api.call(`/v1/reservations/${id}`)).toMatchObject({ body: { state: 'COMPLETED' } })
})

// Bug: 200 for as long as its result was kept, though the problems' page says LEASE_LOST: whoever worked on under the same id was not told.
test('what is completed is not extended any more, through any sidecar', async () => {
  await using api = await startReservationApi()
  await using other = await startReservationApi({ nodes: api.nodes })
  const { id, token } = await api.reserve({ session_id: 's', reserved_value: 'v' })
  await api.call(`/v1/reservations/${id}/complete`, { fencing_token: token, result: 1 })
  for (const sidecar of [api, other])
    expect(await sidecar.call(`/v1/reservations/${id}/extend`, { fencing_token: token })).toMatchObject({
      status: 410,
      body: { code: 'lease-lost', reservation_status: 'LEASE_LOST' },
    })
  expect(await api.call('/v1/reservations?value=v')).toMatchObject({
    body: { state: 'COMPLETED', result: 1 },
  })
})

// Bug: 200, which proves that nobody had it in between; but others had reserved and completed it, and the nodes had forgotten them, too.
test('what the nodes have forgotten is not extended', async () => {
  const clock = heldClock()
  const nodes = createEmbeddedNodes(5, clock, 10_000, { publish: () => {} })
  await using api = await startReservationApi({ nodes, clock })
  const brief = { reserved_value: 'v', lease: '1s', retention: '1s' }
  const suspended = await api.reserve({ session_id: 'suspended', ...brief })
  clock.advance(3_000)
  const next = await api.reserve({ session_id: 'next', ...brief })
  await api.call(`/v1/reservations/${next.id}/complete`, { fencing_token: next.token })
  clock.advance(3_000)
  const extended = await api.call(`/v1/reservations/${suspended.id}/extend`, {
    fencing_token: suspended.token,
  })
  expect(extended).toMatchObject({ status: 410, body: { code: 'lease-lost' } })
  expect(await api.call('/v1/reservations?value=v')).toMatchObject({ body: { state: 'FREE' } })
})

// Bug: 410 FENCED said that somebody else had come after, whose outcome stands. The holder whose first answer was lost, and whose result has
// the time in it, took back what it had done and what was recorded.
test('a completion with another result than before changes nothing, and is told the one that stands', async () => {
  await using api = await startReservationApi()
  const { id, token } = await api.reserve({ session_id: 's', reserved_values: ['v', 'w'] })
  const path = `/v1/reservations/${id}/complete`
  const first = { fencing_token: token, result: { paid_at: '12:00:00' } }
  expect(await api.call(path, first)).toMatchObject({ status: 200 })
  for (const later of [{ ...first, result: { paid_at: '12:00:01' } }, { fencing_token: token }])
    expect(await api.call(path, later)).toMatchObject({
      status: 409,
      body: {
        code: 'reservation-duplicate',
        reservation_status: 'DUPLICATE',
        result: first.result,
        fencing_token: token,
        attempt: 1,
      },
    })
  expect(await api.call(path, first)).toMatchObject({ status: 200 })
  expect(await api.call('/v1/reservations?value=w')).toMatchObject({ body: { result: first.result } })
})

// Bug: a result of some thousand levels was recorded, and every duplicate got 500, because writing it again ended the stack.
test.each<[what: string, result: string, status: number, state: string]>([
  ['499 levels', `${'[{"a":'.repeat(249)}[]${'}]'.repeat(249)}`, 200, 'COMPLETED'],
  ['500 levels', `${'[{"a":'.repeat(249)}[[]]${'}]'.repeat(249)}`, 400, 'HELD'],
  ['20,000 levels', `${'['.repeat(20_000)}${']'.repeat(20_000)}`, 400, 'HELD'],
  ['brackets in texts', JSON.stringify([`\\"${'[{'.repeat(999)}`, '"', '\\', ['[']]), 200, 'COMPLETED'],
])('a result of %s', async (_what, result, status, state) => {
  await using api = await startReservationApi({ options: { resultBytesMax: 60_000 } })
  const { id, token } = await api.reserve({ session_id: 's', reserved_value: 'v' })
  const completed = await fetch(`${api.origin}/v1/reservations/${id}/complete`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"fencing_token":${token},"result":${result}}`,
  })
  expect(completed.status).toBe(status)
  expect(await api.call(`/v1/reservations/${id}`)).toMatchObject({ body: { state } })
  const other = await api.call('/v1/reservations', { session_id: 'other', reserved_value: 'v' })
  expect(other.status).toBe(409)
  if (status === 200) expect(other.body.result).toEqual(JSON.parse(result))
  expect(api.failures).toEqual([])
})

test('a released value can be reserved again, with a larger token and as a first attempt', async () => {
  await using api = await startReservationApi()
  const first = await api.reserve({ session_id: 's', reserved_value: 'v' })
  expect(
    await api.call(`/v1/reservations/${first.id}/release`, { fencing_token: first.token }),
  ).toMatchObject({ status: 200, body: { status: 'RELEASED' } })
  const second = await api.reserve({ session_id: 'other', reserved_value: 'v' })
  expect(second.token).toBeGreaterThan(first.token)
  expect(second.attempt).toBe(1)
})

test('a session that reserves again what it holds gets the same reservation, also from another sidecar', async () => {
  await using api = await startReservationApi()
  await using other = await startReservationApi({ nodes: api.nodes })
  const input = { session_id: 's', reserved_values: ['a', 'b'] }
  const first = await api.reserve(input)
  const again = await other.reserve({ ...input, reserved_values: ['b', 'a', 'b'] })
  expect(again).toEqual(first)
  // A request for another value is no retry.
  const less = await other.call('/v1/reservations', { session_id: 's', reserved_value: 'a' })
  expect(less.status).toBe(201)
})

test('several values are reserved all or none, and end together', async () => {
  await using api = await startReservationApi()
  const b = await api.reserve({ session_id: 'one', reserved_value: 'b' })
  const both = { session_id: 'two', reserved_values: ['a', 'b', 'c'] }
  expect(await api.call('/v1/reservations', both)).toMatchObject({ status: 409, body: { value: 'b' } })
  for (const free of ['a', 'c'])
    expect(await api.call(`/v1/reservations?value=${free}`)).toMatchObject({ body: { state: 'FREE' } })
  await api.call(`/v1/reservations/${b.id}/release`, { fencing_token: b.token })
  const all = await api.reserve(both)
  for (const value of both.reserved_values)
    expect(await api.call(`/v1/reservations?value=${value}`)).toMatchObject({
      body: { state: 'HELD', fencing_token: all.token },
    })
  await api.call(`/v1/reservations/${all.id}/complete`, { fencing_token: all.token, result: 'done' })
  for (const value of both.reserved_values)
    expect(await api.call(`/v1/reservations?value=${value}`)).toMatchObject({
      body: { state: 'COMPLETED', result: 'done' },
    })
})

test('any sidecar of the cluster serves an id, also one that started later', async () => {
  await using first = await startReservationApi()
  const reserved = await first.reserve({ session_id: 's', reserved_value: 'v' })
  await first[Symbol.asyncDispose]()
  await using later = await startReservationApi({ nodes: first.nodes })
  const token = { fencing_token: reserved.token }
  expect(await later.call(`/v1/reservations/${reserved.id}/extend`, token)).toMatchObject({ status: 200 })
  expect(await later.call(`/v1/reservations/${reserved.id}/complete`, token)).toMatchObject({ status: 200 })
})

test('a waiting caller gets the reservation when it is free', async () => {
  await using api = await startReservationApi()
  const first = await api.reserve({ session_id: 'one', reserved_value: 'v' })
  const second = reserveAt(api.origin, { session_id: 'two', reserved_value: 'v', wait: '10s' })
  const held = await api.call('/v1/reservations', { session_id: 'three', reserved_value: 'v', wait: '50ms' })
  expect(held.status).toBe(409)
  await api.call(`/v1/reservations/${first.id}/release`, { fencing_token: first.token })
  expect((await second).token).toBeGreaterThan(first.token)
})

test('a request is the same intent as its repetition, and another one under the same key is a mismatch', async () => {
  await using api = await startReservationApi()
  const request = { method: 'POST', path: '/payments', headers: { 'Idempotency-Key': 'k' }, body: '{"a":1}' }
  const first = await api.reserve({ session_id: 'one', request })
  expect(await api.call('/v1/reservations', { session_id: 'two', request })).toMatchObject({
    status: 409,
    body: { code: 'reservation-conflict', value: 'POST /payments' },
  })
  expect(
    await api.call('/v1/reservations', { session_id: 'two', request: { ...request, body: '{"a":2}' } }),
  ).toMatchObject({ status: 422, body: { code: 'key-reused' } })
  await api.call(`/v1/reservations/${first.id}/complete`, { fencing_token: first.token })
  expect(
    await api.call('/v1/reservations', { session_id: 'two', request: { ...request, body: '{ "a": 1 }' } }),
  ).toMatchObject({ status: 422, body: { code: 'key-reused' } })
  const json = { ...request.headers, 'Idempotency-Key': 'j', 'Content-Type': 'application/json' }
  await api.reserve({ session_id: 'one', request: { ...request, headers: json } })
  expect(
    await api.call('/v1/reservations', {
      session_id: 'two',
      request: { ...request, headers: json, body: '{ "a": 1 }' },
    }),
  ).toMatchObject({ status: 409, body: { code: 'reservation-conflict' } })
})

test('a request has the entities, the takeover policy and the retention of its route', async () => {
  const strict = route({
    entities: [{ in: 'header', name: 'x-account' }],
    takeover: 'indeterminate',
    retentionMs: 120_000,
  })
  await using api = await startReservationApi({ options: { routes: [strict] } })
  const request = (key: string) => ({
    method: 'POST',
    path: '/payments',
    headers: { 'idempotency-key': key, 'x-account': '42' },
    body: '{}',
  })
  const holder = await api.reserve({ session_id: 'one', request: request('a') })
  expect(await api.call('/v1/reservations', { session_id: 'two', request: request('b') })).toMatchObject({
    status: 409,
    body: { code: 'entity-busy', entity: 'POST /payments' },
  })
  await api.call(`/v1/reservations/${holder.id}/release`, { fencing_token: holder.token })
  const first = await api.reserve({ session_id: 'one', request: request('d'), lease: '100ms' })
  const again = { session_id: 'two', request: request('d'), wait: '5s' }
  expect(await api.call('/v1/reservations', again)).toMatchObject({ body: { code: 'outcome-undecided' } })
  const second = await api.reserve({ ...again, takeover: 'reexecute' })
  expect([second.attempt, second.token > first.token]).toEqual([2, true])
  expect(
    await api.call('/v1/reservations', { session_id: 'three', request: request('c'), retention: '3m' }),
  ).toMatchObject({ status: 400, body: { code: 'request-invalid' } })
})

test('two tenants can reserve the same value', async () => {
  await using api = await startReservationApi()
  const value = { session_id: 's', reserved_value: 'v' }
  await api.reserve({ ...value, tenant: 'one' })
  await api.reserve({ ...value, tenant: 'two', session_id: 'other' })
})

describe('bad input is refused without an effect', () => {
  const id = 'r1_AAAA'
  const value = { session_id: 's', reserved_value: 'v' }
  test.each<[what: string, path: string, body: unknown, status?: number, code?: string]>([
    ['no body', '', ''],
    ['no JSON', '', '{'],
    ['an array', '', []],
    ['no value to reserve', '', { session_id: 's' }],
    ['two ways at once', '', { ...value, reserved_values: ['w'] }],
    ['no session', '', { reserved_value: 'v' }],
    ['an unknown member', '', { ...value, leese: '1s' }],
    ['a number for a name', '', { ...value, reserved_value: 7 }],
    ['an empty name', '', { ...value, reserved_value: '' }],
    ['a long name', '', { ...value, reserved_value: 'x'.repeat(1_025) }],
    ['a name of many bytes', '', { ...value, reserved_value: '€'.repeat(400) }],
    ['half a character', '', '{"session_id":"s","reserved_value":"\\ud800"}'],
    ['many names', '', { session_id: 's', reserved_values: Array(33).fill('v') }],
    ['many entities', '', { ...value, entities: Array(9).fill('e') }],
    ['a long session', '', { ...value, session_id: 's'.repeat(257) }],
    ['no names', '', { session_id: 's', reserved_values: [] }],
    ['a negative lease', '', { ...value, lease: '-30s' }],
    ['a lease without a unit', '', { ...value, lease: 30 }],
    ['a short lease', '', { ...value, lease: '99ms' }],
    ['a huge lease', '', { ...value, lease: '61s' }],
    ['an endless lease', '', { ...value, lease: '9999999999999d' }],
    ['a huge wait', '', { ...value, wait: '11s' }],
    ['a huge retention', '', { ...value, retention: '25h' }],
    ['a truth for a switch', '', { ...value, heartbeat: 'yes' }],
    ['an unknown policy', '', { ...value, takeover: 'perhaps' }],
    ['a large body', '', 'x'.repeat(70_000), 413, 'body-too-large'],
    ['a prototype', '', '{"session_id":"s","reserved_value":"v","__proto__":{}}'],
    ['a forged id', `/${id}/extend`, { fencing_token: 1 }, 400, 'reservation-id-invalid'],
    ['no id', '/x/complete', { fencing_token: 1 }, 400, 'reservation-id-invalid'],
    ['a huge id', `/r1_${'A'.repeat(8_000)}/release`, { fencing_token: 1 }, 400, 'reservation-id-invalid'],
    ['no token', `/${id}/extend`, {}],
    ['a token as text', `/${id}/extend`, { fencing_token: '1' }],
    ['a token beyond 2^53', `/${id}/extend`, { fencing_token: 2 ** 60 }],
    ['an undecodable path', '/%zz', undefined, 400, 'malformed-request'],
    ['an unknown query', '?value=v&x=1', undefined],
    ['a query twice', '?value=v&value=w', undefined],
    ['a call that is none', '/a/b/c', undefined, 404, 'call-unknown'],
  ])('%s', async (_what, path, body, status = 400, code = 'request-invalid') => {
    await using api = await startReservationApi()
    const { token } = await api.reserve({ session_id: 'holder', reserved_value: 'v' })
    const before = await snapshot(api.nodes, [keyOf('v'), keyOf('w')])
    const reply = await api.call(`/v1/reservations${path}`, body, body === '' ? { method: 'POST' } : {})
    expect([reply.status, reply.body.code]).toEqual([status, code])
    expect(reply.headers.get('content-type')).toBe('application/problem+json')
    expect(await snapshot(api.nodes, [keyOf('v'), keyOf('w')])).toBe(before)
    expect(before).toContain(String(token))
    expect(api.failures).toEqual([])
  })

  // Bug: without a value the answer asked for reserved_value, which is one of three ways; with two it spoke of `oneOf`.
  test.each([
    ['no value', {}],
    ['two ways at once', { reserved_value: 'v', reserved_values: ['w'] }],
  ])('a call with %s is told what there is to choose from', async (_what, more) => {
    await using api = await startReservationApi()
    const reply = await api.call('/v1/reservations', { session_id: 's', ...more })
    expect(reply.body.detail).toMatch(
      /^The call must have exactly one of reserved_value, reserved_values, request;/,
    )
    expect(reply.body.errors).toHaveLength(1)
  })

  // Bug: a path as frameworks decode it was reserved as another request than the one that the proxy gets, and both were carried out.
  test.each<[what: string, change: Record<string, unknown>, names: string]>([
    ['a path that was decoded', { path: '/pay/caf\u00e9' }, '"/files/a%20b%C3%A9"'],
    ['a path with a space', { path: '/pay/a b' }, '"/files/a%20b%C3%A9"'],
    ['a path with a NUL', { path: '/pay/\0' }, '"/files/a%20b%C3%A9"'],
    ['a query that was decoded', { query: 'name=caf\u00e9' }, '"/files/a%20b%C3%A9"'],
    ['a query with a fragment', { query: 'a=b#c' }, '"/files/a%20b%C3%A9"'],
    ['a header with a line break', { headers: { 'x-user-id': 'a\r\nb' } }, '/request/headers'],
    ['a header that no line can have', { headers: { 'x-user-id': '\u20ac' } }, '/request/headers'],
  ])('%s describes no request', async (_what, change, names) => {
    await using api = await startReservationApi()
    const request = {
      method: 'POST',
      path: '/pay',
      headers: { 'idempotency-key': 'k' },
      body: '{}',
      ...change,
    }
    for (const [path, more] of [
      ['/v1/reservations', { session_id: 's' }],
      ['/v1/fingerprint', {}],
    ] as const) {
      const reply = await api.call(path, { ...more, request })
      expect([reply.status, reply.body.code]).toEqual([400, 'request-invalid'])
      expect(reply.body.detail).toContain(names)
    }
  })

  test('a wrong token with a genuine id gets 410, and the reservation stays', async () => {
    await using api = await startReservationApi()
    const { id: genuine, token } = await api.reserve({ session_id: 'holder', reserved_value: 'v' })
    const before = await snapshot(api.nodes, [keyOf('v')])
    for (const wrong of [0, token - 1, token + 1, Number.MAX_SAFE_INTEGER]) {
      for (const [call, code] of [
        ['extend', 'lease-lost'],
        ['complete', 'fenced'],
        ['release', 'fenced'],
      ])
        expect(await api.call(`/v1/reservations/${genuine}/${call}`, { fencing_token: wrong })).toMatchObject(
          {
            status: 410,
            body: { code },
          },
        )
    }
    expect(await snapshot(api.nodes, [keyOf('v')])).toBe(before)
    expect(await api.call(`/v1/reservations/${genuine}/extend`, { fencing_token: token })).toMatchObject({
      status: 200,
    })
  })

  test('an id with any of its characters changed: 400; one of another cluster: 410; neither has an effect', async () => {
    await using api = await startReservationApi()
    await using foreign = await startReservationApi()
    const ours = await api.reserve({ session_id: 'holder', reserved_value: 'v' })
    const theirs = await foreign.reserve({ session_id: 'holder', reserved_value: 'v' })
    const before = await snapshot(api.nodes, [keyOf('v')])
    // All but the mark of the secret: 4 bytes before the 32 of the signature.
    const forged = [...ours.id].flatMap((char, at) =>
      at < 3 || at % 7 !== 0 || (at >= ours.id.length - 49 && at <= ours.id.length - 42)
        ? []
        : [ours.id.slice(0, at) + (char === 'A' ? 'B' : 'A') + ours.id.slice(at + 1)],
    )
    const lost = await api.call(`/v1/reservations/${theirs.id}/complete`, { fencing_token: ours.token })
    expect([lost.status, lost.body.code, lost.body.reservation_status]).toEqual([
      410,
      'reservation-lost',
      'LEASE_LOST',
    ])
    for (const bad of [`${ours.id}=`, ...forged]) {
      const reply = await api.call(`/v1/reservations/${bad}/complete`, { fencing_token: ours.token })
      expect([bad, reply.status, reply.body.code]).toEqual([bad, 400, 'reservation-id-invalid'])
    }
    expect(await snapshot(api.nodes, [keyOf('v')])).toBe(before)
  })

  test('a result above its limit is refused, and can be completed smaller', async () => {
    await using api = await startReservationApi()
    const { id: genuine, token } = await api.reserve({ session_id: 's', reserved_value: 'v' })
    const path = `/v1/reservations/${genuine}/complete`
    expect(await api.call(path, { fencing_token: token, result: 'x'.repeat(1_023) })).toMatchObject({
      status: 413,
      body: { code: 'body-too-large' },
    })
    expect(await api.call(path, { fencing_token: token, result: 'x'.repeat(1_022) })).toMatchObject({
      status: 200,
    })
  })
})

describe('the bearer token', () => {
  test.each<[header: string | undefined, status: number]>([
    [undefined, 401],
    ['Bearer wrong', 401],
    ['Basic secret', 401],
    ['secret', 401],
    ['Bearer secret', 200],
    ['bearer  secret', 200],
  ])('%s: %i', async (header, status) => {
    await using api = await startReservationApi({ options: { apiTokens: () => ['secret'] } })
    const headers: Record<string, string> = header === undefined ? {} : { authorization: header }
    const reply = await callApi(api.origin, '/v1/reservations?value=v', undefined, { headers })
    expect(reply.status).toBe(status)
    expect(reply.headers.get('www-authenticate')).toBe(status === 401 ? 'Bearer' : null)
  })
})

test('without a majority of nodes calls get 503 with Retry-After, and work again afterwards', async () => {
  await using api = await startReservationApi()
  const first = await api.reserve({ session_id: 's', reserved_value: 'v' })
  for (const node of api.nodes.slice(0, 3)) node.stop()
  for (const [path, body] of [
    ['/v1/reservations', { session_id: 'other', reserved_value: 'w' }],
    [`/v1/reservations/${first.id}/extend`, { fencing_token: first.token }],
    [`/v1/reservations/${first.id}/complete`, { fencing_token: first.token }],
    ['/v1/reservations?value=v', undefined],
  ] as const) {
    const reply = await api.call(path, body)
    expect([path, reply.status, reply.body.code]).toEqual([path, 503, 'quorum-unavailable'])
    expect(reply.headers.get('retry-after')).toBe('1')
  }
})

test('a draining sidecar makes no new reservation, and serves its open ones until they end', async () => {
  await using api = await startReservationApi()
  const { id, token } = await api.reserve({ session_id: 's', reserved_value: 'v' })
  const closed = api.close(60_000)
  expect(await api.call('/v1/reservations', { session_id: 'o', reserved_value: 'w' })).toMatchObject({
    status: 503,
    body: { code: 'draining' },
  })
  const extended = await api.call(`/v1/reservations/${id}/extend`, { fencing_token: token })
  expect(extended.status).toBe(200)
  expect(extended.headers.get('connection')).toBe('close')
  expect(await api.call(`/v1/reservations/${id}/complete`, { fencing_token: token })).toMatchObject({
    status: 200,
  })
  await closed
})

// Bug: with the last open reservation every connection was cut, also of calls that waited for their answer.
test('a draining sidecar answers the calls under way, and what one of them reserves can be completed', async () => {
  await using api = await startReservationApi()
  const first = await api.reserve({ session_id: 'one', reserved_value: 'v' })
  const second = api.reserve({ session_id: 'two', reserved_value: 'v', wait: '10s' })
  await api.call('/v1/reservations', { session_id: 'three', reserved_value: 'v', wait: '50ms' })
  const closed = api.close(60_000)
  await api.call(`/v1/reservations/${first.id}/release`, { fencing_token: first.token })
  const { id, token } = await second
  const third = api.call('/v1/reservations', { session_id: 'four', reserved_value: 'v' })
  expect(await third).toMatchObject({ status: 503, body: { code: 'draining' } })
  expect(await api.call(`/v1/reservations/${id}/complete`, { fencing_token: token })).toMatchObject({
    status: 200,
  })
  await closed
})

test('an earlier attempt that ended without an outcome is a takeover, or undecided where the caller wants that', async () => {
  await using api = await startReservationApi()
  const first = await api.reserve({ session_id: 'one', reserved_value: 'v', lease: '100ms' })
  const wait = { reserved_value: 'v', wait: '5s' }
  expect(
    await api.call('/v1/reservations', { session_id: 'two', ...wait, takeover: 'indeterminate' }),
  ).toMatchObject({ status: 409, body: { code: 'outcome-undecided', value: 'v' } })
  expect(await api.call('/v1/reservations?value=v')).toMatchObject({ body: { state: 'EXPIRED' } })
  const second = await api.reserve({ session_id: 'three', ...wait })
  expect(second.attempt).toBe(2)
  expect(second.token).toBeGreaterThan(first.token)
  expect(
    await api.call(`/v1/reservations/${first.id}/complete`, { fencing_token: first.token, result: 'late' }),
  ).toMatchObject({ status: 410, body: { code: 'fenced', reservation_status: 'FENCED' } })
  expect(await api.call(`/v1/reservations/${first.id}`)).toMatchObject({ body: { state: 'LOST' } })
})

test('an entity keeps others away until the reservation ends, however it ends', async () => {
  await using api = await startReservationApi()
  for (const end of ['complete', 'release']) {
    const first = await api.reserve({
      session_id: 'one',
      reserved_value: `${end}-1`,
      entities: ['account 42'],
    })
    const other = { session_id: 'two', reserved_value: `${end}-2`, entities: ['account 42'] }
    expect(await api.call('/v1/reservations', other)).toMatchObject({
      status: 409,
      body: { code: 'entity-busy', entity: 'account 42', retryable: true },
    })
    await api.call(`/v1/reservations/${first.id}/${end}`, { fencing_token: first.token })
    const second = await api.reserve(other)
    expect(second.token).toBeGreaterThan(first.token)
    await api.call(`/v1/reservations/${second.id}/release`, { fencing_token: second.token })
  }
})

test('{a,b} and {b,a} never both win and never deadlock', async () => {
  await using one = await startReservationApi()
  await using two = await startReservationApi({ nodes: one.nodes })
  let holders = 0
  let most = 0
  const work = async (origin: string, session: string, values: readonly string[]) => {
    const input = { session_id: session, reserved_values: values, wait: '10s' }
    const { id, token } = await reserveAt(origin, input)
    holders += 1
    most = Math.max(most, holders)
    await new Promise(setImmediate)
    holders -= 1
    await callApi(origin, `/v1/reservations/${id}/release`, { fencing_token: token })
    return token
  }
  const tokens = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0
        ? work(one.origin, `one-${index}`, ['a', 'b'])
        : work(two.origin, `two-${index}`, ['b', 'a']),
    ),
  )
  expect(most).toBe(1)
  expect(new Set(tokens).size).toBe(20)
})
