/** The listener for Envoy's gRPC services, as configured. */

import { randomUUID } from 'node:crypto'
import { protects } from '../core/routes/route.ts'
import type { EnvoyPorts, EnvoyServer } from '../http/envoy/server.ts'
import type { ScopeRules } from '../http/request/identify.ts'
import { connectionLimit, type SizedConfig } from './listener-limits.ts'
import type { Secrets } from './secrets.ts'

/** The rest of a message besides a body: the head of its request, and gRPC's own fields. */
const AROUND_BYTES = 64 * 1024
/** Envoy may buffer more of an answer than is stored, and sends all of it: 1 MiB by default, at most twice that. */
const HELD_BY_ENVOY_BYTES = 2 * 1024 * 1024

/** The listener, or undefined if it is off. Loads gRPC only if needed: that takes a tenth of a second. */
export async function openEnvoy(
  config: SizedConfig,
  core: Omit<EnvoyPorts, 'newInstance' | 'onFailure'>,
  secrets: Secrets,
  scope: ScopeRules,
  onFailure: EnvoyPorts['onFailure'],
): Promise<(Omit<EnvoyServer, 'listen'> & { listen(): Promise<string> }) | undefined> {
  const at = config.gatewayGrpcListen
  if (at.kind === 'off') return undefined
  const { createEnvoyServer } = await import('../http/envoy/server.ts')
  const tls = secrets.tls('gateway')
  const bodies = config.routes
    .filter(protects)
    .flatMap((route) => [route.bodyLimitBytes, route.storedResponseLimitBytes])
  const server = createEnvoyServer(
    {
      routes: config.routes,
      scope,
      tokens: secrets.apiTokens,
      settleBudgetMs: config.settleBudgetMs,
      renewFraction: config.renewFraction,
      rawKeys: config.logRawKeys,
      ...(tls === undefined ? {} : { tls }),
      limits: {
        inFlightMax: config.maxInFlight,
        headerLinesMax: config.headerLinesMax,
        ...connectionLimit(config),
        handshakeTimeoutMs: config.headersTimeoutMs,
        messageBytesMax: Math.max(HELD_BY_ENVOY_BYTES, ...bodies) + config.headerLimitBytes + AROUND_BYTES,
      },
    },
    { ...core, newInstance: () => randomUUID(), onFailure },
  )
  return { ...server, listen: () => server.listen(at) }
}
