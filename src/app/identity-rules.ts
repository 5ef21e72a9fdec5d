/**
 * All that makes two requests one at this sidecar, as digits that those of its fellows can be compared with: scope and routes.
 *
 * Owns the list of what counts. Sidecars that differ in any of it may execute one request each, or refuse it as another one. What
 * decides only how a request is served (leases, retentions, limits, names of routes) is not in it, nor are secrets. Each
 * part is named here by itself, so that a setting of a later version changes no digits where it is not used.
 */

import type { Config } from '../config/load.ts'
import { sha256Hex } from '../core/formats/framing.ts'
import {
  type PrincipalSource,
  type ProtectedRoute,
  policiesOf,
  type Route,
  type RouteMatch,
} from '../core/routes/route.ts'
import type { ScopeRules } from '../http/request/identify.ts'

/** Enough to tell the settings of one installation apart. */
const DIGITS = 12

export function identityRules(config: Config): string {
  const { defaults, tenantHeader, versionHeader, clientHeader, trusted } = scopeRules(config)
  const peers = config.trustedPeers.kind === 'any' ? 'any' : config.trustedPeers.blocks
  const scope = [
    defaults.tenant,
    defaults.env,
    defaults.apiVersion,
    tenantHeader,
    versionHeader,
    clientHeader,
  ]
  const rules = [scope, trusted, peers, config.routes.map(routeRules)]
  return sha256Hex(Buffer.from(JSON.stringify(rules))).slice(0, DIGITS)
}

/** The name of a route is in no identity. */
function routeRules(route: Route): unknown {
  const match = matchRules(route.match)
  return [match, route.mode, ...policiesOf(route).flatMap(protectedRules)]
}

function matchRules({ methods, hosts, paths, headers }: RouteMatch): unknown {
  const predicates = headers?.map((one) => [one.kind, one.name, 'value' in one ? one.value : null])
  return [methods ?? null, hosts ?? null, paths?.map(({ text }) => text) ?? null, predicates ?? null]
}

function protectedRules({ key, fingerprint, principal }: ProtectedRoute): readonly unknown[] {
  const parts = key.parts.map((part) => [part.in, Object.values(part)])
  const { headers, ignore, body } = fingerprint
  const selected = [body.kind, body.kind === 'all' ? [] : body.pointers]
  return [[key.headers, parts, key.strict], [headers, ignore, selected], principalRules(principal)]
}

/** Of a verified token only what its principal is made of: not how it is verified. */
function principalRules(principal: PrincipalSource): unknown {
  switch (principal.kind) {
    case 'authorization':
      return [principal.kind]
    case 'header':
      return [principal.kind, principal.name]
    case 'jwt':
      return [principal.kind, principal.claim]
    case 'verified_jwt':
      return [principal.kind, principal.claims, principal.issuer]
  }
}

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
