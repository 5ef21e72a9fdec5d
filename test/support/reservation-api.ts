/**
 * The real reservation API on five embedded nodes, and clients for it. Several of them on the same nodes are sidecars
 * of one cluster.
 */
import { randomUUID } from 'node:crypto'
import { loadConfig } from '../../src/config/load.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import { createWaiters } from '../../src/core/claims/waiters.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import type { Leases } from '../../src/core/ports.ts'
import { createTenantQuotas, type TenantLimits } from '../../src/core/request/tenant-quotas.ts'
import { agreedSecret, type ReservationSecret } from '../../src/core/reservations/reservation-secret.ts'
import { type Tracing, UNTRACED } from '../../src/core/tracing.ts'
import { createEmbeddedNodes, type StoppableNode } from '../../src/embedded/node.ts'
import { trackOutstanding } from '../../src/http/request/outstanding.ts'
import { createReservationApi, type ReservationApiOptions } from '../../src/http/reservations/server.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'

export type TestApiOptions = {
  readonly options?: Partial<Omit<ReservationApiOptions, 'limits'>>
  readonly limits?: Partial<ReservationApiOptions['limits']>
  readonly nodes?: readonly StoppableNode[]
  /** Default: over `nodes`. */
  readonly leases?: Leases
  readonly clock?: Clock
  readonly secret?: ReservationSecret
  readonly maxWaiters?: number
  /** Reservations that one session may hold. */
  readonly perSessionMax?: number
  readonly tracing?: Tracing
  readonly tenants?: Partial<TenantLimits>
  /** Default: all are kept, for the test to look at. */
  readonly keepEvents?: boolean
}

export type ApiReply = {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

export type TestApi = AsyncDisposable & {
  readonly origin: string
  readonly nodes: readonly StoppableNode[]
  readonly events: readonly CoreEvent[]
  readonly failures: readonly unknown[]
  call(path: string, body?: unknown, init?: RequestInit): Promise<ApiReply>
  /** Reserves, and expects 201. */
  reserve(input: Record<string, unknown>): Promise<TestReservation>
  leave(): void
  close(graceMs: number): Promise<void>
}

export type TestReservation = { readonly id: string; readonly token: number; readonly attempt: number }

const loaded = loadConfig(
  { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' },
  () => '',
)
if (loaded.kind !== 'ok') throw new Error('the default configuration is invalid')
const { config } = loaded

export async function startReservationApi(given: TestApiOptions = {}): Promise<TestApi> {
  const clock = given.clock ?? systemClock
  const random = systemRandom
  const published: CoreEvent[] = []
  const failures: unknown[] = []
  const events = { publish: (event: CoreEvent) => void (given.keepEvents !== false && published.push(event)) }
  const nodes = given.nodes ?? createEmbeddedNodes(5, clock, 10_000, events)
  const leases =
    given.leases ??
    createLeases({ quorum: createRedlockQuorum({ nodes, clock, events }), clock, random, events })
  const api = createReservationApi(
    {
      version: '0.0.0-test',
      routes: config.routes,
      principal: { clientHeader: 'x-client-id', trusted: true },
      scope: { tenant: 'default', env: 'test', apiVersion: 'v1' },
      leaseMs: 30_000,
      maxLeaseMs: 60_000,
      retentionMs: 86_400_000,
      budgetMs: 100,
      maxWaitMs: 10_000,
      totalHoldMs: 300_000,
      renewFraction: 1 / 3,
      resultBytesMax: 1_024,
      apiTokens: undefined,
      hosts: 'local',
      ...given.options,
      limits: {
        bodyBytesMax: 64 * 1024,
        headerBytesMax: 16_384,
        headersTimeoutMs: 5_000,
        requestTimeoutMs: 10_000,
        keepAliveTimeoutMs: 5_000,
        inFlightMax: 1_000,
        connectionsMax: 1_000,
        ...given.limits,
      },
    },
    {
      leases,
      waiters: createWaiters(given.maxWaiters ?? 256, 256),
      outstanding: trackOutstanding(clock, given.perSessionMax ?? 1_000),
      secret: given.secret ?? agreedSecret({ leases, clock, random }),
      quotas: createTenantQuotas(
        { inFlightMax: 1_000, newRecordsPerSecondMax: 1_000_000, ...given.tenants },
        clock,
      ),
      clock,
      random,
      events,
      tracing: given.tracing ?? UNTRACED,
      newInstance: randomUUID,
      onFailure: (error) => failures.push(error),
    },
  )
  const origin = await api.listen({ kind: 'tcp', host: '127.0.0.1', port: 0 })
  const call = (path: string, body?: unknown, init: RequestInit = {}) => callApi(origin, path, body, init)
  return {
    origin,
    nodes,
    events: published,
    failures,
    call,
    reserve: (input) => reserveAt(origin, input),
    leave: api.leave,
    close: api.close,
    [Symbol.asyncDispose]: () => api.close(0),
  }
}

/** POST where there is a body, else GET. */
export async function callApi(
  origin: string,
  path: string,
  body?: unknown,
  init: RequestInit = {},
): Promise<ApiReply> {
  const response = await fetch(`${origin}${path}`, {
    ...(body === undefined
      ? {}
      : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...init,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...init.headers },
  })
  const text = await response.text()
  const parsed = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
  return { status: response.status, headers: response.headers, body: parsed }
}

export async function reserveAt(origin: string, input: Record<string, unknown>): Promise<TestReservation> {
  const { status, body } = await callApi(origin, '/v1/reservations', input)
  if (status !== 201) throw new Error(`expected 201, got ${status}: ${JSON.stringify(body)}`)
  return {
    id: body.reservation_id as string,
    token: body.fencing_token as number,
    attempt: body.attempt as number,
  }
}

/** The records of requests and entities on every node, to show that a call changed none. */
export async function snapshot(nodes: readonly StoppableNode[], keys: readonly string[]): Promise<string> {
  const answers = await Promise.all(
    nodes.flatMap((node) => keys.map((key) => node.execute({ kind: 'read', key }))),
  )
  return JSON.stringify(answers.map((answer) => (answer.kind === 'record' ? answer.record : answer.kind)))
}
