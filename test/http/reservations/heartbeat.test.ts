/** `heartbeat: true`: the sidecar renews for a caller that cannot run timers, for as long as its connection stands. */
import { expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import type { Leases } from '../../../src/core/ports.ts'
import { UNTRACED } from '../../../src/core/tracing.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { systemClock } from '../../../src/system/clock.ts'
import { eventually } from '../../support/eventually.ts'
import { runningClock } from '../../support/held-clock.ts'
import { startReservationApi, type TestApi } from '../../support/reservation-api.ts'
import { seededRandom, seedOfRun } from '../../support/seeded-random.ts'

type Line = Record<string, unknown> & { readonly reservation?: Record<string, unknown> }

/** Opens the stream; `lines` grows, `closed` resolves at its end. */
async function open(api: TestApi, input: Record<string, unknown>) {
  const connection = new AbortController()
  const response = await fetch(`${api.origin}/v1/reservations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ session_id: 's', reserved_value: 'v', heartbeat: true, ...input }),
    signal: connection.signal,
  })
  if (!response.ok) expect.fail(`refused with ${response.status}: ${await response.text()}`)
  const lines: Line[] = []
  const closed = (async () => {
    let rest = ''
    for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
      const whole = (rest + text).split('\n')
      rest = whole.pop() ?? ''
      lines.push(...whole.map((line) => JSON.parse(line) as Line))
    }
  })().catch(() => {})
  await eventually('the first line', () => lines.length > 0)
  const { reservation_id: id, fencing_token: token } = lines[0]!.reservation!
  return { response, lines, closed, id, token, hangUp: () => connection.abort() }
}

test('the reservation is renewed for longer than its lease, and the stream ends when it is completed', async () => {
  await using api = await startReservationApi()
  const stream = await open(api, { lease: '2s' })
  expect(stream.response.status).toBe(201)
  expect(stream.response.headers.get('content-type')).toBe('application/x-ndjson')
  const renewed = () => stream.lines.filter(({ event }) => event === 'renewed').length
  await eventually('more renewals than the lease has room for', () => renewed() >= 4)
  const done = await api.call(`/v1/reservations/${stream.id}/complete`, { fencing_token: stream.token })
  expect(done.status).toBe(200)
  await stream.closed
  expect(stream.lines[0]).toMatchObject({ event: 'reserved', reservation: { status: 'SUCCESS' } })
  expect(stream.lines.at(-1)).toEqual({ event: 'ended', reason: 'settled' })
})

test('a caller that disconnects ends the renewals, not the lease', async () => {
  await using api = await startReservationApi()
  const stream = await open(api, { lease: '3s' })
  stream.hangUp()
  await stream.closed
  await eventually('the renewals end', () => api.events.some((event) => event.kind === 'lease_ended'))
  expect(await api.call(`/v1/reservations/${stream.id}`)).toMatchObject({ body: { state: 'HELD' } })
  await eventually('it expires', async () => {
    const { body } = await api.call(`/v1/reservations/${stream.id}`)
    return body.state === 'EXPIRED'
  })
})

test('without nodes the line lease-lost is written before the lease ends', async () => {
  // The monotonic clock stops while the process is suspended: no holder is warned in time then.
  using clock = runningClock()
  await using api = await startReservationApi({ clock })
  const stream = await open(api, { lease: '3s' })
  for (const node of api.nodes.slice(0, 3)) node.stop()
  await stream.closed
  const writtenWallMs = clock.wallMs()
  expect(stream.lines.at(-1)).toMatchObject({
    event: 'lease-lost',
    detail: expect.stringContaining('about to end'),
  })
  const last = stream.lines.filter(({ event }) => event !== 'lease-lost').at(-1)!
  const until = String(last.expiration_time ?? last.reservation?.expiration_time)
  expect(writtenWallMs).toBeLessThan(Date.parse(until))
})

test('the line lease-lost is written when another holder has the reservation', async () => {
  await using api = await startReservationApi()
  const stream = await open(api, { lease: '30s' })
  const other = await startReservationApi({ nodes: api.nodes })
  // Released elsewhere, by another bearer of the id: this sidecar learns of it at the next renewal.
  await other.call(`/v1/reservations/${stream.id}/release`, { fencing_token: stream.token })
  await other[Symbol.asyncDispose]()
  const shorter = await open(api, { session_id: 's2', lease: '2s' })
  const third = await startReservationApi({ nodes: api.nodes })
  await third.call(`/v1/reservations/${shorter.id}/release`, { fencing_token: shorter.token })
  await shorter.closed
  await third[Symbol.asyncDispose]()
  expect(shorter.lines.at(-1)).toMatchObject({ event: 'lease-lost' })
  stream.hangUp()
})

// Bug: it went on renewing for the total hold; and where the result was forgotten meanwhile, it held the value that nobody worked on.
test('the stream ends when the reservation is completed through another sidecar', async () => {
  await using api = await startReservationApi()
  await using other = await startReservationApi({ nodes: api.nodes })
  const stream = await open(api, { lease: '2s' })
  const done = await other.call(`/v1/reservations/${stream.id}/complete`, { fencing_token: stream.token })
  expect(done.status).toBe(200)
  await stream.closed
  expect(stream.lines.at(-1)).toEqual({ event: 'ended', reason: 'settled' })
})

test('one stream renews for at most the total hold, and the same session continues', async () => {
  await using api = await startReservationApi({ options: { totalHoldMs: 150 } })
  const stream = await open(api, { lease: '10s' })
  await stream.closed
  expect(stream.lines.at(-1)).toEqual({ event: 'ended', reason: 'total-hold' })
  const next = await open(api, { lease: '10s' })
  expect(next.token).toBe(stream.token)
  next.hangUp()
})

// Bug: a stream had neither, so its caller propagated no baggage, and kept its connection to a sidecar that was about to end.
test('the answer of a stream has the baggage, and a leaving sidecar ends its connection', async () => {
  await using api = await startReservationApi({ tracing: { ...UNTRACED, baggage: () => 'ours=1' } })
  api.leave()
  const stream = await open(api, {})
  expect(stream.response.headers.get('baggage')).toBe('ours=1')
  expect(stream.response.headers.get('connection')).toBe('close')
  stream.hangUp()
})

test('a draining sidecar ends its streams and leaves the leases', async () => {
  await using api = await startReservationApi()
  await using other = await startReservationApi({ nodes: api.nodes })
  const stream = await open(api, { lease: '10s' })
  const closed = api.close(10_000)
  await stream.closed
  expect(stream.lines.at(-1)).toEqual({ event: 'ended', reason: 'draining' })
  const token = { fencing_token: stream.token }
  expect(await other.call(`/v1/reservations/${stream.id}/extend`, token)).toMatchObject({ status: 200 })
  expect(await api.call(`/v1/reservations/${stream.id}/complete`, token)).toMatchObject({ status: 200 })
  await closed
})

test('a stream that a call under way opens while the sidecar drains ends after its reservation', async () => {
  await using api = await startReservationApi()
  const first = await api.reserve({ session_id: 'one', reserved_value: 'v' })
  const opened = open(api, { wait: '10s' })
  await api.call('/v1/reservations', { session_id: 'three', reserved_value: 'v', wait: '50ms' })
  const closed = api.close(60_000)
  await api.call(`/v1/reservations/${first.id}/release`, { fencing_token: first.token })
  const stream = await opened
  await stream.closed
  expect(stream.lines.map(({ event }) => event)).toEqual(['reserved', 'ended'])
  expect(stream.lines.at(-1)).toEqual({ event: 'ended', reason: 'draining' })
  await api.call(`/v1/reservations/${stream.id}/complete`, { fencing_token: stream.token })
  await closed
})

test('a conflict is answered without a stream', async () => {
  await using api = await startReservationApi()
  await api.reserve({ session_id: 'holder', reserved_value: 'v' })
  const held = await api.call('/v1/reservations', { session_id: 's', reserved_value: 'v', heartbeat: true })
  expect(held).toMatchObject({ status: 409, body: { reservation_status: 'CONFLICT' } })
})

test.each([
  ['longer', '2s', '20s'],
  ['shorter', '20s', '2s'],
])(
  'after an extension by the caller for %s the longer lease holds for stream and caller',
  async (_how, lease, other) => {
    await using api = await startReservationApi()
    const stream = await open(api, { lease })
    const extended = await api.call(`/v1/reservations/${stream.id}/extend`, {
      fencing_token: stream.token,
      lease: other,
    })
    expect(extended.body.expires_in_ms).toBeGreaterThan(15_000)
    const renewed = () => stream.lines.filter(({ event }) => event === 'renewed').length
    const before = renewed()
    if (lease === '2s') await eventually('another renewal', () => renewed() > before)
    const standing = await api.call('/v1/reservations?value=v')
    expect(standing.body.remaining_lease_ms).toBeGreaterThan(15_000)
    stream.hangUp()
    await stream.closed
  },
)

/** Leases whose next renewal is sent and answered, and its answer is kept back until `letGo`. */
function lateRenewal() {
  const letGo = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const random = seededRandom(seedOfRun('late renewal'))
  const events = { publish: () => {} }
  const nodes = createEmbeddedNodes(5, systemClock, 10_000, events)
  const quorum = createRedlockQuorum({ nodes, clock: systemClock, events })
  const leases = createLeases({ quorum, clock: systemClock, random, events })
  let late = false
  const renew: Leases['renew'] = async (lease) => {
    const renewed = await leases.renew(lease)
    if (late) return renewed
    late = true
    answered.resolve()
    await letGo.promise
    return renewed
  }
  return { nodes, leases: { ...leases, renew }, answered: answered.promise, letGo: letGo.resolve }
}

// Bug: the renewal counted it anew until its lease would have ended, against its session and in a drain.
test.each(['its stream', 'its caller'])(
  'a completed reservation does not count again with a late renewal by %s',
  async (by) => {
    const renewal = lateRenewal()
    await using api = await startReservationApi({ ...renewal, perSessionMax: 1 })
    const stream = by === 'its stream' ? await open(api, { lease: '2s' }) : undefined
    const one = stream ?? (await api.reserve({ session_id: 's', reserved_value: 'v' }))
    const path = `/v1/reservations/${one.id}`
    const extended =
      stream === undefined ? api.call(`${path}/extend`, { fencing_token: one.token }) : undefined
    await renewal.answered
    expect(await api.call(`${path}/complete`, { fencing_token: one.token })).toMatchObject({ status: 200 })
    await stream?.closed
    renewal.letGo()
    await extended
    await api.reserve({ session_id: 's', reserved_value: 'another' })
  },
)
