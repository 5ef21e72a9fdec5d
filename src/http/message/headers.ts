/**
 * Which headers the sidecar forwards, in both directions, and which only the sidecar may set.
 *
 * Owns the lists. What is stored of an answer is `core/routes/settlement.ts`. Header lines are kept as pairs in their order and
 * case; nothing is joined, so that two lines stay two lines.
 *
 * Source: RFC 9110, section 7.6.1 (fields of one connection), 7.6.3 (Via); RFC 7239 is neither read nor written.
 */

import { type HeaderLine, type HeaderList, linesOf, readName } from '../../core/header-list.ts'
import type { ForwardContext } from '../../core/ports.ts'

/** In answers to clients (`docs/reference/http.md`). */
export const STATUS_HEADER = 'Idempotency-Status'
export const REPLAYED_HEADER = 'Idempotent-Replayed'
export const CREATED_AT_HEADER = 'Idempotency-Created-At'

/** Hop-by-hop: they describe one connection and are never forwarded. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-authentication-info',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])

/** Set anew by each sender. */
const FRAMING = new Set(['content-length', 'expect'])

/** Only the sidecar sets these: clients and applications may not. @param read as `readName` gives it */
function isSidecarHeader(read: string): boolean {
  return read.startsWith('fencepost-') || SIDECAR_NAMES.has(read)
}

const SIDECAR_NAMES = new Set([
  'idempotency-status',
  'idempotent-replayed',
  'idempotency-created-at',
  'idempotency-omitted',
])

/** The names in these lines that only the sidecar may set, each once. */
export function sidecarHeaderNames(headers: HeaderList): readonly string[] {
  return [
    ...new Set(headers.map(([name]) => name.toLowerCase()).filter((name) => isSidecarHeader(readName(name)))),
  ]
}

/** The names in these lines that are read as one of `set`, and that setting it does not replace, each once. */
export function otherSpellings(headers: HeaderList, set: HeaderList): readonly string[] {
  const replaced = new Set(set.map(([name]) => name.toLowerCase()))
  const names = headers.map(([name]) => name.toLowerCase())
  return [...new Set(names.filter((name) => !replaced.has(name) && replaced.has(readName(name))))]
}

/** Where a request came from, as the previous hop states it. @param read as `readName` gives it */
export function isForwarding(read: string): boolean {
  return read.startsWith('x-forwarded-') || read === 'forwarded' || read === 'x-real-ip'
}

export function headerPairs(raw: readonly string[]): HeaderList {
  const pairs: [string, string][] = []
  for (let index = 0; index + 1 < raw.length; index += 2) pairs.push([raw[index]!, raw[index + 1]!])
  return pairs
}

const NO_NAMES: ReadonlySet<string> = new Set()
/** What nearly every message says, which is read three times in a request. */
const USUAL_NAMES: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  ['keep-alive', 'Keep-Alive', 'close', 'Close'].map((line) => [line, new Set([line.toLowerCase()])]),
)

/** Lower-case names that `Connection` lists. */
export function namedByConnection(headers: HeaderList): ReadonlySet<string> {
  const lines = linesOf(headers, 'connection')
  if (lines.length === 0) return NO_NAMES
  const usual = lines.length === 1 ? USUAL_NAMES.get(lines[0]!) : undefined
  if (usual !== undefined) return usual
  const names = lines.flatMap((value) => value.toLowerCase().split(','))
  return new Set(names.map((name) => name.trim()).filter((name) => name !== ''))
}

/** The hop that a request came over. */
export type Hop = {
  readonly peerAddress: string | undefined
  readonly scheme: 'http' | 'https'
  /** The host that the client addressed. */
  readonly host: string | undefined
  readonly httpVersion: string
}

/**
 * `append`: what the peer states is kept, and the peer itself appended. `replace`: what the peer states is dropped, and only
 * the peer itself is stated. `off`: neither read nor written.
 */
export type ForwardedHeaders = 'append' | 'replace' | 'off'

export type Claimed = ForwardContext & KeysForApplication

export type KeysForApplication = {
  /** The same for every attempt of one request. */
  readonly requestKey: string
  /** In the place of what the client sent: its own line, where that is the key, or one that the route asks for. */
  readonly idempotencyKey: string | undefined
}

/** The header lines for the application, without framing: undici writes that, and `Host` where the client names none. */
export function towardsApplication(
  headers: HeaderList,
  hop: Hop,
  forwarded: ForwardedHeaders,
  claimed?: Claimed,
): HeaderLine[] {
  const dropped = namedByConnection(headers)
  const lines = headers.filter(([name]) => {
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || FRAMING.has(lower) || dropped.has(lower)) return false
    if (lower === 'host') return hop.host !== undefined
    const read = readName(lower)
    if (isSidecarHeader(read)) return false
    if (isForwarding(read)) return forwarded === 'off' || (forwarded === 'append' && !REWRITTEN.has(read))
    return claimed?.idempotencyKey === undefined || read !== 'idempotency-key'
  })
  lines.push(['Via', `${hop.httpVersion} fencepost`])
  if (forwarded !== 'off') addForwardedBy(lines, headers, hop, forwarded)
  if (claimed !== undefined) lines.push(...claimedLines(claimed))
  return lines
}

const REWRITTEN = new Set(['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'])

function addForwardedBy(
  lines: HeaderLine[],
  headers: HeaderList,
  hop: Hop,
  forwarded: 'append' | 'replace',
): void {
  const stated = (name: string): readonly string[] => (forwarded === 'append' ? linesOf(headers, name) : [])
  const before = stated('x-forwarded-for')
  const { peerAddress } = hop
  const chain = (peerAddress === undefined ? before : [...before, peerAddress]).join(', ')
  if (chain !== '') lines.push(['X-Forwarded-For', chain])
  lines.push(['X-Forwarded-Proto', stated('x-forwarded-proto')[0] ?? hop.scheme])
  const host = stated('x-forwarded-host')[0] ?? hop.host
  if (host !== undefined) lines.push(['X-Forwarded-Host', host])
}

export function claimedLines(claimed: Claimed): [string, string][] {
  const { requestKey, idempotencyKey } = claimed
  return [
    ...(idempotencyKey === undefined ? [] : [['Idempotency-Key', idempotencyKey] as [string, string]]),
    ['Fencepost-Key', requestKey],
    ['Fencepost-Fencing-Token', String(claimed.token)],
    ['Fencepost-Lock-Id', claimed.lockId],
    ['Fencepost-Attempt', String(claimed.attempt)],
  ]
}

/** The header lines of an answer for the client, without framing: the writer knows the length. */
export function towardsClient(headers: HeaderList): HeaderLine[] {
  const dropped = namedByConnection(headers)
  return headers.filter(([name]) => {
    const lower = name.toLowerCase()
    return !(
      HOP_BY_HOP.has(lower) ||
      lower === 'content-length' ||
      dropped.has(lower) ||
      isSidecarHeader(readName(lower))
    )
  })
}
