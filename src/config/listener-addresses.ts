/**
 * Addresses that fencepost listens on, beside each other and beside that of the application: each of them for one purpose.
 *
 * Judges what the settings say: no name but `localhost` is resolved. A refused value is skipped: it has an error of its own.
 */

import { isIPv4 } from 'node:net'
import { isLoopback, type ListenAddress, withoutBrackets } from './addresses.ts'
import type { ConfigError } from './errors.ts'
import { SETTINGS, type SettingKey, type Settings } from './settings.ts'

const LISTENERS = [
  'proxyListen',
  'apiListen',
  'gatewayListen',
  'gatewayGrpcListen',
  'adminListen',
  'operatorListen',
] as const satisfies readonly SettingKey[]

/** A request would come back to us, until its head is too long, and a protected one would wait for itself. */
export function ownAddress(settings: Partial<Settings>): readonly ConfigError[] {
  const { upstream } = settings
  if (upstream?.kind !== 'http' || settings.proxyListen?.kind === 'off') return []
  const { hostname, protocol, port } = new URL(upstream.origin)
  const host = withoutBrackets(hostname)
  const number = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  return LISTENERS.flatMap((key): ConfigError[] => {
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
  return LISTENERS.flatMap((key, index): ConfigError[] => {
    const { env: name, kind } = SETTINGS[key]
    const at = settings[key]
    if (at === undefined) return []
    const other = LISTENERS.slice(0, index).find((before) => isTakenBy(at, settings[before]))
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
