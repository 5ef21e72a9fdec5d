/** The gateway listener by itself: the calls of gateways, and calls that are refused. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { stackOfTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { postedJson } from '../../support/post.ts'
import { type Sidecar, startSidecar } from '../../support/sidecar.ts'

const stack = stackOfTests()
let sidecar: Sidecar
let guarded: Sidecar

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-token-'))
  stack.defer(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'token'), 'open sesame\n')
  const env = {
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
    FENCEPOST_CLAIM_BUDGET: '2s',
  }
  sidecar = stack.use(await startSidecar(env))
  guarded = stack.use(await startSidecar({ ...env, FENCEPOST_API_TOKEN_FILE: join(folder, 'token') }))
})

const ask = (key: string, headers: Record<string, string> = {}, uri = '/payments', of = sidecar) =>
  fetch(`${of.gateway}/v1/gateway/forward-auth`, {
    headers: {
      'X-Forwarded-Method': 'POST',
      'X-Forwarded-Uri': uri,
      'X-Forwarded-Host': 'shop',
      'Idempotency-Key': key,
      ...headers,
    },
  })

const say = (call: 'complete' | 'release', reservationId: string, report: unknown = {}, of = sidecar) =>
  fetch(`${of.gateway}/v1/gateway/${call}`, {
    method: 'POST',
    headers: { 'Fencepost-Reservation-Id': reservationId, 'Content-Type': 'application/json' },
    body: JSON.stringify(report),
  })

const idOf = (answer: Response) => answer.headers.get('fencepost-reservation-id') ?? ''

test('a retry of a check is the same check: 200 again, with the same token', async () => {
  const key = randomUUID()
  const first = await ask(key, { 'Fencepost-Hop-Id': 'hop-1' })
  const again = await ask(key, { 'Fencepost-Hop-Id': 'hop-1' })
  expect([first.status, again.status]).toEqual([200, 200])
  expect(again.headers.get('fencepost-fencing-token')).toBe(first.headers.get('fencepost-fencing-token'))
  expect((await ask(key, { 'Fencepost-Hop-Id': 'hop-2' })).status).toBe(409)
  expect((await ask(key)).status).toBe(409)
})

test('nginx gets 403, and the client’s status and problem document in headers', async () => {
  const key = randomUUID()
  const check = () =>
    fetch(`${sidecar.gateway}/v1/gateway/auth-request`, {
      headers: { 'X-Original-Method': 'POST', 'X-Original-URI': '/payments', 'Idempotency-Key': key },
    })
  expect((await check()).status).toBe(200)
  const refused = await check()
  expect([refused.status, refused.headers.get('fencepost-status')]).toEqual([403, '409'])
  const problem = refused.headers.get('fencepost-problem') ?? ''
  expect(JSON.parse(problem)).toEqual(await refused.json())
})

test('Envoy’s check is the request itself behind the prefix, and part of a body never counts as a body', async () => {
  const check = (body: string, headers: Record<string, string>) =>
    fetch(`${sidecar.gateway}/v1/gateway/ext-authz/payments?a=1`, { method: 'POST', body, headers })
  const key = randomUUID()
  const part = { 'Idempotency-Key': key, 'X-Request-Id': 'a', 'X-Envoy-Auth-Partial-Body': 'true' }
  expect((await check('first part', part)).status).toBe(200)
  // Another part of what may be the same body: the key decides, not the part.
  expect((await check('other part', { ...part, 'X-Request-Id': 'b' })).status).toBe(409)
  // Without a key a command is protected that is there whole.
  const keyless = { 'X-Envoy-Auth-Partial-Body': 'true', 'Content-Type': 'application/json' }
  const passed = await check('part', keyless)
  expect([passed.status, passed.headers.has('fencepost-reservation-id')]).toEqual([200, false])
})

test.each<[reported: unknown, next: number]>([
  [{ status: 201 }, 409],
  [{ status: 422, headers: { 'Content-Type': 'text/plain' }, body_base64: 'bm8=' }, 409],
  [{ status: 202, headers: { 'Retry-After': '1' } }, 409],
  // These do not settle the request: the next one is executed.
  [{ status: 503 }, 200],
  [{ status: 429 }, 200],
  [{ status: 409, headers: { 'Retry-After': '1' } }, 200],
])('a claim completed with %j answers the next check with %i', async (report, next) => {
  const key = randomUUID()
  const granted = await ask(key)
  expect((await say('complete', idOf(granted), report)).status).toBe(204)
  expect((await ask(key)).status).toBe(next)
})

/** Bug: the 409 by which an application says that it is at work on the key became the outcome of the attempt that it was at work on. */
test('a 409 of a further attempt completes nothing', async () => {
  await using brief = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
    FENCEPOST_CLAIM_BUDGET: '2s',
    FENCEPOST_LEASE: '3s',
  })
  const key = randomUUID()
  const check = () => ask(key, {}, '/payments', brief)
  expect((await check()).status).toBe(200)
  const further = await eventually('the lease of the first attempt has ended', async () => {
    const granted = await check()
    return granted.status === 200 ? granted : undefined
  })
  expect((await say('complete', idOf(further), { status: 409 }, brief)).status).toBe(204)
  const next = await check()
  expect([next.status, next.headers.get('fencepost-attempt')]).toEqual([200, '2'])
  expect((await say('complete', idOf(next), { status: 201 }, brief)).status).toBe(204)
  expect((await check()).status).toBe(409)
})

test('an application that works longer than the lease of its check extends it by the reservation API', async () => {
  const key = randomUUID()
  const granted = await ask(key)
  const fencingToken = Number(granted.headers.get('fencepost-fencing-token'))
  const extended = await postedJson(`${sidecar.api}/v1/reservations/${idOf(granted)}/extend`, {
    fencing_token: fencingToken,
    lease: '60s',
  })
  expect(extended.status).toBe(200)
  const { expiration_time: until } = (await extended.json()) as { expiration_time: string }
  const before = Number(granted.headers.get('fencepost-lease-expires'))
  expect(Date.parse(until) - before).toBeGreaterThan(20_000)
  expect((await ask(key)).status).toBe(409)
})

test('a released claim can be claimed again', async () => {
  const key = randomUUID()
  const granted = await ask(key)
  expect((await say('release', idOf(granted))).status).toBe(204)
  const next = await ask(key)
  expect([next.status, next.headers.get('fencepost-attempt')]).toEqual([200, '1'])
})

test.each(['bm8=\n', 'b m8=', 'bm8-', 'n\u00f6', 'bm8=bm8=', 'b', 7])(
  'a report whose body is not base64, %j, does not complete the claim',
  async (body) => {
    const key = randomUUID()
    const granted = await ask(key)
    expect((await say('complete', idOf(granted), { status: 201, body_base64: body })).status).toBe(400)
    expect((await say('complete', idOf(granted), { status: 201, body_base64: 'bm8' })).status).toBe(204)
    expect((await ask(key)).status).toBe(409)
  },
)

/** Bug: the listeners closed at once where no call was in flight: the outcome was lost, and a duplicate executed after the lease. */
test.each<'gateway' | 'api'>(['gateway', 'api'])(
  'a draining sidecar takes the end of what a check has claimed, over the %s listener, and then ends',
  async (listener) => {
    await using leaving = await startSidecar({
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
      FENCEPOST_CLAIM_BUDGET: '2s',
      FENCEPOST_DRAIN_TIMEOUT: '25s',
    })
    const key = randomUUID()
    const granted = await ask(key, {}, '/payments', leaving)
    const ended = leaving.process.end({ signal: 'SIGTERM', withinMs: 15_000 })
    await eventually('it drains', async () => (await ask(key, {}, '/payments', leaving)).status === 503)
    const id = idOf(granted)
    const report =
      listener === 'gateway'
        ? await say('complete', id, { status: 201 }, leaving)
        : await postedJson(`${leaving.api}/v1/reservations/${id}/complete`, {
            fencing_token: Number(granted.headers.get('fencepost-fencing-token')),
          })
    expect(report.ok).toBe(true)
    await ended
  },
)

test('a claim ends only with the reservation id of its check', async () => {
  const granted = await ask(randomUUID())
  const id = idOf(granted)
  const forged = `${id.slice(0, -1)}${id.endsWith('A') ? 'B' : 'A'}`
  expect([
    (await say('complete', forged, { status: 201 })).status,
    (await say('release', '')).status,
  ]).toEqual([400, 400])
  expect((await say('complete', id, { status: 99 })).status).toBe(400)
})

test('a check that does not describe its request is refused', async () => {
  for (const uri of ['payments', '/a b', 'http://else/payments', '/#x'])
    expect([uri, (await ask('key', {}, uri)).status]).toEqual([uri, 400])
})

test('with a configured token every call without it is refused', async () => {
  const url = `${guarded.gateway}/v1/gateway/ext-authz/payments`
  const check = (headers: Record<string, string>) => fetch(url, { headers }).then(({ status }) => status)
  expect(await check({})).toBe(401)
  expect(await check({ 'Fencepost-Gateway-Token': 'open' })).toBe(401)
  expect(await check({ 'Fencepost-Gateway-Token': 'open sesame' })).toBe(200)
})

test('each check publishes its decision', async () => {
  await ask(randomUUID())
  const metrics = await fetch(`${sidecar.admin}/metrics`).then((answer) => answer.text())
  expect(metrics).toMatch(/fencepost_decisions_total\{outcome="acquired",entrypoint="gateway"\} [1-9]/)
})
