/** The gateway listener, as configured. */

import { randomUUID } from 'node:crypto'
import { createGateway, type GatewayPorts } from '../http/gateway/server.ts'
import type { ScopeRules } from '../http/request/identify.ts'
import { listenerLimits, type SizedConfig } from './listener-limits.ts'
import type { Secrets } from './secrets.ts'

/** The gateway listener, or undefined if it is off. */
export function openGateway(
  config: SizedConfig,
  core: Pick<
    GatewayPorts,
    'leases' | 'quotas' | 'secret' | 'outstanding' | 'clock' | 'random' | 'events' | 'tracing' | 'bodyMemory'
  >,
  secrets: Secrets,
  scope: ScopeRules,
  onFailure: GatewayPorts['onFailure'],
) {
  const at = config.gatewayListen
  if (at.kind === 'off') return undefined
  const tls = secrets.tls('gateway')
  const gateway = createGateway(
    {
      routes: config.routes,
      scope,
      tokens: secrets.apiTokens,
      ...(tls === undefined ? {} : { tls }),
      // The largest stored body as base64, plus as much again as a head may have.
      reportBytesMax: Math.ceil(config.storedResponseLimitBytes * 1.4) + config.headerLimitBytes,
      limits: {
        ...listenerLimits(config),
        inFlightMax: config.maxInFlight,
        headerLinesMax: config.headerLinesMax,
      },
    },
    {
      ...core,
      newInstance: () => randomUUID(),
      onFailure,
    },
  )
  return {
    listen: () => gateway.listen(at),
    leave: () => gateway.leave(),
    close: (graceMs: number) => gateway.close(graceMs),
  }
}
