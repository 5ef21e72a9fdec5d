/**
 * An accepted configuration in the operator's notation: settings, each value with its origin, secrets masked; routes as in the YAML file,
 * every value written out, so that `routesFrom` reads them back as the same routes; and routes that enforce what was observed.
 */

import { stringify } from 'yaml'
import type { ObservedRow } from '../core/health/observations.ts'
import { printDuration, printSize } from '../core/quantity.ts'
import type { KeyPart, ObservedRoute, ProtectedRoute, Route } from '../core/routes/route.ts'
import { defaultRoute } from './builtin-policy.ts'
import type { LoadedConfig, Origin } from './load.ts'
import { printedPrincipal } from './principal.ts'
import { rowOf, SETTING_KEYS, type Settings } from './settings.ts'

type PrintedSetting = {
  readonly name: string
  readonly path: string
  /** Undefined: not set, and without a default. */
  readonly value?: string
  readonly origin: Origin
}

type PrintedConfig = {
  readonly settings: readonly PrintedSetting[]
  readonly routes: { readonly origin: Origin; readonly routes: readonly PrintedRoute[] }
}

export function printedConfig({ config, origins }: LoadedConfig & { readonly kind: 'ok' }): PrintedConfig {
  const settings = SETTING_KEYS.map((key): PrintedSetting => {
    const { env, path, kind } = rowOf(key)
    const value: unknown = config[key]
    return {
      name: env,
      path,
      ...(value === undefined ? {} : { value: kind.print(value) }),
      origin: origins[key],
    }
  })
  return { settings, routes: { origin: origins.routes, routes: config.routes.map(printedRoute) } }
}

/** One line per setting, then the routes as YAML. */
export function textOfConfig({ settings, routes }: PrintedConfig): string {
  const nameWidth = Math.max(...settings.map(({ name }) => name.length))
  const originWidth = Math.max(...settings.map(({ origin }) => origin.length))
  const lines = settings.map(
    ({ name, origin, value }) =>
      `${name.padEnd(nameWidth)}  ${origin.padEnd(originWidth)}  ${value ?? '(not set)'}\n`,
  )
  const head = `\n# Routes, the first match decides (from ${routes.origin}); other requests pass through untouched.\n`
  return `${lines.join('')}${head}${textOfRoutes(routes.routes)}`
}

/** In the form of the file. */
export function textOfRoutes(routes: readonly PrintedRoute[]): string {
  return stringify({ routes }, { lineWidth: 0, aliasDuplicateObjects: false })
}

type PrintedRoute = Readonly<Record<string, unknown>>

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

/** Where the mode was `observe`, the one that suits what was sent. A route of which nothing was seen stays in observation. */
export function enforcingRoutes(
  routes: readonly Route[],
  settings: Settings,
  seen: readonly ObservedRow[],
): readonly PrintedRoute[] {
  return routes.flatMap((route) => {
    if (route.mode !== 'observe') return [concise(route, settings)]
    return route.withoutKey === undefined
      ? [concise(route.as, settings)]
      : chosen(route, route.withoutKey, settings, seen)
  })
}

function chosen(
  route: ObservedRoute,
  withoutKey: ProtectedRoute,
  settings: Settings,
  seen: readonly ObservedRow[],
): readonly PrintedRoute[] {
  const sent = (by: ObservedRow['by']) => seen.some((row) => row.route === route.name && row.by === by)
  const { as } = route
  const [keyed, unkeyed] = [sent('key'), sent('content')]
  if (!keyed) return [unkeyed ? concise(withoutKey, settings) : { ...concise(as, settings), mode: 'observe' }]
  const { headers, parts } = as.key
  const [header] = headers
  // Only a header tells before the body is read whether there is a key.
  if (!unkeyed || header === undefined || headers.length > 1 || parts.length > 0)
    return [concise(as, settings)]
  const predicates = [...(route.match.headers ?? []), { kind: 'present', name: header } as const]
  return [
    concise({ ...as, match: { ...route.match, headers: predicates } }, settings),
    concise({ ...withoutKey, name: `${route.name}-by-content` }, settings),
  ]
}

/** Without what is the default of every route. */
function concise(route: Exclude<Route, ObservedRoute>, settings: Settings): PrintedRoute {
  const { name, match, mode } = route
  const usual =
    mode === 'bypass'
      ? printedRoute({ name, match, mode, upstreamTimeoutMs: settings.upstreamTimeoutMs })
      : printedRoute(defaultRoute(settings, { name, match, mode }))
  const always = ['name', 'match', 'mode']
  const differs = Object.entries(printedRoute(route)).filter(
    ([member, value]) => always.includes(member) || JSON.stringify(value) !== JSON.stringify(usual[member]),
  )
  return Object.fromEntries(differs)
}
