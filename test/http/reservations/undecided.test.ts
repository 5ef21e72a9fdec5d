/**
 * Completions that come too late, or meet too few nodes, through the reservation API: the answer states what stands.
 */
import { expect, test } from 'vitest'
import { createAwayNodes } from '../../support/away-nodes.ts'
import { heldClock } from '../../support/held-clock.ts'
import { startReservationApi } from '../../support/reservation-api.ts'

const FIRST = { session_id: 'one', reserved_value: 'v', lease: '100ms' }
const NEXT = { session_id: 'two', reserved_value: 'v' }
const LAST = { session_id: 'three', reserved_value: 'v' }

async function start() {
  const clock = heldClock()
  const { nodes, away } = createAwayNodes(clock)
  const api = await startReservationApi({ nodes, clock })
  const complete = ({ id, token }: { id: string; token: number }, result: unknown) =>
    api.call(`/v1/reservations/${id}/complete`, { fencing_token: token, result })
  /** On all nodes at once: where one still held it, the next session would have a majority without that node. */
  const endTheFirstLease = () => clock.advance(200)
  return { api, away, complete, endTheFirstLease, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() }
}

test('a completion that a majority refuses and a node takes is undecided, not fenced: the next claim finds its result', async () => {
  await using on = await start()
  const { api, away, complete, endTheFirstLease } = on
  const late = await api.reserve(FIRST)
  endTheFirstLease()
  away(3, 4)
  const next = await api.reserve(NEXT)
  await api.call(`/v1/reservations/${next.id}/release`, { fencing_token: next.token })
  away()
  const told = await complete(late, { payment: 'p-1' })
  expect(told).toMatchObject({
    status: 503,
    body: { code: 'completion-undecided', reservation_status: 'UNDECIDED', retryable: true },
  })
  expect(told.headers.get('retry-after')).toBe('1')
  expect(await api.call('/v1/reservations', LAST)).toMatchObject({
    status: 409,
    body: { reservation_status: 'DUPLICATE', result: { payment: 'p-1' } },
  })
  // Its own result stands, so a repeated call and a read report it.
  expect(await api.call(`/v1/reservations/${late.id}`)).toMatchObject({ body: { state: 'COMPLETED' } })
  expect(await complete(late, { payment: 'p-1' })).toMatchObject({
    status: 200,
    body: { status: 'COMPLETED' },
  })
  expect(await complete(late, { payment: 'p-2' })).toMatchObject({
    status: 409,
    body: { reservation_status: 'DUPLICATE', result: { payment: 'p-1' } },
  })
})

test('a completion without a quorum that another session’s claim adopted is 200 when it is repeated', async () => {
  await using on = await start()
  const { api, away, complete, endTheFirstLease } = on
  const first = await api.reserve(FIRST)
  away(2, 3, 4)
  expect(await complete(first, 'paid')).toMatchObject({ status: 503, body: { code: 'quorum-unavailable' } })
  endTheFirstLease()
  away()
  expect(await api.call('/v1/reservations', NEXT)).toMatchObject({
    body: { reservation_status: 'DUPLICATE', result: 'paid' },
  })
  expect(await complete(first, 'paid')).toMatchObject({ status: 200, body: { status: 'COMPLETED' } })
})

test('a completion that is too late on every node is fenced, and leaves no record', async () => {
  await using on = await start()
  const { api, complete, endTheFirstLease } = on
  const late = await api.reserve(FIRST)
  endTheFirstLease()
  const next = await api.reserve(NEXT)
  expect(await complete(late, 'late')).toMatchObject({ status: 410, body: { code: 'fenced' } })
  await api.call(`/v1/reservations/${next.id}/release`, { fencing_token: next.token })
  expect(await api.call('/v1/reservations', LAST)).toMatchObject({ status: 201, body: { attempt: 2 } })
})
