/** The budget of a claim is hard: with a majority of real nodes hung, a refusal comes within it from the first request on. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OpenNodes, openNodes } from '../../src/app/cluster.ts'
import { openStack, type Stack } from '../../src/app/stack.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createBackground } from '../../src/core/background.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import type { RecordNode } from '../../src/core/ports.ts'
import { reservationIdOf } from '../../src/core/reservations/reservation-id.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { startApplication } from '../support/application.ts'
import { eventually } from '../support/eventually.ts'
import { startGatewayListener } from '../support/gateway-listener.ts'
import { type RunningClock, runningClock } from '../support/held-clock.ts'
import { route, startProxy } from '../support/proxy.ts'
import { fingerprintOf, keyOf } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { startReservationApi } from '../support/reservation-api.ts'
import { reservationOf } from '../support/reservation-of.ts'

const BUDGET_MS = 100
/** What a process may take to run a timer that is due, by a clock that stops while the process is stalled. */
const LATE_MS = 30

/** For measuring alone: the nodes’ clocks do not stop with this process. */
let clock: RunningClock
let servers: RedisServers
let sidecar: Opened
const events: CoreEvent[] = []

type Opened = { readonly nodes: OpenNodes; readonly stack: Stack }

async function opened(env: Readonly<Record<string, string>>): Promise<Opened> {
  const loaded = loadConfig(
    {
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_PROXY_LISTEN: 'off',
      FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
      ...env,
    },
    () => '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded))
  const outside = {
    clock: systemClock,
    random: systemRandom,
    events: { publish: (event: CoreEvent) => void events.push(event) },
  }
  const nodes = await openNodes(loaded.config, systemClock, systemRandom, outside.events, {})
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, (cause) => {
    throw cause
  })
  const ports = {
    ...outside,
    tracedNode: (node: RecordNode) => node,
    required: 3,
    instance: 'sidecar-1',
    lateClaims,
    keyRing: undefined,
  }
  return { nodes, stack: openStack(loaded.config, nodes, ports) }
}

async function close({ nodes, stack }: Opened): Promise<void> {
  stack[Symbol.dispose]()
  await nodes[Symbol.asyncDispose]()
}

beforeAll(async () => {
  clock = runningClock()
  servers = await startRedisServers(5, { founded: true })
  sidecar = await opened({})
})
afterAll(async () => {
  for (const index of [0, 1, 2]) servers.resume(index)
  await close(sidecar)
  await servers[Symbol.asyncDispose]()
  clock[Symbol.dispose]()
})

const claim = (name: string) =>
  sidecar.stack.leases.claim({
    key: keyOf(name),
    fingerprint: fingerprintOf(name),
    leaseMs: 30_000,
    retentionMs: 60_000,
    budgetMs: BUDGET_MS,
  })

test('with three of five nodes hung, every refusal comes within the budget, before a breaker is open and after', async () => {
  await eventually('a claim is granted', async () => (await claim('before')).kind !== 'unavailable')
  for (const index of [0, 1, 2]) servers.pause(index)
  const tookMs: number[] = []
  const isOpen = () => events.some((event) => event.kind === 'quorum_breaker_changed')
  let beforeOpen = 0
  for (let n = 0; n < 8; n += 1) {
    if (!isOpen()) beforeOpen += 1
    const startedMs = clock.monoMs()
    expect(await claim(`hung-${n}`)).toMatchObject({ kind: 'unavailable', required: 3 })
    tookMs.push(clock.monoMs() - startedMs)
  }
  expect(beforeOpen).toBeGreaterThanOrEqual(3)
  expect(Math.max(...tookMs)).toBeLessThan(BUDGET_MS + LATE_MS)
})

test('what the nodes grant after the refusal is withdrawn when they go on', async () => {
  for (const index of [0, 1, 2]) servers.resume(index)
  await eventually('the key is free', async () => (await claim('hung-0')).kind === 'granted')
})

/** A round on hung nodes takes this long, and so does withdrawing it: far longer than a busy machine delays an answer. */
const ROUND_MS = 1_500
const ANSWERED_LATE_MS = 400

/** At the end the nodes go on. */
async function openedPatiently(owned: AsyncDisposableStack): Promise<Opened> {
  const patient = await opened({ FENCEPOST_NODE_DEADLINE: `${ROUND_MS}ms`, FENCEPOST_CLAIM_BUDGET: '4s' })
  owned.defer(async () => {
    for (const index of [0, 1, 2]) servers.resume(index)
    await close(patient)
  })
  return patient
}

test('a client of the proxy is refused within the budget from its first request on, and again when the nodes went on', async () => {
  await using owned = new AsyncDisposableStack()
  const patient = await openedPatiently(owned)
  const application = owned.use(await startApplication())
  const proxyWith = (budgetMs: number) =>
    startProxy(application.origin, { leases: patient.stack.leases, routes: [route({ budgetMs })] })
  const [proxy, unhurried] = [owned.use(await proxyWith(BUDGET_MS)), owned.use(await proxyWith(4_000))]
  for (const round of [1, 2]) {
    for (const index of [0, 1, 2]) servers.resume(index)
    await eventually(
      'a request is executed, and no breaker is open',
      async () => (await unhurried.post(crypto.randomUUID())).status === 201,
    )
    const executed = application.seen.length
    for (const index of [0, 1, 2]) servers.pause(index)
    for (let n = 0; n < 3; n += 1) {
      const startedMs = clock.monoMs()
      const answer = await proxy.post(`hung-${round}-${n}`)
      const tookMs = clock.monoMs() - startedMs
      expect([answer.status, await answer.json()]).toMatchObject([503, { code: 'quorum-unavailable' }])
      expect(tookMs).toBeLessThan(BUDGET_MS + ANSWERED_LATE_MS)
    }
    expect(application.seen.length).toBe(executed)
  }
})

test('a sidecar that starts beside three hung nodes refuses reservations and checks within the budget, and calls no id foreign', async () => {
  await using owned = new AsyncDisposableStack()
  const { leases } = (await openedPatiently(owned)).stack
  await eventually('a claim is granted', async () => {
    const claimed = await leases.claim({
      key: keyOf('started'),
      fingerprint: fingerprintOf('started'),
      leaseMs: 30_000,
      retentionMs: 60_000,
      budgetMs: 4_000,
    })
    return claimed.kind !== 'unavailable'
  })
  for (const index of [0, 1, 2]) servers.pause(index)
  // Each has a secret of its own to agree on, and has not agreed on it.
  const api = owned.use(await startReservationApi({ leases, options: { budgetMs: BUDGET_MS } }))
  const gateway = owned.use(
    await startGatewayListener({ leases, options: { routes: [route({ budgetMs: BUDGET_MS })] } }),
  )
  const reserve = () => api.call('/v1/reservations', { session_id: 's', reserved_value: 'v' })
  const check = async () => {
    const answer = await fetch(`${gateway.origin}/v1/gateway/forward-auth`, {
      headers: {
        'X-Forwarded-Method': 'POST',
        'X-Forwarded-Uri': '/payments',
        'X-Forwarded-Host': 'shop',
        'Idempotency-Key': crypto.randomUUID(),
      },
    })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  for (const call of [reserve, check, reserve, check]) {
    const startedMs = clock.monoMs()
    const { status, body } = await call()
    const tookMs = clock.monoMs() - startedMs
    expect([status, body.code]).toEqual([503, 'quorum-unavailable'])
    expect(tookMs).toBeLessThan(BUDGET_MS + ANSWERED_LATE_MS)
  }
  const reservationId = reservationIdOf(
    reservationOf(keyOf('started'), fingerprintOf('started')),
    Buffer.alloc(32),
  )
  const completed = await fetch(`${gateway.origin}/v1/gateway/complete`, {
    method: 'POST',
    headers: { 'Fencepost-Reservation-Id': reservationId },
    body: '{"status":201}',
  })
  expect([completed.status, await completed.json()]).toMatchObject([503, { code: 'quorum-unavailable' }])
  const extended = await api.call(`/v1/reservations/${reservationId}/extend`, { fencing_token: 7 })
  expect([extended.status, extended.body.code]).toEqual([503, 'quorum-unavailable'])
})
