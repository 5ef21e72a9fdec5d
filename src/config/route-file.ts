/**
 * The routes of the YAML file, with every default filled in.
 *
 * Refuses meaningless combinations: a policy on a route that bypasses, a key in mode `content`. Their author expected
 * an effect.
 */

import { compileRules } from '../core/request/fingerprint.ts'
import { covers, type ProtectedRoute, type Route, type RouteMatch } from '../core/routes/route.ts'
import { defaultRoute, observed } from './builtin-policy.ts'
import type { ConfigError } from './errors.ts'
import { bodySelection, type GivenRoute, MOST_ROUTES, ROUTE_SHAPE } from './route-fields.ts'
import type { Settings } from './settings.ts'
import { isMapping, refusedNode, type YamlFile } from './shape.ts'

type Refuse = (...of: Parameters<typeof refusedNode>) => void

/** Undefined if the file has no `routes`: then the built-in policy applies. An empty list protects nothing. */
export function routesFrom(
  file: YamlFile,
  settings: Partial<Settings>,
  errors: ConfigError[],
): readonly Route[] | undefined {
  if (file.routes === undefined) return undefined
  const refuse: Refuse = (...of) => errors.push(refusedNode(...of))
  if (!Array.isArray(file.routes) || file.routes.length > MOST_ROUTES) {
    refuse('routes', file.routes, `a list of at most ${MOST_ROUTES} routes`)
    return []
  }
  const names = new Set<string>()
  reportUnreachable(file.routes, refuse)
  const before: { readonly at: string; readonly name: string; readonly match: RouteMatch }[] = []
  return file.routes.flatMap((node, index) => {
    const at = `routes[${index}]`
    const errorsBefore = errors.length
    const each = ROUTE_SHAPE.read(node, at, (error) => errors.push(error))
    if (each === undefined) return []
    if (each.name !== undefined && names.has(each.name))
      refuse(`${at}.name`, each.name, 'a name that no other route has')
    if (each.name !== undefined) names.add(each.name)
    const route = routeFrom(each, settings as Settings, at, refuse)
    // Of a condition with an error only a part is known, which may match more than its author meant.
    if (route !== undefined && errors.length === errorsBefore) {
      const first = before.find(({ match }) => Object.keys(match).length > 0 && covers(match, route.match))
      if (first !== undefined)
        refuse(
          `${at}.match`,
          route.name,
          'a place before that route, or a condition that it does not have',
          `${first.at}, ${first.name}, matches all of its requests, so that this route is never reached`,
        )
      before.push({ at, name: route.name, match: route.match })
    }
    return route === undefined ? [] : [route]
  })
}

/** No route after one without conditions is ever reached. */
function reportUnreachable(routes: readonly unknown[], refuse: Refuse): void {
  const first = routes.findIndex(
    (route) => isMapping(route) && isMapping(route.match) && Object.keys(route.match).length === 0,
  )
  if (first !== -1 && first !== routes.length - 1)
    refuse(
      `routes[${first}].match`,
      '{}',
      'a condition, or the last place in the list',
      'it matches everything, so that no route behind it is ever reached',
    )
}

const BYPASS_FIELDS: readonly string[] = ['name', 'match', 'mode', 'upstreamTimeout']

function routeFrom(given: GivenRoute, settings: Settings, at: string, refuse: Refuse): Route | undefined {
  const { name, mode } = given
  if (name === undefined || mode === undefined || given.match === undefined) return undefined
  const useless = (member: string, accepts: string) =>
    refuse(`${at}.${member}`, mode, accepts, 'it has no effect in this mode')
  // Present members are complete values; only absent ones are missing.
  const match = given.match as RouteMatch
  if (mode === 'bypass') {
    for (const member of Object.keys(given))
      if (!BYPASS_FIELDS.includes(member)) useless(member, 'mode header, content or both')
    return { name, match, mode, upstreamTimeoutMs: given.upstreamTimeout ?? settings.upstreamTimeoutMs }
  }
  if (mode === 'content' && given.key !== undefined) useless('key', 'mode header or both')
  if (mode === 'content' && given.required !== undefined) useless('required', 'mode header or both')
  if (mode !== 'both' && given.duplicateContent !== undefined) useless('duplicateContent', 'mode both')
  reportContradictions(given, at, refuse)
  const asMode = (of: ProtectedRoute['mode']) =>
    merge(defaultRoute(settings, { name, match, mode: of }), given)
  return mode === 'observe' ? observed(asMode('header'), asMode('content')) : asMode(mode)
}

function reportContradictions(given: GivenRoute, at: string, refuse: Refuse): void {
  const { key, fingerprint } = given
  if (key?.headers !== undefined && key.parts !== undefined)
    refuse(`${at}.key`, 'headers and parts', 'one of them')
  for (const [one, other] of [
    ['include', 'exclude'],
    ['headers', 'ignore'],
  ] as const)
    if (fingerprint?.[one] !== undefined && fingerprint[other] !== undefined)
      refuse(`${at}.fingerprint`, `${one} and ${other}`, 'one of them')
  if (fingerprint !== undefined) {
    const compiled = compileRules({ headers: [], ignore: [], body: bodySelection(fingerprint) })
    if (compiled.kind === 'invalid')
      refuse(`${at}.fingerprint`, compiled.pointer, 'JSON Pointers to parts of the body', compiled.detail)
  }
  const paths = given.match?.paths ?? []
  const named = (parameter: string) =>
    paths.length > 0 &&
    paths.every(({ segments }) => segments.some((one) => one.kind !== 'literal' && one.name === parameter))
  for (const part of [...(key?.parts ?? []), ...(given.entities ?? [])])
    if (part.in === 'path' && !named(part.parameter))
      refuse(at, `{path: ${part.parameter}}`, 'a parameter that every path of this route has')
}

function merge(route: ProtectedRoute, given: GivenRoute): ProtectedRoute {
  const { key, fingerprint, wait } = given
  return {
    ...route,
    ...stated<ProtectedRoute>({
      required: given.required,
      derivedKey: given.derivedKey,
      principal: given.principal,
      leaseMs: given.lease,
      retentionMs: given.retention ?? (route.mode === 'content' ? given.lease : undefined),
      budgetMs: given.budget,
      retryCount: given.retryCount,
      retryDelayMs: given.retryDelay,
      retryJitter: given.retryJitter,
      driftFactor: given.driftFactor,
      onContention: given.onContention,
      onQuorumLoss: given.onQuorumLoss,
      takeover: given.takeover,
      duplicateContent: given.duplicateContent,
      bodyLimitBytes: given.bodyLimit,
      storedResponseLimitBytes: given.storedResponseLimit,
      store: given.store,
      storedHeaders: given.storedHeaders,
      omittedHeaders: given.omittedHeaders,
      bodyStorage: given.bodyStorage,
      redact: given.redact,
      entities: given.entities,
      entityWaitMs: given.entityWait,
      upstreamTimeoutMs: given.upstreamTimeout,
      totalHoldMs: given.totalHold,
    }),
    key: {
      ...route.key,
      // Parts take the place of the default header.
      ...(key?.parts !== undefined && { headers: [] }),
      ...stated<ProtectedRoute['key']>({ ...key }),
    },
    fingerprint: {
      ...route.fingerprint,
      ...stated<ProtectedRoute['fingerprint']>({
        headers: fingerprint?.headers,
        ignore: fingerprint?.ignore,
        body: fingerprint && bodySelection(fingerprint),
      }),
    },
    wait: {
      ...route.wait,
      ...stated<ProtectedRoute['wait']>({ maxMs: wait?.max, maxWaiters: wait?.waiters }),
    },
  }
}

function stated<T>(fields: { readonly [Name in keyof T]?: T[Name] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}
