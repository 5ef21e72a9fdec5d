/**
 * Addresses: of our listeners, of the application, of the nodes.
 *
 * Owns their notation, and that a password in them is never shown. Nothing here opens a connection.
 */

import { isIPv4 } from 'node:net'
import { listedSchema } from './lists.ts'
import { type Parsed, refused, type ValueKind, value } from './value.ts'

export type ListenAddress =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'off' }

export type UpstreamAddress =
  /** `http://127.0.0.1:3000`, without a slash at the end. */
  { readonly kind: 'http'; readonly origin: string } | { readonly kind: 'unix'; readonly path: string }

export type RedisAddress = {
  readonly host: string
  readonly port: number
  readonly tls: boolean
  readonly database: number
  readonly username?: string
  readonly password?: string
}

/** One whole quorum. The only group may have an empty name. */
export type RedisGroup = { readonly name: string; readonly nodes: readonly RedisAddress[] }

export type RedisNodes =
  /** Inside this process: for a first run and for tests; no record outlives it. */
  | { readonly kind: 'embedded' }
  /** All groups have the same number of nodes; several have different names. */
  | { readonly kind: 'remote'; readonly groups: readonly RedisGroup[] }

const UNIX = /^unix:(\/[^\0\s]+)$/
const HOST_PORT = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):([0-9]{1,5})$/
const LARGEST_PORT = 65_535

export function listenAddress(): ValueKind<ListenAddress> {
  return {
    accepts: 'host:port, [IPv6]:port, unix:/path or off',
    parse: parseListenAddress,
    print: (address) => {
      switch (address.kind) {
        case 'tcp':
          return nameOfNode(address)
        case 'unix':
          return `unix:${address.path}`
        case 'off':
          return 'off'
      }
    },
    yaml: 'text',
    schema: { type: 'string', pattern: `^(off|unix:/\\S+|${HOST_PORT.source.slice(1, -1)})$` },
  }
}

function parseListenAddress(text: string): Parsed<ListenAddress> {
  if (text === 'off') return value({ kind: 'off' })
  const unix = UNIX.exec(text)
  if (unix !== null) return value({ kind: 'unix', path: unix[1]! })
  const tcp = HOST_PORT.exec(text)
  if (tcp === null || Number(tcp[2]) > LARGEST_PORT) return refused()
  return value({ kind: 'tcp', host: withoutBrackets(tcp[1]!), port: Number(tcp[2]) })
}

/** An IPv6 address as sockets take it: a URL has it in brackets. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}

/** Whether a host is this machine for certain. No name is resolved, so `localhost` is the only one that is. */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

export function upstreamAddress(): ValueKind<UpstreamAddress> {
  return {
    accepts: 'http://host:port or https://host:port without path, query and password, or unix:/path',
    parse: parseUpstream,
    print: (address) => (address.kind === 'unix' ? `unix:${address.path}` : address.origin),
    mask: maskPasswords,
    yaml: 'text',
    schema: { type: 'string', pattern: '^(https?://[^/?#@\\s]+/?|unix:/\\S+)$' },
  }
}

function parseUpstream(text: string): Parsed<UpstreamAddress> {
  const unix = UNIX.exec(text)
  if (unix !== null) return value({ kind: 'unix', path: unix[1]! })
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) return refused()
  if (url.username !== '' || url.password !== '') return refused('it contains a user or a password')
  // A request's target is the client's path alone: a path here would have to be joined with it.
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '' || /[?#]$/.test(text))
    return refused('it contains a path, a query or a fragment')
  return value({ kind: 'http', origin: url.origin })
}

const FEWEST_NODES = 3
const MOST_NODES = 9
/** Each node of each group costs every sidecar a connection and up to 20 series of metrics. */
const MOST_GROUPS = 4

const ONE_NODE = { type: 'string', pattern: '^rediss?://' }
const ODD_NUMBERS = [FEWEST_NODES, 5, 7, MOST_NODES]
const ONE_GROUP = {
  anyOf: ODD_NUMBERS.map((count) => ({ type: 'array', items: ONE_NODE, minItems: count, maxItems: count })),
}

export function redisNodes(): ValueKind<RedisNodes> {
  return {
    accepts: `${FEWEST_NODES} to ${MOST_NODES} redis:// or rediss:// URLs of different servers, an odd number of them, separated by commas; or 2 to ${MOST_GROUPS} groups of as many each, name=URL,URL,URL separated by semicolons; or embedded`,
    parse: parseRedisNodes,
    print: printRedisNodes,
    mask: maskPasswords,
    yaml: 'groups',
    schema: {
      anyOf: [
        { const: 'embedded' },
        { type: 'string', pattern: '^([a-z0-9-]+=)?rediss?://' },
        ONE_GROUP,
        {
          type: 'object',
          propertyNames: { pattern: GROUP_NAME.source },
          additionalProperties: ONE_GROUP,
          minProperties: 1,
          maxProperties: MOST_GROUPS,
        },
      ],
    },
  }
}

/** Like a host name: it appears in metrics, in logs and on the nodes, and decides which identities the group gets. */
const GROUP_NAME = /^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/

/** A password may contain a semicolon, so that one ends a group only before another group. */
const NEXT_GROUP = /;(?=\s*(?:[^\s=;,@/:]*=|rediss?:\/\/))/

function parseRedisNodes(text: string): Parsed<RedisNodes> {
  if (text === 'embedded') return value({ kind: 'embedded' })
  const groups: RedisGroup[] = []
  const parts = text.split(NEXT_GROUP)
  for (const part of parts) {
    const [, name = '', urls = ''] = /^\s*(?:([^=,@/:]*)=)?(.*)$/s.exec(part) ?? []
    if ((parts.length > 1 || name !== '') && !GROUP_NAME.test(name))
      return refused(
        `group ${groups.length + 1} of ${parts.length} has no name of 1 to 32 letters a-z, digits and -`,
      )
    const where = parts.length > 1 ? `group ${name}, ` : ''
    const nodes = parseGroup(urls)
    if (typeof nodes === 'string') return refused(where + nodes)
    groups.push({ name, nodes })
  }
  const wrong = whyNotTogether(groups)
  return wrong === undefined ? value({ kind: 'remote', groups }) : refused(wrong)
}

function parseGroup(text: string): readonly RedisAddress[] | string {
  const nodes: RedisAddress[] = []
  const entries = text.split(',')
  for (const [index, entry] of entries.entries()) {
    const address = parseRedisUrl(entry.trim())
    if (typeof address === 'string') return `entry ${index + 1} of ${entries.length}: ${address}`
    nodes.push(address)
  }
  const odd = nodes.length % 2 === 1
  return odd && nodes.length >= FEWEST_NODES && nodes.length <= MOST_NODES ? nodes : `${nodes.length} given`
}

function whyNotTogether(groups: readonly RedisGroup[]): string | undefined {
  if (groups.length > MOST_GROUPS) return `${groups.length} groups given, at most ${MOST_GROUPS}`
  const names = groups.map(({ name }) => name)
  const same = names.find((name, index) => names.indexOf(name) !== index)
  if (same !== undefined) return `two groups are called ${same}`
  const sizes = groups.map(({ nodes }) => nodes.length)
  if (new Set(sizes).size > 1) return `groups of ${sizes.join(' and ')} nodes given, all need as many`
  // Two databases of one server fail together: they are one node, in whichever group.
  const servers = groups.flatMap(({ nodes }) => nodes.map(nameOfNode))
  const twice = servers.find((server, index) => servers.indexOf(server) !== index)
  return twice === undefined ? undefined : `${twice} appears twice, and one server is one vote`
}

function parseRedisUrl(text: string): RedisAddress | string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) return 'it is not a URL'
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') return 'it is not redis:// or rediss://'
  if (url.hostname === '') return 'it has no host'
  if (url.search !== '' || url.hash !== '') return 'it contains a query or a fragment'
  const database = /^\/?([0-9]{0,3})$/.exec(url.pathname)
  if (database === null) return 'its path is not the number of a database'
  let username: string
  let password: string
  try {
    username = decodeURIComponent(url.username)
    password = decodeURIComponent(url.password)
  } catch {
    return 'its user or password is not percent-encoded correctly'
  }
  return {
    host: withoutBrackets(url.hostname.toLowerCase()),
    port: url.port === '' ? 6379 : Number(url.port),
    tls: url.protocol === 'rediss:',
    database: Number(database[1]),
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
  }
}

/** Names for the nodes. Every node stores them, which shows that all sidecars mean the same nodes. */
export function nodeNames(): ValueKind<readonly string[]> {
  return {
    accepts: 'different names of 1 to 128 letters, digits and . _ : [ ] / -, one a node, separated by commas',
    parse: (text) => {
      const names = text.split(',').map((name) => name.trim())
      const wrong = names.find((name) => !/^[A-Za-z0-9._:[\]/-]{1,128}$/.test(name))
      if (wrong !== undefined) return refused(`"${wrong}" is no name`)
      const twice = names.find((name, index) => names.indexOf(name) !== index)
      return twice === undefined ? value(names) : refused(`${twice} appears twice`)
    },
    print: (names) => names.join(','),
    yaml: 'list',
    schema: listedSchema('[A-Za-z0-9._:\\[\\]/-]{1,128}', {
      min: FEWEST_NODES,
      max: MOST_GROUPS * MOST_NODES,
    }),
  }
}

/** The default name of a node. Two databases of one server are one node. */
export function nameOfNode({ host, port }: Pick<RedisAddress, 'host' | 'port'>): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

function printRedisNodes(redis: RedisNodes): string {
  if (redis.kind === 'embedded') return 'embedded'
  return redis.groups
    .map(({ name, nodes }) => (name === '' ? '' : `${name}=`) + nodes.map(printRedisAddress).join(','))
    .join(';')
}

function printRedisAddress(address: RedisAddress): string {
  const user = address.username === undefined ? '' : encodeURIComponent(address.username)
  const secret = address.password === undefined ? '' : ':***'
  const login = user + secret === '' ? '' : `${user}${secret}@`
  const database = address.database === 0 ? '' : `/${address.database}`
  return `redis${address.tls ? 's' : ''}://${login}${nameOfNode(address)}${database}`
}

/**
 * For refused texts, whose form is unknown: hides everything before the last "@" of each entry, and shows an entry
 * without "@" only if it has no place for a password. A comma or a semicolon separates entries only before a scheme,
 * because a password may contain one.
 */
export function maskPasswords(text: string): string {
  return text
    .split(/([,;](?=\s*(?:[a-z0-9-]*=)?[a-z]+:\/\/))/)
    .map((entry, index) => {
      if (index % 2 === 1) return entry
      const scheme = /^\s*(?:[a-z0-9-]*=)?[a-z]+:\/\//.exec(entry)?.[0] ?? ''
      if (entry.includes('@')) return `${scheme}***@${entry.slice(entry.lastIndexOf('@') + 1)}`
      if (scheme === '') return entry
      return /^[A-Za-z0-9.,[\]-]*(:[0-9]{0,5})?(\/.*)?$/.test(entry.slice(scheme.length))
        ? entry
        : `${scheme}***`
    })
    .join('')
}
