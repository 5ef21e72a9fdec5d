/** The calls about sagas: who sees what, what is written down before anything moves, and what a sidecar without a database says. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { memorySagas } from '../../support/memory-sagas.ts'
import { startOperatorApi } from '../../support/operator-api.ts'

const sagas = memorySagas()
let api: Awaited<ReturnType<typeof startOperatorApi>>
beforeAll(async () => {
  api = await startOperatorApi({ sagas })
})
afterAll(() => api[Symbol.asyncDispose]())

const audited = () =>
  api.auditLog.entries('audit').map(({ fields: { act, by, reason, step } }) => [act, by, reason, step])

test.each(['/sagas/order-1', '/messages/dead-letters'])(
  '%s: what users sent is for the role operate alone',
  async (path) => {
    expect(JSON.stringify((await api.operator.call(path)).body)).toContain('4111')
    const { status, body } = await api.viewer.call(path)
    expect([status, JSON.stringify(body)]).toEqual([200, expect.not.stringContaining('4111')])
  },
)

test('a dry run says what would happen, moves nothing and writes nothing down', async () => {
  const { body } = await api.operator.call('/sagas/order-1/retry', { reason: 'ticket 1', dry_run: true })
  expect(body).toEqual({ decided: false, effects: [expect.stringContaining('goes on where it stood')] })
  expect([sagas.moved, audited()]).toEqual([[], []])
})

test('a decision is written down before and after it, with the name and the reason', async () => {
  const { body } = await api.operator.call('/sagas/order-1/retry', { reason: 'ticket 1' })
  expect(body).toMatchObject({ decided: true, audited: true, saga: { status: 'running' } })
  const again = await api.operator.call('/sagas/order-1/retry', { reason: 'ticket 2' })
  expect([again.status, again.body.code]).toEqual([409, 'saga-not-movable'])
  await api.operator.call('/messages/dead-letters/discard', { reason: 'ticket 3', ids: [7, 8] })
  expect(sagas.moved).toEqual(['retry order-1', 'discard 7 8'])
  expect(audited()).toEqual([
    ['retry-saga', 'bob', 'ticket 1', 'begun'],
    ['retry-saga', 'bob', 'ticket 1', 'done'],
    ['retry-saga', 'bob', 'ticket 2', 'begun'],
    ['retry-saga', 'bob', 'ticket 2', 'refused: it is not parked'],
    ['discard-messages', 'bob', 'ticket 3', 'begun'],
    ['discard-messages', 'bob', 'ticket 3', 'done'],
  ])
})

test('what could not be written down is not done', async () => {
  api.auditLog.away = true
  const before = [...sagas.moved]
  const { status, body } = await api.operator.call('/sagas/order-1/compensate', { reason: 'ticket 4' })
  api.auditLog.away = false
  expect([status, body.code, sagas.moved]).toEqual([503, 'quorum-unavailable', before])
})

test('the role view decides nothing, and an unknown saga is unknown', async () => {
  const refused = await api.viewer.call('/sagas/order-1/compensate', { reason: 'ticket 5' })
  expect([refused.status, refused.body.code]).toEqual([403, 'role-required'])
  expect((await api.operator.call('/sagas/nobody')).body.code).toBe('saga-unknown')
})

test('a sidecar without a database knows of no sagas, and says which setting is missing', async () => {
  await using without = await startOperatorApi()
  expect((await without.operator.call('/me')).body).toEqual({
    name: 'bob',
    role: 'operate',
    instance: 'sidecar-1',
    sagas: false,
  })
  const { status, body } = await without.operator.call('/sagas?state=parked')
  expect([status, body.detail]).toEqual([404, expect.stringContaining('FENCEPOST_SAGA_DATABASE_FILE')])
})
