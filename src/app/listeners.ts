/**
 * The listeners for requests (proxy, reservation API, gateway, Envoy): opened, counted and closed together.
 */

import { randomUUID } from 'node:crypto'
import type { ListenAddress } from '../config/addresses.ts'
import type { Config } from '../config/load.ts'
import { createWaiters } from '../core/claims/waiters.ts'
import type { Clock } from '../core/clock.ts'
import {
  agreedSecret,
  givenSecret,
  type ReservationSecret,
  type SecretPorts,
} from '../core/reservations/reservation-secret.ts'
import type { Reservation } from '../core/reservations/reservations.ts'
import { protects } from '../core/routes/route.ts'
import type { EnvoyPorts } from '../http/envoy/server.ts'
import { createGateway, type GatewayPorts } from '../http/gateway/server.ts'
import { operatorPaths } from '../http/operator/calls.ts'
import { createProxy, type ProxyPorts } from '../http/proxy/server.ts'
import type { ScopeRules } from '../http/request/identify.ts'
import { type Outstanding, trackOutstanding } from '../http/request/outstanding.ts'
import { createReservationApi, type ReservationApiPorts } from '../http/reservations/server.ts'
import { removeAbandonedSocket } from '../system/file-watch.ts'
import { createApplication } from '../upstream/application.ts'
import {
  connectionLimit,
  countRefusedConnections,
  headLimits,
  jsonBytesMax,
  listenerLimits,
  longestBodyBytes,
  type SizedConfig,
  sized,
} from './listener-limits.ts'
import { type OperatorListenerPorts, openOperatorApi } from './operator.ts'
import type { Secrets } from './secrets.ts'
import { StartRefused } from './start-refused.ts'

/** The actual addresses, ports resolved; absent for a listener that is off. */
export type ListenerAddresses = {
  proxy?: string
  api?: string
  gateway?: string
  gatewayGrpc?: string
  operator?: string
}

/** How long a start waits for the nodes to agree on the secret that signs reservations. */
const AGREEING_MS = 1_000

type ListenersPorts = {
  /** For listeners that execute requests themselves: proxy and Envoy. */
  readonly executing: Parameters<typeof openProxy>[1]
  /** For listeners that answer an application, which executes requests. */
  readonly answering: Omit<
    Parameters<typeof openReservationApi>[1] & Parameters<typeof openGateway>[1],
    'secret' | 'outstanding'
  >
  /** For the operator listener, besides the application. */
  readonly operating: Omit<OperatorListenerPorts, 'secret' | 'application' | 'onFailure'>
  readonly onFailure: ReservationApiPorts['onFailure']
}

export type Listeners = Awaited<ReturnType<typeof openListeners>>

/** What every listener is opened with; each opener gives undefined where its listener is off. */
type Opening = {
  readonly config: SizedConfig
  readonly secrets: Secrets
  readonly scope: ScopeRules
  readonly always: Pick<ReservationApiPorts, 'newInstance' | 'onFailure'>
}

export async function openListeners(
  given: Config,
  { version, memoryLimitBytes }: { readonly version: string; readonly memoryLimitBytes?: number | undefined },
  secrets: Secrets,
  scope: ScopeRules,
  { executing, answering, operating, onFailure }: ListenersPorts,
) {
  const limited = sized(given, memoryLimitBytes)
  const config = { ...limited, onConnectionRefused: countRefusedConnections(answering, limited) }
  const opening = { config, secrets, scope, always: { newInstance: () => randomUUID(), onFailure } }
  const proxy = openProxy(opening, executing)
  const secret = secretOf(secrets, answering)
  const { reserved, checked } = outstandingOf(config, answering.clock)
  const checking = { secret, outstanding: checked }
  const api = openReservationApi(opening, { ...answering, secret, outstanding: reserved }, version)
  const gateway = openGateway(opening, { ...answering, ...checking })
  const envoy = await openEnvoy(opening, { ...executing, ...checking })
  const application = proxy?.application
  const operator = openOperatorApi(config, secrets, scope, { ...operating, secret, application, onFailure })
  const inOrder = [
    { as: 'api', server: api, at: config.apiListen },
    { as: 'gateway', server: gateway, at: config.gatewayListen },
    { as: 'gatewayGrpc', name: 'gateway gRPC', server: envoy, at: config.gatewayGrpcListen },
    { as: 'operator', server: operator, at: config.operatorListen },
    // Last: a client that finds it open finds everything behind it open as well.
    { as: 'proxy', server: proxy, at: config.proxyListen },
  ] as const
  return {
    /** For calls to the application besides requests; undefined if the proxy is off. */
    application,
    inFlight: () => (proxy?.inFlight() ?? 0) + (envoy?.inFlight() ?? 0),
    /** Open reservations that this sidecar granted. */
    reserved: () => api?.held() ?? 0,
    /** @throws StartRefused if one can't be opened */
    listen: async () => {
      const addresses: ListenerAddresses = {}
      // Agreed on before a call needs it, whose budget is short; where too few nodes answer yet, calls try again.
      if (api !== undefined || gateway !== undefined || envoy !== undefined) await secret.current(AGREEING_MS)
      for (const { as, server, at, ...named } of inOrder) {
        if (server === undefined || at.kind === 'off') continue
        addresses[as] = await opened('name' in named ? named.name : as, at, () => server.listen(at))
      }
      return addresses
    },
    /** Answers end their connections from now on. */
    leave: () => {
      for (const one of [proxy, api, gateway]) one?.leave()
    },
    /** Refuses new work, and waits for requests in flight. */
    close: async (graceMs: number) => {
      await Promise.all(inOrder.map(({ server }) => server?.close(graceMs)))
    },
  }
}

/**
 * What the reservation API has given out, and what checks have claimed. Each is counted by itself, but what a check has claimed may end
 * over either listener, so that both stay open for it.
 */
function outstandingOf(
  config: Config,
  clock: Clock,
): { readonly reserved: Outstanding; readonly checked: Outstanding } {
  const reserved = trackOutstanding(clock, config.reservationsPerSession)
  const checked = trackOutstanding(clock, config.reservationsPerSession)
  const ended = (reservation: Reservation): void => {
    reserved.ended(reservation)
    checked.ended(reservation)
  }
  const none = async (graceMs: number): Promise<void> => {
    await Promise.all([reserved.none(graceMs), checked.none(graceMs)])
  }
  return { reserved: { ...reserved, ended, none }, checked: { ...checked, ended } }
}

/** One for all listeners: an id of one is served by the others. */
function secretOf({ reservationSecrets }: Secrets, core: SecretPorts): ReservationSecret {
  return reservationSecrets === undefined ? agreedSecret(core) : givenSecret(reservationSecrets)
}

/** @throws StartRefused with the name of the listener */
export async function opened(name: string, at: ListenAddress, open: () => Promise<string>): Promise<string> {
  try {
    if (at.kind === 'unix') await removeAbandonedSocket(at.path)
    return await open()
  } catch (cause) {
    throw StartRefused.because(`the ${name} listener could not be opened`, cause)
  }
}

/** The proxy, and the application behind it. */
function openProxy(
  { config, secrets, scope, always }: Opening,
  core: Omit<ProxyPorts, 'application' | keyof Opening['always']>,
) {
  if (config.proxyListen.kind === 'off' || config.upstream === undefined) return undefined
  const application = createApplication({
    address: config.upstream,
    host: config.upstreamHost,
    connectTimeoutMs: config.upstreamConnectTimeoutMs,
    bodyIdleMs: config.upstreamBodyTimeoutMs,
    connectionsMax: config.upstreamConnections,
    keepAliveMs: config.upstreamKeepAliveMs,
    clock: core.clock,
  })
  const options = {
    routes: config.routes,
    scope,
    trustedPeers: config.trustedPeers,
    ...secrets.tls('proxy'),
    forwarded: config.forwardedHeaders,
    pageOrigins: config.pageOrigins,
    settleBudgetMs: config.settleBudgetMs,
    renewFraction: config.renewFraction,
    rawKeys: config.logRawKeys,
    upstreamTimeoutMs: config.upstreamTimeoutMs,
    limits: listenerLimits(config),
  }
  const proxy = createProxy(options, { ...core, ...always, application })
  let closed: Promise<void> | undefined
  return {
    ...proxy,
    application,
    close: (graceMs: number) => {
      closed ??= proxy.close(graceMs).then(() => application[Symbol.asyncDispose]())
      return closed
    },
  }
}

function openReservationApi(
  { config, secrets, scope: principal, always }: Opening,
  core: Omit<ReservationApiPorts, 'waiters' | 'describedPaths' | keyof Opening['always']>,
  version: string,
) {
  const { apiListen: at, tenant, env, apiVersion } = config
  if (at.kind === 'off') return undefined
  const tls = secrets.tls('api')
  // A call carries a request that some route takes, or a result, and neither depends on what the limit of the other is.
  const bodyBytesMax = jsonBytesMax(
    Math.max(config.storedResponseLimitBytes, longestBodyBytes(config.routes)),
  )
  return createReservationApi(
    {
      version,
      routes: config.routes,
      principal,
      scope: { tenant, env, apiVersion },
      leaseMs: config.leaseMs,
      maxLeaseMs: config.reservationMaxLeaseMs,
      retentionMs: config.retentionMs,
      budgetMs: config.claimBudgetMs,
      maxWaitMs: config.waitMaxMs,
      totalHoldMs: config.totalHoldMs,
      renewFraction: config.renewFraction,
      resultBytesMax: config.storedResponseLimitBytes,
      apiTokens: secrets.apiTokens,
      // No browser opens a socket file, or believes that a certificate of ours is that of a stranger's name.
      hosts: at.kind === 'unix' || 'tls' in tls ? 'any' : 'local',
      ...tls,
      limits: { ...headLimits(config), bodyBytesMax, inFlightMax: config.maxInFlight },
    },
    {
      ...core,
      ...always,
      waiters: createWaiters(config.maxWaiters, config.maxWaiters),
      ...(config.operatorListen.kind === 'off' ? {} : { describedPaths: operatorPaths() }),
    },
  )
}

function openGateway(
  { config, secrets, scope, always }: Opening,
  core: Omit<GatewayPorts, keyof Opening['always']>,
) {
  if (config.gatewayListen.kind === 'off') return undefined
  const options = {
    routes: config.routes,
    scope,
    tokens: secrets.apiTokens,
    ...secrets.tls('gateway'),
    // The largest stored body as base64, plus as much again as a head may have.
    reportBytesMax: Math.ceil(config.storedResponseLimitBytes * 1.4) + config.headerLimitBytes,
    limits: listenerLimits(config),
  }
  return createGateway(options, { ...core, ...always })
}

/** The rest of a message besides a body: the head of its request, and gRPC's own fields. */
const AROUND_BYTES = 64 * 1024
/** Envoy may buffer more of an answer than is stored, and sends all of it: 1 MiB by default, at most twice that. */
const HELD_BY_ENVOY_BYTES = 2 * 1024 * 1024

/** Loads gRPC only if needed: that takes a tenth of a second. */
async function openEnvoy(
  { config, secrets, scope, always }: Opening,
  core: Omit<EnvoyPorts, keyof Opening['always']>,
) {
  if (config.gatewayGrpcListen.kind === 'off') return undefined
  const { createEnvoyServer } = await import('../http/envoy/server.ts')
  const bodies = config.routes
    .filter(protects)
    .flatMap((route) => [route.bodyLimitBytes, route.storedResponseLimitBytes])
  const options = {
    routes: config.routes,
    scope,
    tokens: secrets.apiTokens,
    settleBudgetMs: config.settleBudgetMs,
    renewFraction: config.renewFraction,
    rawKeys: config.logRawKeys,
    ...secrets.tls('gateway'),
    limits: {
      inFlightMax: config.maxInFlight,
      headerLinesMax: config.headerLinesMax,
      ...connectionLimit(config),
      handshakeTimeoutMs: config.headersTimeoutMs,
      messageBytesMax: Math.max(HELD_BY_ENVOY_BYTES, ...bodies) + config.headerLimitBytes + AROUND_BYTES,
    },
  }
  return createEnvoyServer(options, { ...core, ...always })
}
