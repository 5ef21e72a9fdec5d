/** The table of docs/guide/clients.md: with whatever a row says to write, a retry is recognised, and another client is another one. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { HeaderLine } from '../src/core/header-list.ts'
import { principalFrom } from '../src/core/request/principal.ts'

const page = readFileSync(join(import.meta.dirname, '../docs/guide/clients.md'), 'utf8')

const bearer = (token: string): HeaderLine => ['Authorization', `Bearer ${token}`]
const jwt = (claims: object) =>
  bearer(`e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`)
const signed = (nonce: number): HeaderLine => ['Authorization', `Digest nonce="${nonce}"`]
/** As a component in front says it, in each header that the page names. */
const known = (user: string): readonly HeaderLine[] => [
  ['X-User-Id', user],
  ['X-Client-Id', user],
]

/** What one client sends, the same client with its retry, and another client. */
// biome-ignore format: one line a row of the page
const SENT: readonly (readonly [row: string, first: readonly HeaderLine[], retry: readonly HeaderLine[], other: readonly HeaderLine[]])[] = [
  ['the same, verified by a gateway in front', [jwt({ sub: 'ann', iat: 1 })], [jwt({ sub: 'ann', iat: 2 })], [jwt({ sub: 'bob', iat: 1 })]],
  ['an opaque bearer token, renewed now and then', [bearer('a'), ...known('ann')], [bearer('b'), ...known('ann')], [bearer('c'), ...known('bob')]],
  ['an API key or a password that lasts, in `Authorization`', [bearer('a')], [bearer('a')], [bearer('b')]],
  ['an API key in another header', [['X-Api-Key', 'a']], [['X-Api-Key', 'a']], [['X-Api-Key', 'b']]],
  ['a signature over each request, in `Authorization`', [signed(1), ...known('ann')], [signed(2), ...known('ann')], [signed(3), ...known('bob')]],
  ['nothing, but a peer in `trust.peers` knows the client', known('ann'), known('ann'), known('bob')],
]

test.for(SENT)('%s', ([row, first, retry, other]) => {
  const ways = waysOf(row)
  const by = (way: string, headers: readonly HeaderLine[]) =>
    principalFrom(sourceOf(way), headers, RULES).principal
  expect(ways.filter((way) => by(way, first) !== by(way, retry))).toEqual([])
  expect(ways.filter((way) => by(way, first) === by(way, other))).toEqual([])
})

const RULES = { clientHeader: 'x-client-id', trusted: true }
const DEFAULT = 'authorization'

/** Each principal that the row writes; where it writes none, or counts on the header of `scope.clientHeader`, the default. */
function waysOf(row: string): readonly string[] {
  const line = page.split('\n').find((each) => each.startsWith(`| ${row}`))
  const write = line?.split(' | ')[1] ?? ''
  const written = [...write.matchAll(/`(\{ (?:header|jwt): [\w-]+ \})`/g)].map(([, way = '']) => way)
  return written.length === 0 || write.includes('`X-Client-Id`') ? [...written, DEFAULT] : written
}

function sourceOf(way: string): Parameters<typeof principalFrom>[0] {
  const [, kind, name = ''] = /^\{ (header|jwt): ([\w-]+) \}$/.exec(way) ?? []
  if (kind === 'jwt') return { kind, claim: name }
  return kind === 'header' ? { kind, name } : { kind: DEFAULT }
}
