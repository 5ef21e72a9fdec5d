/**
 * What is accepted and may not be what its author wants: shown by `fencepost config check`, and in the log of each start.
 *
 * A hint refuses nothing, because only the operator knows whether it applies. It says when it does, and what to write instead.
 */

import { printDuration } from '../core/quantity.ts'
import { covers, type ProtectedRoute, policiesOf } from '../core/routes/route.ts'
import type { Config } from './load.ts'
import { SETTINGS } from './settings.ts'

export function hintsFor(
  config: Pick<
    Config,
    | 'routes'
    | 'proxyListen'
    | 'gatewayListen'
    | 'gatewayGrpcListen'
    | 'tlsListeners'
    | 'tlsCert'
    | 'redisNodes'
    | 'redisCa'
    | 'redisCert'
    | 'keyRing'
  >,
): readonly string[] {
  const guarded = config.routes.flatMap((route) => policiesOf(route).slice(0, 1))
  const checks = config.gatewayListen.kind !== 'off' || config.gatewayGrpcListen.kind !== 'off'
  return [
    ...observedOnly(config),
    ...passedByForms(guarded),
    ...(guarded.length === 0 && (checks || config.proxyListen.kind !== 'off') ? [NOTHING_PROTECTED] : []),
    ...(checks ? shortLeases(guarded) : []),
    ...namedInVain(config),
    ...nodesInClearText(config),
    ...notYetEncrypted(config),
  ]
}

/** Right for a while, and easily forgotten after it. */
function observedOnly({ routes }: Pick<Config, 'routes'>): readonly string[] {
  const observed = routes.filter(({ mode }) => mode === 'observe')
  return observed.length === 0
    ? []
    : [
        `${namesOf(observed)}: mode observe protects nothing. Every request is executed, a duplicate too; \`fencepost observe report\` says what protecting them would have done.`,
      ]
}

/** The default names the proxy, and counts on nothing. */
function namedInVain({ tlsListeners, tlsCert }: Pick<Config, 'tlsListeners' | 'tlsCert'>): readonly string[] {
  if (tlsCert !== undefined || tlsListeners.join() === 'proxy') return []
  const { tlsListeners: named, tlsCert: cert, tlsKey: key, requireTls } = SETTINGS
  return [
    `${named.env} names ${tlsListeners.join(', ')}, and without a certificate no listener speaks TLS: tokens and requests cross the network in clear text. Give ${cert.env} and ${key.env}. ${requireTls.env}=on refuses such a start.`,
  ]
}

function nodesInClearText({
  redisNodes,
  redisCa,
  redisCert,
}: Pick<Config, 'redisNodes' | 'redisCa' | 'redisCert'>): readonly string[] {
  const given = redisCert === undefined ? SETTINGS.redisCa : SETTINGS.redisCert
  if (redisCa === undefined && redisCert === undefined) return []
  if (redisNodes.kind === 'remote' && redisNodes.groups.some(({ nodes }) => nodes.some(({ tls }) => tls)))
    return []
  return [`${given.env} is given, and no node of ${SETTINGS.redisNodes.env} is rediss://: it is not used.`]
}

/** Right while sidecars without the file are left, and easily forgotten after them. */
function notYetEncrypted({ keyRing }: Pick<Config, 'keyRing'>): readonly string[] {
  if (keyRing?.ring.writesPlain !== true) return []
  return [
    `${SETTINGS.keyRing.env}: the first line of the file is plain, so outcomes are stored unencrypted, and its keys only read. When every sidecar has the file, make a key the first line (docs/operations/deploy.md).`,
  ]
}

const NOTHING_PROTECTED =
  'routes: none of them protects a request, so all pass through. Add one of mode header, content or both, or leave routes out: then POST and PATCH are protected.'

/** No body is read to find a route: what else overrides a method is in `core/routes/path-pattern.ts`. */
function passedByForms(routes: readonly ProtectedRoute[]): readonly string[] {
  const passed = routes.filter(({ match }) => {
    const asForm = { ...match, methods: ['POST'] }
    return (
      match.methods?.some((method) => FORM_METHODS.has(method)) === true &&
      !routes.some((other) => covers(other.match, asForm))
    )
  })
  if (passed.length === 0) return []
  return [
    `${namesOf(passed)}: a form that is posted with a field _method (Rails, Laravel, Symfony) is executed by an application that reads it, and does not match without POST. Where the application does, add POST to the methods.`,
  ]
}

const FORM_METHODS: ReadonlySet<string> = new Set(['PUT', 'PATCH', 'DELETE'])

/** The claim of a gateway's check is renewed by nobody. */
function shortLeases(routes: readonly ProtectedRoute[]): readonly string[] {
  return routes
    .filter(({ leaseMs, upstreamTimeoutMs }) => leaseMs < upstreamTimeoutMs)
    .map(
      (route) =>
        `${namesOf([route])}: the lease is ${printDuration(route.leaseMs)}, and the application may take ${printDuration(route.upstreamTimeoutMs)}. Nobody renews the claim of a gateway's check (ext_proc does): where it ends first, a retry is executed a second time. Make the lease 2 to 3 times the p99 of the processing, and the round trip and drift besides (docs/operations/capacity.md).`,
    )
}

/** The first of many: a warning that fills the screen is not read. */
const NAMES_SHOWN = 5

function namesOf(routes: readonly { readonly name: string }[]): string {
  const shown = routes.slice(0, NAMES_SHOWN).map(({ name }) => name)
  const more = routes.length - shown.length
  return `${routes.length === 1 ? 'route' : 'routes'} ${shown.join(', ')}${more === 0 ? '' : ` and ${more} more`}`
}
