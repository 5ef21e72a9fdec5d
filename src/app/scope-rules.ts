/** Which peers may state tenant, version and client, as configured: the same for the proxy and the gateways. */

import type { Config } from '../config/load.ts'
import type { ScopeRules } from '../http/request/identify.ts'

export function scopeRules(config: Config): ScopeRules {
  const { tenant, env, apiVersion, tenantHeader, versionHeader, clientHeader } = config
  return {
    defaults: { tenant, env, apiVersion },
    tenantHeader,
    versionHeader,
    clientHeader,
    trusted: config.trustScopeHeaders,
  }
}
