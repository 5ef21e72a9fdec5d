/**
 * Sets of peers, written as addresses and CIDR blocks.
 *
 * Owns their notation. `http/request/arrival.ts` tests whether a peer belongs to a set.
 */

import { isIP } from 'node:net'
import { listedSchema } from './listed.ts'
import { type Parsed, refused, type ValueKind, value } from './value.ts'

type Block = { readonly address: string; readonly prefix: number; readonly family: 'ipv4' | 'ipv6' }

export type Peers = { readonly kind: 'any' } | { readonly kind: 'blocks'; readonly blocks: readonly Block[] }

const MOST_BLOCKS = 1_000

export function peers(): ValueKind<Peers> {
  return {
    accepts: `any, none, or up to ${MOST_BLOCKS} addresses and CIDR blocks separated by commas, such as 10.0.0.0/8,::1`,
    parse,
    print: (of) => {
      if (of.kind === 'any') return 'any'
      return of.blocks.length === 0
        ? 'none'
        : of.blocks.map(({ address, prefix }) => `${address}/${prefix}`).join(',')
    },
    yaml: 'list',
    schema: listedSchema('[0-9a-fA-F:.]*[:.][0-9a-fA-F:.]*(/[0-9]{1,3})?', { min: 1, max: MOST_BLOCKS }, [
      'any',
      'none',
    ]),
  }
}

function parse(text: string): Parsed<Peers> {
  if (text === 'any') return value({ kind: 'any' })
  if (text === 'none') return value({ kind: 'blocks', blocks: [] })
  const blocks: Block[] = []
  for (const entry of text.split(',')) {
    const block = blockOf(entry.trim())
    if (block === undefined) return refused(`"${entry.trim()}" is neither an address nor a CIDR block`)
    blocks.push(block)
  }
  return blocks.length > MOST_BLOCKS ? refused(`${blocks.length} given`) : value({ kind: 'blocks', blocks })
}

function blockOf(text: string): Block | undefined {
  const [, address = '', digits] = /^([0-9a-fA-F:.]+)(?:\/([0-9]{1,3}))?$/.exec(text) ?? []
  const version = isIP(address)
  if (version === 0) return undefined
  const bits = version === 4 ? 32 : 128
  const prefix = digits === undefined ? bits : Number(digits)
  return prefix > bits ? undefined : { address, prefix, family: version === 4 ? 'ipv4' : 'ipv6' }
}
