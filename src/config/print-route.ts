/**
 * A route in the notation of the YAML file, every value written out: `routesFrom` reads it back as the same route.
 */

import { printDuration, printSize } from '../core/quantity.ts'
import type { KeyPart, ProtectedRoute, Route } from '../core/routes/route.ts'
import { printedPrincipal } from './principal.ts'

export type PrintedRoute = Readonly<Record<string, unknown>>

export function printedRoute(route: Route): PrintedRoute {
  const frame = { name: route.name, match: printedMatch(route), mode: route.mode }
  if (route.mode === 'bypass') return { ...frame, upstreamTimeout: printDuration(route.upstreamTimeoutMs) }
  if (route.mode !== 'observe') return { ...frame, ...printedPolicies(route) }
  const { as, withoutKey } = route
  // The mode is FENCEPOST_MODE, which is printed with the settings.
  if (withoutKey === undefined) return printedRoute(as)
  const { retention, ...rest } = printedPolicies(as)
  // Where the file does not say it, it is another one for requests without a key.
  return { ...frame, ...rest, ...(as.retentionMs === withoutKey.retentionMs ? { retention } : {}) }
}

function printedMatch({ match }: Route): PrintedRoute {
  const headers = match.headers?.map((one) => [
    one.name,
    'value' in one ? { [one.kind]: one.value } : one.kind,
  ])
  return {
    ...(match.methods === undefined ? {} : { methods: match.methods }),
    ...(match.hosts === undefined ? {} : { hosts: match.hosts }),
    ...(match.paths === undefined ? {} : { paths: match.paths.map(({ text }) => text) }),
    ...(headers === undefined ? {} : { headers: Object.fromEntries(headers) }),
    ...(match.body === undefined ? {} : { body: match.body }),
  }
}

function printedPolicies(route: ProtectedRoute): PrintedRoute {
  const { key, fingerprint, principal } = route
  const { headers, parts, ...form } = key
  return {
    ...(route.mode === 'content'
      ? {}
      : {
          required: route.required,
          key: { ...(parts.length === 0 ? { headers } : { parts: parts.map(printedPart) }), ...form },
        }),
    derivedKey: route.derivedKey,
    fingerprint: {
      ...(fingerprint.headers === 'all' ? { ignore: fingerprint.ignore } : { headers: fingerprint.headers }),
      ...(fingerprint.body.kind === 'all' ? {} : { [fingerprint.body.kind]: fingerprint.body.pointers }),
    },
    principal: printedPrincipal(principal, printDuration),
    lease: printDuration(route.leaseMs),
    retention: printDuration(route.retentionMs),
    budget: printDuration(route.budgetMs),
    retryCount: route.retryCount,
    retryDelay: printDuration(route.retryDelayMs),
    retryJitter: route.retryJitter,
    driftFactor: route.driftFactor,
    onContention: route.onContention,
    wait: { max: printDuration(route.wait.maxMs), waiters: route.wait.maxWaiters },
    onQuorumLoss: route.onQuorumLoss,
    takeover: route.takeover,
    ...(route.mode === 'both' ? { duplicateContent: route.duplicateContent } : {}),
    bodyLimit: printSize(route.bodyLimitBytes),
    storedResponseLimit: printSize(route.storedResponseLimitBytes),
    store: route.store,
    storedHeaders: route.storedHeaders,
    omittedHeaders: route.omittedHeaders,
    bodyStorage: route.bodyStorage,
    redact: route.redact,
    entities: route.entities.map(printedPart),
    entityWait: printDuration(route.entityWaitMs),
    upstreamTimeout: printDuration(route.upstreamTimeoutMs),
    totalHold: printDuration(route.totalHoldMs),
  }
}

function printedPart(part: KeyPart): PrintedRoute {
  switch (part.in) {
    case 'header':
      return { header: part.name }
    case 'query':
      return { query: part.name }
    case 'body':
      return { body: part.pointer }
    case 'path':
      return { path: part.parameter }
  }
}
