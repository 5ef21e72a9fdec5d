/**
 * Trusted peers: they may state on whose behalf a request is made, and its origin.
 *
 * Owns the test of one address. A peer on a Unix socket has none, and is trusted: the file system controls who can connect.
 */

import { BlockList, isIP } from 'node:net'
import { readName } from '../../core/formats/header-lines.ts'
import { isForwarding } from '../message/headers.ts'

/** The same as the setting's (`config/networks.ts`). */
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
export function statesOrigin(scopeHeaders: readonly string[]): (name: string) => boolean {
  const names = new Set(scopeHeaders.map(readName))
  return (name) => {
    const read = readName(name)
    return names.has(read) || isForwarding(read)
  }
}
