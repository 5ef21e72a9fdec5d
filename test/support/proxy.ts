/**
 * The real proxy on five embedded nodes, in front of an application of the test; and clients for it.
 */

import { randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { defaultRoute } from '../../src/config/builtin-policy.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createBackground } from '../../src/core/background.ts'
import { createFairQueue } from '../../src/core/claims/fair-queue.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import { shareLeases } from '../../src/core/claims/shared-leases.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import type { Leases } from '../../src/core/ports.ts'
import { createNearMisses } from '../../src/core/request/near-misses.ts'
import { createTenantQuotas, type TenantLimits } from '../../src/core/request/tenant-quotas.ts'
import type { ProtectedRoute, Route } from '../../src/core/routes/route.ts'
import { UNTRACED } from '../../src/core/tracing.ts'
import { createEmbeddedNodes, createEmbeddedWaitQueues, type StoppableNode } from '../../src/embedded/node.ts'
import { createProxy, type ProxyOptions, type ProxyServer } from '../../src/http/proxy/server.ts'
import { createBodyMemory } from '../../src/http/server/body-memory.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { createApplication } from '../../src/upstream/application.ts'

const loaded = loadConfig(
  { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' },
  () => '',
)
if (loaded.kind !== 'ok') throw new Error('the default configuration is invalid')
const { config } = loaded

/** A protected route for every POST, with the defaults of the configuration and the overrides of the test. */
export function route(differs: Partial<ProtectedRoute> = {}): ProtectedRoute {
  const mode = differs.mode ?? 'header'
  return { ...defaultRoute(config, { name: 'posts', match: { methods: ['POST'] }, mode }), ...differs }
}

/** Any peer is trusted to state tenant, version and client. */
export const TEST_SCOPE: ProxyOptions['scope'] = {
  defaults: { tenant: 'default', env: 'test', apiVersion: 'v1' },
  tenantHeader: 'x-tenant-id',
  versionHeader: 'x-api-version',
  clientHeader: 'x-client-id',
  trusted: true,
}

/** Beyond the reach of a test that is not about limits. */
export const TEST_LIMITS: ProxyOptions['limits'] = {
  inFlightMax: 1_000,
  headerBytesMax: 16_384,
  headerLinesMax: 200,
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 10_000,
  keepAliveTimeoutMs: 5_000,
  requestsPerConnectionMax: 1_000,
  connectionsMax: 1_000,
  readerIdleMs: 5_000,
}

export type TestProxyOptions = {
  readonly routes?: readonly Route[]
  readonly limits?: Partial<ProxyOptions['limits']>
  readonly options?: Partial<Omit<ProxyOptions, 'limits' | 'routes'>>
  /** Sidecars that share nodes form one cluster. */
  readonly nodes?: readonly StoppableNode[]
  /** Instead of leases on these nodes. */
  readonly leases?: Leases
  readonly bodyIdleMs?: number
  /** Default: 256 connections to the application. */
  readonly upstreamConnectionsMax?: number
  readonly upstreamKeepAliveMs?: number
  /** Default: beyond the reach of a test that is not about it. */
  readonly bodyMemoryBytes?: number
  readonly tenants?: Partial<TenantLimits>
  /** Counts the new records of a tenant; default: the system clock. */
  readonly quotaClock?: Clock
  /** The limit of outcomes that are recorded in the background. */
  readonly lateOffersMax?: number
  /** Default: all are kept, for the test to look at. */
  readonly keepEvents?: boolean
  /** Default: no memory of outcomes, every duplicate goes to the nodes. */
  readonly outcomeBytesMax?: number
}

export type TestProxy = AsyncDisposable & {
  readonly origin: string
  readonly port: number
  readonly proxy: ProxyServer
  readonly nodes: readonly StoppableNode[]
  readonly events: readonly CoreEvent[]
  /** Errors that ended in 500. */
  readonly failures: readonly unknown[]
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Protected where a key is given. */
  post(key: string | undefined, body?: string, headers?: Record<string, string>): Promise<Response>
}

export async function startProxy(
  applicationOrigin: string,
  given: TestProxyOptions = {},
): Promise<TestProxy> {
  const clock = systemClock
  const random = systemRandom
  const published: CoreEvent[] = []
  const failures: unknown[] = []
  const events = { publish: (event: CoreEvent) => void (given.keepEvents !== false && published.push(event)) }
  const nodes = given.nodes ?? createEmbeddedNodes(5, clock, 10_000, events)
  const leases = shareLeases({
    leases:
      given.leases ??
      createLeases({ quorum: createRedlockQuorum({ nodes, clock, events }), clock, random, events }),
    clock,
    events,
    outcomeBytesMax: given.outcomeBytesMax ?? 0,
  })
  const own = createEmbeddedNodes(1, clock, 10_000, events)
  const localLeases = createLeases({
    quorum: createRedlockQuorum({ nodes: own, clock, events }),
    clock,
    random,
    events,
  })
  const application = createApplication({
    address: applicationOrigin.startsWith('unix:')
      ? { kind: 'unix', path: applicationOrigin.slice('unix:'.length) }
      : { kind: 'http', origin: applicationOrigin },
    connectTimeoutMs: 500,
    bodyIdleMs: given.bodyIdleMs ?? 5_000,
    connectionsMax: given.upstreamConnectionsMax ?? 256,
    keepAliveMs: given.upstreamKeepAliveMs ?? 4_000,
    host: 'client',
    clock,
  })
  const proxy = createProxy(
    {
      routes: given.routes ?? [route()],
      scope: TEST_SCOPE,
      trustedPeers: { kind: 'any' },
      forwarded: 'append',
      pageOrigins: [],
      settleBudgetMs: 300,
      renewFraction: 1 / 3,
      rawKeys: false,
      upstreamTimeoutMs: 5_000,
      ...given.options,
      limits: { ...TEST_LIMITS, ...given.limits },
    },
    {
      leases,
      whenEnded: leases.whenEnded,
      localLeases,
      fairQueue: createFairQueue({ waitQueues: createEmbeddedWaitQueues(clock), clock, random }),
      bodyMemory: createBodyMemory(given.bodyMemoryBytes ?? 2 ** 30, (of) =>
        events.publish({ kind: 'body_memory_full', of }),
      ),
      quotas: createTenantQuotas(
        { inFlightMax: 1_000, newRecordsPerSecondMax: 1_000_000, ...given.tenants },
        given.quotaClock ?? clock,
      ),
      background: createBackground(given.lateOffersMax ?? 100, (error) => void failures.push(error)),
      clock,
      random,
      events,
      tracing: UNTRACED,
      application,
      newInstance: randomUUID,
      nearMisses: createNearMisses('of the test'),
      onFailure: (error) => void failures.push(error),
    },
  )
  const origin = await proxy.listen({ kind: 'tcp', host: '127.0.0.1', port: 0 })
  const ask = (path: string, init?: RequestInit) => fetch(origin + path, { redirect: 'manual', ...init })
  return {
    origin,
    port: Number(new URL(origin).port),
    proxy,
    nodes,
    events: published,
    failures,
    fetch: ask,
    post: (key, body = '{}', headers = {}) =>
      ask('/things', {
        method: 'POST',
        body,
        headers: {
          'content-type': 'application/json',
          ...(key === undefined ? {} : { 'idempotency-key': key }),
          ...headers,
        },
      }),
    [Symbol.asyncDispose]: async () => {
      await proxy.close(0)
      await application[Symbol.asyncDispose]()
    },
  }
}

export type Wire = AsyncDisposable & {
  readonly socket: Socket
  /** Everything received until now, Latin-1. */
  received(): string
  send(bytes: string | Buffer): void
  /** Resolves when the other side has ended or reset the connection. */
  readonly ended: Promise<void>
  /** Resolves when the connection is fully closed. */
  readonly closed: Promise<void>
}

export async function openWire(port: number): Promise<Wire> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  let received = ''
  socket.on('data', (part) => {
    received += part.toString('latin1')
  })
  const ended = new Promise<void>((resolve) => {
    socket.on('error', () => {})
    socket.once('close', () => resolve()).once('end', () => resolve())
  })
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => resolve())
  })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return {
    socket,
    received: () => received,
    send: (bytes) => void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    ended,
    closed,
    [Symbol.asyncDispose]: async () => {
      socket.destroy()
      await ended
    },
  }
}

/** As blocking clients do. Resolves when all of it is written, or the connection took no more. */
export async function sendAllThenRead({ socket }: Wire, bytes: Buffer): Promise<void> {
  socket.pause()
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()))
  socket.resume()
}

export type Held = { readonly release: () => void; readonly released: Promise<void> }

/** For an application that answers when the test says so. */
export function hold(): Held {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { release: resolve, released: promise }
}
