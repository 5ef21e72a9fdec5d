/**
 * What a request is when it arrives: admitted or refused, with the headers that its peer may set, and its route.
 *
 * Owns the order of the three: framing and target first (`admission.ts`), then headers that an untrusted peer may not set are
 * removed, and only what is left selects a route and an identity.
 */

import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { readName } from '../../core/header-list.ts'
import { matchRoute, protects, type Route, type RouteMatchResult } from '../../core/routes/route.ts'
import { headerPairs, isForwarding } from '../message/headers.ts'
import { type Admission, ALWAYS_END_TO_END, admit, type RawRequest } from './admission.ts'
import type { ScopeRules } from './identify.ts'

export type Arrived = { readonly admission: Admission; readonly matched?: RouteMatchResult }

type ArrivalRules = {
  readonly routes: readonly Route[]
  readonly scope: ScopeRules
  /** Peers whose headers of tenant, version, client and origin count. */
  readonly trustedPeers: Peers
  readonly limits: { readonly headerLinesMax: number }
}

export function createArrival(options: ArrivalRules): (req: IncomingMessage) => Arrived {
  const { routes, scope } = options
  const rules = { headerLinesMax: options.limits.headerLinesMax, endToEnd: endToEndHeaders(options) }
  const trusts = trustedPeers(options.trustedPeers)
  const isClaim = statesOrigin([scope.tenantHeader, scope.versionHeader, scope.clientHeader])

  return (req) => {
    const sent = admit(rawOf(req), rules)
    if (sent.kind !== 'admitted') return { admission: sent }
    const believed = trusts(req.socket.remoteAddress)
    const { request } = sent
    const admission: Extract<Admission, { kind: 'admitted' }> = believed
      ? sent
      : {
          kind: 'admitted',
          request: {
            ...request,
            headers: request.headers.filter(([name]) => !isClaim(name)),
            untrusted: true,
          },
        }
    const matched = matchRoute(routes, admission.request)
    return matched === undefined ? { admission } : { admission, matched }
  }
}

/** The head as received. Once the listener's `rewriteUrl` has replaced the target, Fastify keeps it as `originalUrl`. */
export function rawOf(req: IncomingMessage): RawRequest {
  const { originalUrl } = req as IncomingMessage & { readonly originalUrl?: string }
  return {
    method: req.method ?? '',
    target: originalUrl ?? req.url ?? '',
    httpVersion: req.httpVersion,
    headers: headerPairs(req.rawHeaders),
  }
}

/** Headers that decide what a request is: `Connection` may not name them. */
export function endToEndHeaders({
  routes,
  scope,
}: Pick<ArrivalRules, 'routes' | 'scope'>): ReadonlySet<string> {
  const names = routes.flatMap((route) => {
    const predicates = (route.match.headers ?? []).map((predicate) => predicate.name)
    if (!protects(route)) return predicates
    const principal = route.principal.kind === 'header' ? [route.principal.name] : []
    const parts = [...route.key.parts, ...route.entities].flatMap((part) =>
      part.in === 'header' ? [part.name] : [],
    )
    return [...predicates, ...route.key.headers, ...parts, ...principal, ...route.fingerprint.headers]
  })
  const { tenantHeader, versionHeader, clientHeader } = scope
  return new Set([...ALWAYS_END_TO_END, tenantHeader, versionHeader, clientHeader, ...names])
}

/** The same as the setting's (`config/lists.ts`). */
export type Peers =
  | { readonly kind: 'any' }
  | {
      readonly kind: 'blocks'
      readonly blocks: readonly {
        readonly address: string
        readonly prefix: number
        readonly family: 'ipv4' | 'ipv6'
      }[]
    }

/** Trusted peers state for whom a request is made, and its origin. One on a Unix socket is trusted: the file system controls who connects. */
export function trustedPeers(peers: Peers): (address: string | undefined) => boolean {
  if (peers.kind === 'any') return () => true
  const list = new BlockList()
  for (const { address, prefix, family } of peers.blocks) list.addSubnet(address, prefix, family)
  return (address) => {
    if (address === undefined) return true
    // Node knows that ::ffff:10.0.0.1 is 10.0.0.1; a zone (fe80::1%eth0) is not part of the address.
    const plain = address.replace(/%.*$/, '')
    return isIP(plain) !== 0 && list.check(plain, isIP(plain) === 4 ? 'ipv4' : 'ipv6')
  }
}

/** Whether a header, by its name, states tenant, version or client (`scopeHeaders`) or origin. */
function statesOrigin(scopeHeaders: readonly string[]): (name: string) => boolean {
  const names = new Set(scopeHeaders.map(readName))
  return (name) => {
    const read = readName(name)
    return names.has(read) || isForwarding(read)
  }
}
