/** The proxy and the application behind it, as configured. */

import { randomUUID } from 'node:crypto'
import { createProxy, type ProxyOptions, type ProxyPorts } from '../http/proxy/server.ts'
import type { ScopeRules } from '../http/request/identify.ts'
import { createApplication } from '../upstream/application.ts'
import { listenerLimits, type SizedConfig } from './listener-limits.ts'
import type { Secrets } from './secrets.ts'

/** Both, or undefined if the proxy is off. */
export function openProxy(
  config: SizedConfig,
  core: Omit<ProxyPorts, 'application' | 'newInstance' | 'onFailure'>,
  secrets: Secrets,
  scope: ScopeRules,
  onFailure: ProxyPorts['onFailure'],
) {
  const at = config.proxyListen
  if (at.kind === 'off' || config.upstream === undefined) return undefined
  const application = createApplication({
    address: config.upstream,
    host: config.upstreamHost,
    connectTimeoutMs: config.upstreamConnectTimeoutMs,
    bodyIdleMs: config.upstreamBodyTimeoutMs,
    connectionsMax: config.upstreamConnections,
    keepAliveMs: config.upstreamKeepAliveMs,
    clock: core.clock,
  })
  const proxy = createProxy(proxyOptions(config, secrets, scope), {
    ...core,
    application,
    newInstance: () => randomUUID(),
    onFailure,
  })
  let closed: Promise<void> | undefined
  return {
    application,
    listen: () => proxy.listen(at),
    inFlight: () => proxy.inFlight(),
    leave: () => proxy.leave(),
    close: (graceMs: number) => {
      closed ??= proxy.close(graceMs).then(() => application[Symbol.asyncDispose]())
      return closed
    },
  }
}

function proxyOptions(config: SizedConfig, secrets: Secrets, scope: ScopeRules): ProxyOptions {
  const tls = secrets.tls('proxy')
  return {
    routes: config.routes,
    scope,
    trustedPeers: config.trustedPeers,
    ...(tls === undefined ? {} : { tls }),
    forwarded: config.forwardedHeaders,
    pageOrigins: config.pageOrigins,
    settleBudgetMs: config.settleBudgetMs,
    renewFraction: config.renewFraction,
    rawKeys: config.logRawKeys,
    upstreamTimeoutMs: config.upstreamTimeoutMs,
    limits: {
      inFlightMax: config.maxInFlight,
      headerLinesMax: config.headerLinesMax,
      ...listenerLimits(config),
    },
  }
}
