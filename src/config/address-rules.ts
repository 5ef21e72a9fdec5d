/**
 * What the addresses of a configuration must not be: in clear text beyond this machine while `FENCEPOST_REQUIRE_TLS` is on, the same for
 * two listeners, or our own as that of the application.
 *
 * Judges what the settings say: no name but `localhost` is resolved, and it can't see what a mesh, a tunnel or a forwarded port does with
 * the bytes. What it can't judge it refuses. A refused value is skipped: it has an error of its own.
 */

import { isIPv4 } from 'node:net'
import { isLoopback, type ListenAddress, nameOfNode, withoutBrackets } from './addresses.ts'
import type { ConfigError } from './errors.ts'
import type { ListenerName } from './lists.ts'
import { SETTINGS, type SettingKey, type Settings } from './settings.ts'

export function clearText(settings: Partial<Settings>): readonly ConfigError[] {
  // Tokens that decide about payments never cross a network in clear text.
  if (settings.requireTls !== true) return listeners(settings, OPERATOR, SETTINGS.operatorListen.env)
  return [
    ...nodes(settings),
    ...listeners(settings, [...LISTENERS, ...OPERATOR], SETTINGS.requireTls.env),
    ...application(settings),
  ]
}

function nodes({ redisNodes }: Partial<Settings>): readonly ConfigError[] {
  if (redisNodes?.kind !== 'remote') return []
  const open = redisNodes.groups
    .flatMap((group) => group.nodes)
    .filter(({ tls, host }) => !tls && !isLoopback(host))
    .map((node) => `redis://${nameOfNode(node)}`)
  return open.length === 0 ? [] : [fault('redisNodes', open.join(', '), 'write rediss:// for each of them')]
}

type Listeners = readonly (readonly [SettingKey, ListenerName])[]

/** gRPC for gateways takes its TLS from the gateway listener. */
const LISTENERS = [
  ['proxyListen', 'proxy'],
  ['apiListen', 'api'],
  ['gatewayListen', 'gateway'],
  ['gatewayGrpcListen', 'gateway'],
  ['adminListen', 'admin'],
] as const satisfies Listeners

const OPERATOR = [['operatorListen', 'operator']] as const satisfies Listeners

function listeners(
  settings: Partial<Settings>,
  among: readonly (typeof LISTENERS | typeof OPERATOR)[number][],
  refusedBy: string,
): readonly ConfigError[] {
  const { tlsListeners } = settings
  if (tlsListeners === undefined) return []
  // One without the other has an error of its own, and so has a file that can't be read.
  const isCertified = 'tlsCert' in settings || 'tlsKey' in settings
  return among.flatMap(([key, name]) => {
    const at: ListenAddress | undefined = settings[key]
    if (at?.kind !== 'tcp' || isLoopback(at.host)) return []
    const missing = [
      ...(tlsListeners.includes(name) ? [] : [`add ${name} to ${SETTINGS.tlsListeners.env}`]),
      ...(isCertified ? [] : [`give ${SETTINGS.tlsCert.env} and ${SETTINGS.tlsKey.env}`]),
    ]
    if (missing.length === 0) return []
    const instead = `write 127.0.0.1:${at.port}, or ${missing.join(' and ')}`
    return [fault(key, SETTINGS[key].kind.print(at), instead, refusedBy)]
  })
}

/** Also what is asked about orphans: `coordination.settlePath` is a path of the same address. */
function application({ upstream, proxyListen }: Partial<Settings>): readonly ConfigError[] {
  // Only the proxy connects to it.
  if (proxyListen?.kind === 'off' || upstream?.kind !== 'http') return []
  const { protocol, host, hostname } = new URL(upstream.origin)
  if (protocol === 'https:' || isLoopback(withoutBrackets(hostname))) return []
  const instead = `write https://${host}, or the address of an application on this machine`
  return [fault('upstream', upstream.origin, instead)]
}

function fault(
  key: SettingKey,
  speaks: string,
  instead: string,
  refusedBy: string = SETTINGS.requireTls.env,
): ConfigError {
  return { kind: 'clear-text', name: SETTINGS[key].env, speaks, refusedBy, instead }
}

const ADDRESSES = [...LISTENERS, ...OPERATOR].map(([key]) => key)

/** A request would come back to us, until its head is too long, and a protected one would wait for itself. */
export function ownAddress(settings: Partial<Settings>): readonly ConfigError[] {
  const { upstream } = settings
  if (upstream?.kind !== 'http' || settings.proxyListen?.kind === 'off') return []
  const { hostname, protocol, port } = new URL(upstream.origin)
  const host = withoutBrackets(hostname)
  const number = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  return ADDRESSES.flatMap((key): ConfigError[] => {
    const at = settings[key]
    if (at?.kind !== 'tcp' || at.port !== number || at.port === 0 || !isListenedOn(host, at.host)) return []
    const inequality = `address (${upstream.origin}) ≠ where fencepost itself listens (${SETTINGS[key].kind.print(at)}, ${SETTINGS[key].env})`
    const reason = 'each request would come back to it; give the address of the application'
    return [{ kind: 'relation', name: SETTINGS.upstream.env, inequality, reason }]
  })
}

/** For certain: two addresses of the loopback are two, and no name but `localhost` is resolved. */
function isListenedOn(host: string, listening: string): boolean {
  if (host === listening) return true
  if (!isLoopback(host)) return false
  if (listening === '::' || (listening === '0.0.0.0' && host !== '::1')) return true
  return isLoopback(listening) && [host, listening].includes('localhost')
}

/** The second of them would find its address taken, and the start fail with what the kernel says of it. */
export function sharedAddresses(settings: Partial<Settings>): readonly ConfigError[] {
  return ADDRESSES.flatMap((key, index): ConfigError[] => {
    const { env: name, kind } = SETTINGS[key]
    const at = settings[key]
    if (at === undefined) return []
    const other = ADDRESSES.slice(0, index).find((before) => isTakenBy(at, settings[before]))
    if (other === undefined) return []
    const inequality = `address (${kind.print(at)}) ≠ ${SETTINGS[other].env} (${kind.print(settings[other]!)})`
    return [{ kind: 'relation', name, inequality, reason: 'two listeners need two addresses' }]
  })
}

/** For certain: a name may be any address. Port 0 is another free one each time. */
function isTakenBy(at: ListenAddress, other: ListenAddress | undefined): boolean {
  if (at.kind === 'unix') return other?.kind === 'unix' && other.path === at.path
  if (at.kind !== 'tcp' || other?.kind !== 'tcp' || at.port !== other.port || at.port === 0) return false
  return (
    at.host === other.host ||
    [at, other].some(({ host }) => host === '::') ||
    isListenedOn(at.host, other.host) ||
    isListenedOn(other.host, at.host) ||
    ([at, other].every(({ host }) => isIPv4(host)) && [at, other].some(({ host }) => host === '0.0.0.0'))
  )
}
