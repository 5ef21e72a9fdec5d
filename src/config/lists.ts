/**
 * Settings that are lists, written as one text, separated by commas, or as a list of the file: peers, origins of pages, listeners.
 *
 * Owns their notation. `http/request/arrival.ts` tests whether a peer belongs to a set; an origin is character for character what a
 * browser sends, because that is what it is compared with.
 */

import { isIP } from 'node:net'
import { type Parsed, refused, type ValueKind, value } from './value.ts'

/**
 * @param entry a regular expression that Go reads, too: Helm validates by the same schema
 * @param words that stand for a whole list
 */
export function listedSchema(
  entry: string,
  limits: { readonly min: number; readonly max: number },
  words: readonly string[] = [],
): Readonly<Record<string, unknown>> {
  const one = [...words, entry].join('|')
  return {
    anyOf: [
      { type: 'string', pattern: `^\\s*(${one})(\\s*,\\s*(${entry}))*\\s*$` },
      {
        type: 'array',
        items: { type: 'string', pattern: `^\\s*(${one})\\s*$` },
        minItems: limits.min,
        maxItems: limits.max,
      },
    ],
  }
}

type Block = { readonly address: string; readonly prefix: number; readonly family: 'ipv4' | 'ipv6' }

type Peers = { readonly kind: 'any' } | { readonly kind: 'blocks'; readonly blocks: readonly Block[] }

const MOST_BLOCKS = 1_000

export function peers(): ValueKind<Peers> {
  return {
    accepts: `any, none, or up to ${MOST_BLOCKS} addresses and CIDR blocks separated by commas, such as 10.0.0.0/8,::1`,
    parse: parsePeers,
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

function parsePeers(text: string): Parsed<Peers> {
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

const MOST_ORIGINS = 100
/** Also of applications in a shell of their own: `capacitor://localhost`. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@,\s]+$/

export function pageOrigins(): ValueKind<readonly string[]> {
  return {
    accepts: `none, or up to ${MOST_ORIGINS} origins separated by commas, such as https://shop.example,https://app.example:8443`,
    parse: parseOrigins,
    print: (origins) => (origins.length === 0 ? 'none' : origins.join(',')),
    yaml: 'list',
    schema: listedSchema(ORIGIN.source.slice(1, -1), { min: 1, max: MOST_ORIGINS }, ['none']),
  }
}

function parseOrigins(text: string): Parsed<readonly string[]> {
  if (text === 'none') return value([])
  const origins = text.split(',').map((entry) => entry.trim())
  for (const origin of origins) {
    const fault = faultOfOrigin(origin)
    if (fault !== undefined) return refused(`"${origin}" ${fault}`)
  }
  return origins.length > MOST_ORIGINS ? refused(`${origins.length} given`) : value(origins)
}

function faultOfOrigin(origin: string): string | undefined {
  if (origin === '*') return 'is every page there is; name those that may read'
  const sent = originOf(origin)
  if (sent !== undefined && sent !== origin) return `is not as a browser sends it, which is ${sent}`
  return ORIGIN.test(origin) ? undefined : 'is no origin'
}

/** Undefined for what is none, and for schemes of which only their owner knows. */
function originOf(text: string): string | undefined {
  if (!/^https?:/i.test(text)) return undefined
  try {
    return new URL(text).origin
  } catch {
    return undefined
  }
}

const LISTENERS = ['proxy', 'api', 'gateway', 'admin', 'operator'] as const

const ONE = LISTENERS.join('|')

export type ListenerName = (typeof LISTENERS)[number]

export function listeners(): ValueKind<readonly ListenerName[]> {
  return {
    accepts: `some of ${LISTENERS.join(', ')}, separated by commas, each once`,
    parse: (text) => {
      const names = text.split(',').map((name) => name.trim())
      const known = LISTENERS.filter((name) => names.includes(name))
      return known.length === names.length ? value(known) : refused()
    },
    print: (names) => names.join(','),
    yaml: 'list',
    schema: {
      anyOf: [
        { type: 'string', pattern: `^\\s*(${ONE})(\\s*,\\s*(${ONE}))*\\s*$` },
        {
          type: 'array',
          items: { type: 'string', enum: LISTENERS },
          minItems: 1,
          maxItems: LISTENERS.length,
          uniqueItems: true,
        },
      ],
    },
  }
}
