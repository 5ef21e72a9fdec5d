/**
 * What would speak in clear text beyond this machine: each of it is an error while `FENCEPOST_REQUIRE_TLS` is on.
 *
 * Owns the rule for every kind of setting that opens or accepts connections. It judges what the settings say: it resolves
 * no name, and can't see what a mesh, a tunnel or a forwarded port does with the bytes. What it can't judge it refuses. A
 * refused value is skipped: it has an error of its own.
 */

import { isLoopback, type ListenAddress, nameOfNode, withoutBrackets } from './addresses.ts'
import type { ConfigError } from './errors.ts'
import type { ListenerName } from './listeners.ts'
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
