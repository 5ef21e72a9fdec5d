/**
 * The listeners for requests (proxy, reservation API, gateway, Envoy): opened, counted and closed together.
 */

import type { ListenAddress } from '../config/addresses.ts'
import type { Config } from '../config/load.ts'
import type { Clock } from '../core/clock.ts'
import {
  agreedSecret,
  givenSecret,
  type ReservationSecret,
  type SecretPorts,
} from '../core/reservations/reservation-secret.ts'
import type { Reservation } from '../core/reservations/reservations.ts'
import type { ScopeRules } from '../http/request/identify.ts'
import { type Outstanding, trackOutstanding } from '../http/request/outstanding.ts'
import type { ReservationApiPorts } from '../http/reservations/server.ts'
import { removeAbandonedSocket } from '../system/socket-file.ts'
import { openEnvoy } from './envoy.ts'
import { openGateway } from './gateway.ts'
import { countRefusedConnections, sized } from './listener-limits.ts'
import { type OperatorListenerPorts, openOperatorApi } from './operator.ts'
import { openProxy } from './proxy.ts'
import { openReservationApi } from './reservation-api.ts'
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

export type ListenersPorts = {
  /** For listeners that execute requests themselves: proxy and Envoy. */
  readonly executing: Parameters<typeof openProxy>[1]
  /** For listeners that answer an application, which executes requests. */
  readonly answering: Omit<
    Parameters<typeof openReservationApi>[2] & Parameters<typeof openGateway>[1],
    'secret' | 'outstanding'
  >
  /** For the operator listener, besides the application. */
  readonly operating: Omit<OperatorListenerPorts, 'secret' | 'application' | 'onFailure'>
  readonly onFailure: ReservationApiPorts['onFailure']
}

export type Listeners = {
  /** For calls to the application besides requests; undefined if the proxy is off. */
  readonly application: NonNullable<ReturnType<typeof openProxy>>['application'] | undefined
  /** Requests in flight. */
  inFlight(): number
  /** Open reservations that this sidecar granted. */
  reserved(): number
  /** @throws StartRefused if one can't be opened */
  listen(): Promise<ListenerAddresses>
  /** Answers of proxy, gateway and reservation API end their connections from now on. */
  leave(): void
  /** Refuses new work, and waits for requests in flight, at most `graceMs`. */
  close(graceMs: number): Promise<void>
}

export type ListenersEnvironment = {
  readonly version: string
  readonly memoryLimitBytes?: number | undefined
}

export async function openListeners(
  given: Config,
  { version, memoryLimitBytes }: ListenersEnvironment,
  secrets: Secrets,
  scope: ScopeRules,
  { executing, answering, operating, onFailure }: ListenersPorts,
): Promise<Listeners> {
  const limited = sized(given, memoryLimitBytes)
  const config = { ...limited, onConnectionRefused: countRefusedConnections(answering, limited) }
  const proxy = openProxy(config, executing, secrets, scope, onFailure)
  const secret = secretOf(secrets, answering)
  const { reserved, checked } = outstandingOf(config, answering.clock)
  const reserving = { ...answering, secret, outstanding: reserved }
  const checking = { secret, outstanding: checked }
  const api = openReservationApi(config, version, reserving, secrets, scope, onFailure)
  const gateway = openGateway(config, { ...answering, ...checking }, secrets, scope, onFailure)
  const envoy = await openEnvoy(config, { ...executing, ...checking }, secrets, scope, onFailure)
  const application = proxy?.application
  const operator = openOperatorApi(config, secrets, scope, { ...operating, secret, application, onFailure })
  return {
    application,
    inFlight: () => (proxy?.inFlight() ?? 0) + (envoy?.inFlight() ?? 0),
    reserved: () => api?.held() ?? 0,
    listen: async () => {
      const addresses: ListenerAddresses = {}
      // Agreed on before a call needs it, whose budget is short; where too few nodes answer yet, calls try again.
      if (api !== undefined || gateway !== undefined || envoy !== undefined) await secret.current(AGREEING_MS)
      if (api !== undefined) addresses.api = await opened('api', config.apiListen, () => api.listen())
      if (gateway !== undefined)
        addresses.gateway = await opened('gateway', config.gatewayListen, () => gateway.listen())
      if (envoy !== undefined)
        addresses.gatewayGrpc = await opened('gateway gRPC', config.gatewayGrpcListen, () => envoy.listen())
      if (operator !== undefined)
        addresses.operator = await opened('operator', config.operatorListen, () => operator.listen())
      // Last: a client that finds it open finds everything behind it open as well.
      if (proxy !== undefined)
        addresses.proxy = await opened('proxy', config.proxyListen, () => proxy.listen())
      return addresses
    },
    leave: () => {
      for (const one of [proxy, api, gateway]) one?.leave()
    },
    close: async (graceMs) => {
      await Promise.all([proxy, api, gateway, envoy, operator].map((one) => one?.close(graceMs)))
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
