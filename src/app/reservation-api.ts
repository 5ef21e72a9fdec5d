/** The reservation API, as configured. */

import { randomUUID } from 'node:crypto'
import type { Config } from '../config/load.ts'
import { createWaiters } from '../core/claims/waiters.ts'
import type { PrincipalRules } from '../core/request/principal.ts'
import { operatorPaths } from '../http/operator/openapi.ts'
import { createReservationApi, type ReservationApiPorts } from '../http/reservations/server.ts'
import { longestBodyBytes } from './body-memory.ts'
import { jsonBytesMax } from './json-limits.ts'
import { connectionLimit, type SizedConfig } from './listener-limits.ts'
import type { Secrets } from './secrets.ts'

/** The reservation API, or undefined if it is off. */
export function openReservationApi(
  config: SizedConfig,
  version: string,
  core: Pick<
    ReservationApiPorts,
    'leases' | 'quotas' | 'secret' | 'outstanding' | 'clock' | 'random' | 'events' | 'tracing'
  >,
  secrets: Secrets,
  principal: PrincipalRules,
  onFailure: ReservationApiPorts['onFailure'],
) {
  const at = config.apiListen
  if (at.kind === 'off') return undefined
  const { tenant, env, apiVersion } = config
  const tls = secrets.tls('api')
  const api = createReservationApi(
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
      hosts: at.kind === 'unix' || tls !== undefined ? 'any' : 'local',
      ...(tls === undefined ? {} : { tls }),
      limits: {
        bodyBytesMax: callBytesMax(config),
        headerBytesMax: config.headerLimitBytes,
        headersTimeoutMs: config.headersTimeoutMs,
        requestTimeoutMs: config.requestTimeoutMs,
        keepAliveTimeoutMs: config.keepAliveTimeoutMs,
        inFlightMax: config.maxInFlight,
        ...connectionLimit(config),
      },
    },
    {
      ...core,
      waiters: createWaiters(config.maxWaiters, config.maxWaiters),
      ...(config.operatorListen.kind === 'off' ? {} : { describedPaths: operatorPaths() }),
      newInstance: () => randomUUID(),
      onFailure,
    },
  )
  return {
    listen: () => api.listen(at),
    held: () => api.held(),
    leave: () => api.leave(),
    close: (graceMs: number) => api.close(graceMs),
  }
}

/** A call carries a request that some route takes, or a result, and neither depends on what the limit of the other is. */
function callBytesMax({ routes, storedResponseLimitBytes }: Config): number {
  return jsonBytesMax(Math.max(storedResponseLimitBytes, longestBodyBytes(routes)))
}
