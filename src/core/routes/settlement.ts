/**
 * What happens to the application's answer: kept for duplicates, forgotten so that a retry is executed, or neither.
 *
 * Owns the storing policy of statuses and headers as pure functions. Only whole answers come here, never a truncated
 * one (`ForwardResult`).
 */

import { canonicalJson, type RawJsonReason } from '../formats/canonical-json.ts'
import { connectStreamStatus, grpcStatus, httpStatusOfGrpc } from '../formats/grpc-status.ts'
import { compileSelection, type JsonPointer } from '../formats/json-pointer.ts'
import { parseMediaType } from '../formats/media-type.ts'
import { type HeaderList, linesOf, readName } from '../header-list.ts'
import type { ApplicationResponse } from '../ports.ts'
import { isStorableHeader, type StoredOutcome } from '../record/stored-outcome.ts'
import type { Disposition, ProtectedRoute } from './route.ts'

export type StoringPolicy = Pick<
  ProtectedRoute,
  'store' | 'storedHeaders' | 'omittedHeaders' | 'bodyStorage' | 'redact'
>

/**
 * What an answer says of the request. `unknown`: nothing; whoever gave it had waited for the work for too long, or lost it, so the
 * request may have been executed, or be at work still.
 */
export type Settlement = Disposition | 'unknown'

/**
 * RFC 9110, sections 15.6.3 and 15.6.5. An nginx in front of PHP answers 504 while the script goes on. Cloudflare has names of its own:
 * the answer was none (520), or did not come in time (522, 524). Its 521, 523, 525 and 526 are connections that were never made.
 */
const OF_A_GATEWAY = new Set([502, 504, 520, 522, 524])

/**
 * The whole request was there, so with 408 nobody waited for it: it is a time limit of the framework (NestJS, Gin, tower), which does
 * not end the work. 499 is that the request was cancelled (Connect, grpc-gateway), who knows how far it had come.
 */
const BROKEN_OFF = new Set([408, 499])

/**
 * A refusal is kept only where it is the verdict on the request itself, which sending it again can't change. Every other 4xx, also one that
 * no standard has, speaks of the attempt: who sent it, when, with which head, coding or conditions, or of what is not there yet. A verdict
 * that is not kept costs a second refusal; a kept one that was none would refuse a client for good, whatever it mends.
 */
const VERDICTS = new Set([400, 402, 409, 410, 422])

/**
 * With a refusal, whatever its status: come again (`Retry-After`), or in another form: a challenge (RFC 9110, section 11.6.1; RFC 9449,
 * section 8; x402), or what would be accepted (RFC 7694; RFC 5789, section 3.1; the Linked Data Platform, section 7.1.1). With 2xx and 3xx
 * the same lines speak of what comes next (RFC 9110, section 10.2.3): a retry would execute twice what is done.
 */
const ASKS_FOR_ANOTHER = [
  'retry-after',
  'www-authenticate',
  'dpop-nonce',
  'payment-required',
  'accept-encoding',
  'accept-post',
  'accept-patch',
]

/**
 * A further attempt may meet the one before it still at work. An application that knows keys by itself says so by 409
 * (draft-ietf-httpapi-idempotency-key-header, section 2.7), which is not how that one will end.
 */
const MEETS_EARLIER_ATTEMPT = 409

/** The application's own verdict; stripped before a client sees it. */
export const OUTCOME_HEADER = 'fencepost-outcome'

type Answered = Pick<ApplicationResponse, 'status' | 'headers' | 'body'>

/** @param attempt above 1 where an earlier execution may not be over */
export function dispositionOf(response: Answered, policy: StoringPolicy, attempt = 1): Settlement {
  const verdicts = linesOf(response.headers, OUTCOME_HEADER)
  const last = verdicts.at(-1)?.trim().toLowerCase()
  if (last === 'store' || last === 'release' || last === 'hold') return last
  const status = meantStatus(response)
  const { [String(status)]: exact, [`${Math.floor(status / 100)}xx`]: ofClass } = policy.store
  if (exact !== undefined) return exact
  if (ofClass === 'hold') return ofClass
  // A class releases what is a refusal: where nobody knows what was done, the route has to name the status.
  const ofOpenEnd = ofClass === 'store' ? ofClass : 'unknown'
  // Whatever `Retry-After` says: it is the gateway's, too.
  if (OF_A_GATEWAY.has(status)) return ofOpenEnd
  if (BROKEN_OFF.has(status))
    return linesOf(response.headers, 'retry-after').length > 0 ? 'release' : ofOpenEnd
  if (status >= 400 && asksForAnother(response)) return 'release'
  if (ofClass !== undefined) return ofClass
  if (status === MEETS_EARLIER_ATTEMPT && attempt > 1) return 'release'
  // Part of a resource answers the Range of one request only; it is not the outcome of the identity.
  if (status === 206) return 'hold'
  return status < 400 || VERDICTS.has(status) ? 'store' : 'release'
}

function asksForAnother({ status, headers, body }: Answered): boolean {
  if (ASKS_FOR_ANOTHER.some((name) => linesOf(headers, name).length > 0)) return true
  // The first version of x402 has its challenge in the body, which is not decoded here.
  return status === 402 && (body.includes('"x402Version"') || linesOf(headers, 'content-encoding').length > 0)
}

/** Where the status of HTTP is 200 whatever came of the call: the one that stands for what the protocol above says. */
function meantStatus(response: Answered): number {
  if (response.status !== 200) return response.status
  const code = grpcStatus(response) ?? connectStreamStatus(response)
  // A gateway that speaks HTTP/1.0 to the application can't see that it broke off, and makes a whole answer of it.
  if (code === 'broken_off') return 502
  return code === undefined ? 200 : httpStatusOfGrpc(code)
}

/** What a client acts on, by a standard or by a protocol that many speak: a replay without it is another answer to that client. */
const STORED_NAMES = new Set([
  'location',
  'link',
  'etag',
  'last-modified',
  'vary',
  'cache-control',
  'expires',
  'allow',
  // RFC 9110, section 10.2.3: when to look for the result of what was accepted. With a refusal nothing is stored.
  'retry-after',
  // RFC 9530; its predecessor, RFC 3230.
  'repr-digest',
  'digest',
  // RFC 7240. RFC 5789. RFC 9745, RFC 8594. RFC 4918.
  'preference-applied',
  'accept-patch',
  'deprecation',
  'sunset',
  'dav',
  'lock-token',
  // How far an upload has come: OCI distribution, Google.
  'range',
  // Where the result of an accepted request will be: Azure.
  'operation-location',
  'azure-asyncoperation',
  'request-id',
  // What a browser may do with the page, where to it goes on, and what it forgets.
  'referrer-policy',
  'permissions-policy',
  'origin-agent-cluster',
  'refresh',
  'clear-site-data',
  // RFC 9421: whose answer it is, for clients that refuse one without.
  'signature',
  'signature-input',
])
/**
 * Without `cross-origin-`, and `access-control-`, a browser hides a replay from the page that requested it. Uploads: tus, OCI. OData, htmx,
 * Datastar, gRPC-Web, the trailers of Connect and the coding of its streams, an event in answer to one (CloudEvents), Laravel Precognition.
 */
const STORED_PREFIXES = [
  'content-',
  'x-',
  'upload-',
  'tus-',
  'oci-',
  'docker-',
  'odata-',
  'hx-',
  'datastar-',
  'grpc-',
  'trailer-',
  'ce-',
  'connect-',
  'cross-origin-',
  'precognition',
]
const NEVER_STORED = new Set([
  'set-cookie',
  'authorization',
  'www-authenticate',
  'proxy-authenticate',
  'proxy-authorization',
  'date',
  'server',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'idempotency-omitted',
])

/** In a replay: the headers of the first answer that it lacks, because they are not kept. */
export const OMITTED_HEADER = 'Idempotency-Omitted'

/** What hands its reader a credential, by any name. Tokens in the plural are counted: those of a language model. */
const CREDENTIAL =
  /cookie|token(?!s)|secret|passw|credential|session|jwt|api-?key|access-?key|authoriz|authentic|[cx]srf|(^|-)(auth|sid|otp)(-|$)/

type HeaderPolicy = Pick<StoringPolicy, 'storedHeaders' | 'omittedHeaders'>

/** Keeps what is listed above and the route's headers; never hop-by-hop, and a credential only where the route names it. */
export function storedHeadersOf(
  headers: HeaderList,
  { storedHeaders, omittedHeaders }: HeaderPolicy,
): HeaderList {
  const connection = namedByConnection(headers)
  return headers.filter(([name, value]) => {
    const lower = name.toLowerCase()
    if (NEVER_STORED.has(lower) || connection.has(lower) || lower.startsWith('fencepost-')) return false
    if (omittedHeaders.includes(lower)) return false
    // The record would be refused as damaged when it is read: better to lose this header than the answer.
    if (!isStorableHeader(name, value)) return false
    if (STORED_NAMES.has(lower) || storedHeaders.includes(lower) || lower.startsWith('access-control-'))
      return true
    return STORED_PREFIXES.some((prefix) => lower.startsWith(prefix)) && !CREDENTIAL.test(readName(lower))
  })
}

function namedByConnection(headers: HeaderList): ReadonlySet<string> {
  return new Set(linesOf(headers, 'connection').flatMap((value) => value.toLowerCase().split(/\s*,\s*/)))
}

/** Says which credentials, and which of the route's, a replay lacks. */
function omission(headers: HeaderList, kept: HeaderList, { omittedHeaders }: HeaderPolicy): HeaderList {
  const isLeftOut = (name: string) =>
    !name.startsWith('fencepost-') && (omittedHeaders.includes(name) || CREDENTIAL.test(readName(name)))
  const names = new Set(headers.map(([name]) => name.toLowerCase()).filter(isLeftOut))
  for (const [name] of kept) names.delete(name.toLowerCase())
  // These the first client did not get either.
  for (const name of ['proxy-authenticate', 'proxy-authorization', ...namedByConnection(headers)])
    names.delete(name)
  return names.size === 0 ? [] : [[OMITTED_HEADER, [...names].join(', ')]]
}

/** The outcome to record for an answer that is to be stored. */
export function storedOutcomeOf(
  response: ApplicationResponse,
  policy: StoringPolicy,
  wallMs: number,
): StoredOutcome {
  const kept = storedHeadersOf(response.headers, policy)
  const headers = [
    ...kept,
    ...omission(response.headers, kept, policy),
    ...(response.oversized === undefined && response.body.length === 0 ? lengthOf(response) : []),
  ]
  const { status } = response
  if (response.oversized === undefined && policy.bodyStorage === 'full') {
    const redacted = redact(headers, response.body, policy.redact)
    if (redacted.kind === 'redacted') {
      const { headers: kept, body } = redacted
      return { kind: 'response', status, headers: kept, body, completedAtWallMs: wallMs }
    }
  }
  const location = linesOf(headers, 'location')[0]
  return {
    kind: 'tombstone',
    status,
    ...(location === undefined ? {} : { location }),
    completedAtWallMs: wallMs,
  }
}

/** Without a body (HEAD, 304) the length is that of another answer, which only the application knows. */
function lengthOf({ headers }: Pick<ApplicationResponse, 'headers'>): HeaderList {
  const [length] = linesOf(headers, 'content-length')
  return length !== undefined && /^[0-9]+$/.test(length) ? [['Content-Length', length]] : []
}

type Redacted =
  | { readonly kind: 'redacted'; readonly headers: HeaderList; readonly body: Buffer }
  | { readonly kind: 'unredactable' }

/** Describe the whole body, and no longer hold for the rest of it. */
const OF_THE_WHOLE = new Set(['content-digest', 'content-md5', 'content-encoding'])

/**
 * Removes values from an answer before it is stored. An answer in doubt is not: JSON that can't be written again without loss, or can't be
 * read at all, is `unredactable`, and a tombstone takes its place. The first client gets the answer as it was.
 */
function redact(headers: HeaderList, body: Buffer, pointers: readonly JsonPointer[]): Redacted {
  if (pointers.length === 0 || body.length === 0) return { kind: 'redacted', headers, body }
  const compiled = compileSelection('exclude', pointers)
  if (compiled.kind === 'invalid' || linesOf(headers, 'content-encoding').length > 0)
    return { kind: 'unredactable' }
  const left = canonicalJson(body, compiled.selection)
  if (left.kind === 'canonical') {
    const kept = headers.filter(([name]) => !OF_THE_WHOLE.has(name.toLowerCase()))
    return { kind: 'redacted', headers: kept, body: Buffer.from(left.text) }
  }
  return IS_NO_JSON.has(left.reason) && isAnotherMedium(headers)
    ? { kind: 'redacted', headers, body }
    : { kind: 'unredactable' }
}

/** Every other reason means JSON that loses something, or was not read to its end, whatever its declared type. */
const IS_NO_JSON: ReadonlySet<RawJsonReason> = new Set<RawJsonReason>(['syntax', 'invalid_utf8'])

/** Other media have no such values. An undeclared type, or JSON in any charset or sequence (NDJSON), may have them. */
function isAnotherMedium(headers: HeaderList): boolean {
  const media = linesOf(headers, 'content-type').map(parseMediaType)
  return media.length > 0 && media.every((each) => each !== undefined && !each.essence.includes('json'))
}
