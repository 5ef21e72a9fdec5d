/**
 * Which requests are admitted at all: framing, `Host`, target and `Connection` as RFC 9112 requires them, beyond what Node's
 * parser rejects by itself.
 *
 * Owns the rules as pure functions over the raw header lines: Node's own object of headers keeps the first of two `Host` lines,
 * joins others, and is neither hashed nor forwarded.
 */

import { type HeaderList, linesOf, readName } from '../../core/header-list.ts'
import { isComparedWithKey } from '../../core/request/counted-headers.ts'
import { isForwarding, namedByConnection } from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'

export type RawRequest = {
  readonly method: string
  /** The target as received. */
  readonly target: string
  readonly httpVersion: string
  readonly headers: HeaderList
}

export type AdmittedRequest = {
  readonly method: string
  /** Path and query, byte for byte as received; begins with a slash. */
  readonly target: string
  readonly path: string
  /** Without `?`; undefined where the target has none. */
  readonly query: string | undefined
  /** The host that the client addressed. */
  readonly host: string | undefined
  /** It is described, and not which host its client addressed, which it may be another request by. */
  readonly hostUnsaid?: true
  readonly httpVersion: string
  /** As received, but for Host where the target has an authority. */
  readonly headers: HeaderList
  /** Its peer is none of those that may say who a client is; absent where any peer of the listener may. */
  readonly untrusted?: true
}

export type Admission =
  | { readonly kind: 'admitted'; readonly request: AdmittedRequest }
  | { readonly kind: 'refused'; readonly problem: Problem }
  /** `OPTIONS *`, or no hop is left (`Max-Forwards: 0`): the sidecar itself answers. */
  | { readonly kind: 'options' }

export type AdmissionRules = {
  readonly headerLinesMax: number
  /** Lower-case names that decide what a request is. `Connection` may not name them: it would remove them. */
  readonly endToEnd: ReadonlySet<string>
}

/** `Connection` may never name these, whatever the configuration, nor what {@link belongsToRequest}. */
export const ALWAYS_END_TO_END = [
  'idempotency-key',
  'authorization',
  'content-length',
  'content-type',
  'content-encoding',
  'content-digest',
  'cookie',
  'host',
] as const

/** RFC 3986, section 3.2.2, without the parts of it that no Host header has: user, spaces, controls. */
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?$/
const ABSOLUTE = /^https?:\/\/([^/?#]*)(.*)$/i
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** RFC 9110, section 5.5; Node's parser accepts more controls than may be forwarded. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const MAX_FORWARDS = /^[0-9]+$/

export function admit(raw: RawRequest, rules: AdmissionRules): Admission {
  const problem = faultOf(raw, rules)
  if (problem !== undefined) return { kind: 'refused', problem }
  if (raw.target === '*') {
    return raw.method === 'OPTIONS'
      ? { kind: 'options' }
      : malformed('The target "*" belongs to OPTIONS only.')
  }
  const absolute = ABSOLUTE.exec(raw.target)
  const host = absolute?.[1] ?? linesOf(raw.headers, 'host')[0]
  if (host !== undefined && !HOST.test(host)) return malformed('The host of the request is malformed.')
  const target = absolute === null ? raw.target : withSlash(absolute[2]!)
  if (!target.startsWith('/')) return malformed('The target of the request is neither a path nor a URL.')
  if (target.includes('#')) return malformed('The target of the request contains a fragment.')
  const forwards = linesOf(raw.headers, 'max-forwards')[0]?.trim()
  if (raw.method === 'OPTIONS' && forwards !== undefined && MAX_FORWARDS.test(forwards)) {
    if (Number(forwards) === 0) return { kind: 'options' }
  }
  const queryAt = target.indexOf('?')
  return {
    kind: 'admitted',
    request: {
      method: raw.method,
      target,
      path: queryAt === -1 ? target : target.slice(0, queryAt),
      query: queryAt === -1 ? undefined : target.slice(queryAt + 1),
      host: host === '' ? undefined : host,
      httpVersion: raw.httpVersion,
      headers: absolute === null ? raw.headers : withHost(raw.headers, absolute[1]!),
    },
  }
}

/** Of a request that is described to us. @param host empty where its client named none */
export function forHost(
  headers: HeaderList,
  host: string | undefined,
): Pick<AdmittedRequest, 'headers' | 'host' | 'hostUnsaid'> {
  const said = withHost(headers, host ?? '')
  return host === undefined
    ? { headers: said.slice(1), host, hostUnsaid: true }
    : { headers: said, host: host === '' ? undefined : host }
}

/** The host that a request is known to be for takes the place of its Host line: of a target, its authority (RFC 9112, section 3.2.2). */
function withHost(headers: HeaderList, host: string): HeaderList {
  return [['Host', host], ...headers.filter(([name]) => name.toLowerCase() !== 'host')]
}

function withSlash(target: string): string {
  return target.startsWith('/') ? target : `/${target}`
}

function faultOf({ method, headers, httpVersion }: RawRequest, rules: AdmissionRules): Problem | undefined {
  if (headers.length > rules.headerLinesMax) {
    return {
      code: 'headers-too-large',
      detail: `The request has ${headers.length} header lines, at most ${rules.headerLinesMax} are accepted.`,
    }
  }
  if (method === 'CONNECT' || method === 'TRACE')
    return { code: 'method-refused', detail: `${method} is not passed on.` }
  // Node's parser takes a request line without a version for HTTP/0.9, headers and all.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return bad(`HTTP/${httpVersion} is not spoken here.`)
  const unsafe = headers.find(([name, value]) => !FIELD_NAME.test(name) || !FIELD_VALUE.test(value))
  if (unsafe !== undefined) return bad('A header line holds a character that no header line may hold.')
  const hosts = linesOf(headers, 'host').length
  if (hosts > 1) return bad(`The request has ${hosts} Host lines, exactly 1 is accepted.`)
  if (hosts === 0 && httpVersion !== '1.0') return bad('The request has no Host line.')
  return framingFault(headers, httpVersion) ?? connectionFault(headers, rules.endToEnd)
}

function framingFault(headers: HeaderList, httpVersion: string): Problem | undefined {
  const codings = linesOf(headers, 'transfer-encoding')
  if (codings.length === 0) return undefined
  if (httpVersion === '1.0') return bad('HTTP/1.0 has no Transfer-Encoding.')
  if (linesOf(headers, 'content-length').length > 0)
    return bad('The request has both Transfer-Encoding and Content-Length.')
  const listed = codings.flatMap((line) => line.toLowerCase().split(',')).map((coding) => coding.trim())
  // With another last coding the end of the body is unknown.
  if (listed.includes('') || listed.indexOf('chunked') !== listed.length - 1)
    return bad('The last transfer coding, and only the last, has to be "chunked".')
  if (listed.length === 1) return undefined
  return {
    code: 'transfer-encoding-unsupported',
    detail: 'Of transfer codings only "chunked" is supported.',
  }
}

function connectionFault(headers: HeaderList, endToEnd: ReadonlySet<string>): Problem | undefined {
  for (const name of namedByConnection(headers)) {
    const read = readName(name)
    if (endToEnd.has(read) || belongsToRequest(read))
      return bad(`Connection names ${name}, which belongs to the whole way of the request.`)
  }
  return undefined
}

/** Of a client, as its name shows. Wide: nothing that belongs to one hop has such a name. */
const OF_CLIENT =
  /user|auth|token|jwt|key|session|secret|password|cert|principal|identity|consumer|client|tenant|account|subject|email|role|group|scope|device|event|topic|webhook|delivery|message|invocation|idempoten|(^|-)(uid|s-dn|orgid)$/

/**
 * What a gateway in front states of a client, the client could otherwise have removed here: the application would take it for a user who is
 * not signed in, or for the gateway itself.
 */
function belongsToRequest(read: string): boolean {
  return (
    isComparedWithKey(read) || OF_CLIENT.test(read) || isForwarding(read) || read.startsWith('fencepost-')
  )
}

function malformed(detail: string): Admission {
  return { kind: 'refused', problem: bad(detail) }
}

function bad(detail: string): Problem {
  return { code: 'malformed-request', detail }
}
