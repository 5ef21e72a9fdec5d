/**
 * The fingerprint: SHA-256 over everything that makes a request this request and no other.
 *
 * Components are framed by their lengths (`framing.ts`), in a fixed order, each of them always present; concatenated
 * bare they could be cut in more than one way. Two requests have one fingerprint exactly when all components are equal;
 * how far two spellings of one thing are equal is settled by the module of that thing (`query.ts`, `media-type.ts`,
 * `body-form.ts`). Owns the list, its order and the scheme's name; a change of any of them is another scheme.
 *
 * Hostile input never throws or rejects here: what cannot be fingerprinted is a problem with a name and a number.
 * docs/reference/fingerprint.md describes the scheme for other implementations; test/vectors/ has vectors for them.
 */

import { hash } from 'node:crypto'
import { codingsOf, DECODED_BYTES_MAX } from '../formats/content-coding.ts'
import { bytesOf, frame, frameText, isWireText, sha256Hex, utf8Text, wireText } from '../formats/framing.ts'
import { compileSelection, type Selection } from '../formats/json-pointer.ts'
import { type MediaType, parseMediaType } from '../formats/media-type.ts'
import { canonicalQuery } from '../formats/query.ts'
import { parseDictionary } from '../formats/structured-field.ts'
import { type HeaderList, linesOf } from '../header-list.ts'
import type { Fingerprint } from '../record/record.ts'
import type { FingerprintPolicy, RequestFacts } from '../routes/route.ts'
import { type BodyForm, bodyFormOf, plainFormOf } from './body-form.ts'
import { countedByContent, countedWithKey, type HeaderRules, OWN_COMPONENTS } from './counted-headers.ts'

/**
 * From the first release on it changes with any change that gives an unchanged request another fingerprint. Before, it
 * stays: another scheme makes every retry across an upgrade another request, not only those that the change is about.
 */
export const SCHEME_VERSION = 'fencepost-fingerprint/1'

/** Largest body that is buffered for its fingerprint; above: `body_too_large`, or the stream form if there is a key. */
export const BODY_BYTES_MAX = 1024 * 1024

export type RequestHead = {
  readonly tenant: string
  readonly env: string
  readonly apiVersion: string
  /** `principal.ts` */
  readonly principal: string
  /** What the route says of its clients named this one: then its cookies say nothing of it. */
  readonly clientStated?: boolean
} & Omit<RequestFacts, 'host'>

/** A route's policy, checked and compiled once. */
export type FingerprintRules = {
  /** Names the version and, where they are not the default, the rules: a changed rule is another scheme. */
  readonly scheme: string
  readonly selection: Selection | undefined
} & HeaderRules

/** What says which request it is: a key of its client, or its content, of which every header is a part. */
export type IdentifiedBy = 'key' | 'content'

type FingerprintLimits = { readonly bodyBytesMax: number; readonly decodedBytesMax: number }

export const DEFAULT_LIMITS: FingerprintLimits = Object.freeze({
  bodyBytesMax: BODY_BYTES_MAX,
  decodedBytesMax: DECODED_BYTES_MAX,
})

type FingerprintProblem =
  | DigestFault
  | { readonly kind: 'body_too_large'; readonly limitBytes: number; readonly actualBytes: number }
  /** A lone surrogate, or a character that no wire carries: its bytes would merge two texts. */
  | { readonly kind: 'not_text'; readonly component: string }

export type Fingerprinted = {
  readonly kind: 'fingerprint'
  readonly hash: Fingerprint
  readonly scheme: string
  readonly body: BodyForm
  /** In the order in which they are hashed. */
  readonly components: readonly Component[]
}

/** @property byteText its bytes, each as one character (`framing.ts`) */
export type Component = { readonly name: ComponentName; readonly byteText: string }

type ComponentName =
  | 'scheme'
  | 'tenant'
  | 'env'
  | 'api_version'
  | 'principal'
  | 'method'
  | 'path'
  | 'query'
  | 'headers'
  | 'media_type'
  | 'codings'
  | 'body_form'
  | 'body_sha256'

type CompiledRules =
  | { readonly kind: 'rules'; readonly rules: FingerprintRules }
  | { readonly kind: 'invalid'; readonly pointer: string; readonly detail: string }

/** @param keyHeaders where the client’s key is: another key is no other content */
export function compileRules(policy: FingerprintPolicy, keyHeaders: readonly string[] = []): CompiledRules {
  const headers =
    policy.headers === 'all'
      ? policy.headers
      : [...new Set(policy.headers.map((name) => name.toLowerCase()))].sort()
  const ignored = [...new Set(policy.ignore)].sort()
  const compiled =
    policy.body.kind === 'all' ? undefined : compileSelection(policy.body.kind, policy.body.pointers)
  if (compiled?.kind === 'invalid') return compiled
  const selection = compiled?.selection
  const scheme = schemeOf(headers === 'all' ? [] : headers, ignored, selection)
  return {
    kind: 'rules',
    rules: { scheme, headers, ignored: new Set([...ignored, ...keyHeaders]), selection },
  }
}

/** The defaults: the whole body and every header that counts. */
export const DEFAULT_RULES: FingerprintRules = Object.freeze({
  scheme: SCHEME_VERSION,
  headers: 'all',
  ignored: new Set<string>(),
  selection: undefined,
})

function schemeOf(
  headers: readonly string[],
  ignored: readonly string[],
  selection: Selection | undefined,
): string {
  if (headers.length + ignored.length === 0 && selection === undefined) return SCHEME_VERSION
  const chosen = selection === undefined ? [] : [selection.mode, ...selection.pointers]
  const lists = ignored.length === 0 ? [headers, chosen] : [headers, chosen, ignored]
  const rules = frame(lists.map((list) => frame(list.map((text) => Buffer.from(text, 'utf8')))))
  return `${SCHEME_VERSION}+${sha256Hex(rules).slice(0, 16)}`
}

export async function fingerprint(
  head: RequestHead,
  body: Uint8Array,
  rules: FingerprintRules = DEFAULT_RULES,
  limits: FingerprintLimits = DEFAULT_LIMITS,
  by: IdentifiedBy = 'key',
): Promise<Fingerprinted | FingerprintProblem> {
  if (body.length > limits.bodyBytesMax)
    return { kind: 'body_too_large', limitBytes: limits.bodyBytesMax, actualBytes: body.length }
  const fault = verifyDigest(linesOf(head.headers, 'content-digest'), body)
  if (fault !== undefined) return fault
  const codings = codingsOf(linesOf(head.headers, 'content-encoding'))
  const media = mediaTypeOf(head.headers)
  const { selection } = rules
  // Nearly every body is without codings: then nothing has to be waited for.
  const form =
    codings.length === 0
      ? plainFormOf(body, media, selection)
      : await bodyFormOf(body, codings, media, selection, limits.decodedBytesMax, clientOf(head))
  return assemble(head, rules, by, media, form)
}

/** Whose request it is: a name that is only compared. */
export function clientOf({ tenant, principal }: Pick<RequestHead, 'tenant' | 'principal'>): string {
  return `${tenant}\0${principal}`
}

function assemble(
  head: RequestHead,
  rules: FingerprintRules,
  by: IdentifiedBy,
  media: MediaType | undefined,
  body: BodyForm,
): Fingerprinted | FingerprintProblem {
  const found: readonly MaybeText[] = [
    { name: 'scheme', byteText: utf8Text(rules.scheme) },
    { name: 'tenant', byteText: utf8Text(head.tenant) },
    { name: 'env', byteText: utf8Text(head.env) },
    { name: 'api_version', byteText: utf8Text(head.apiVersion) },
    { name: 'principal', byteText: utf8Text(head.principal) },
    { name: 'method', byteText: wireText(head.method) },
    { name: 'path', byteText: wireText(head.path) },
    { name: 'query', byteText: queryComponent(head.query) },
    { name: 'headers', byteText: headersComponent(head, rules, by) },
    { name: 'media_type', byteText: mediaTypeComponent(head.headers, media, body) },
    { name: 'codings', byteText: codingsComponent(head.headers, body.codings) },
    { name: 'body_form', byteText: body.form },
    { name: 'body_sha256', byteText: body.sha256 },
  ]
  const missing = found.find(({ byteText }) => byteText === undefined)
  if (missing !== undefined) return { kind: 'not_text', component: missing.name }
  const components = found as readonly Component[]
  return { kind: 'fingerprint', hash: hashOf(components), scheme: rules.scheme, body, components }
}

function hashOf(components: readonly Component[]): Fingerprint {
  return sha256Hex(bytesOf(frameText(components.map(({ byteText }) => byteText))))
}

/** Of a request with a key: the fingerprint that its content alone has. */
export function hashByContent(
  printed: Fingerprinted,
  head: RequestHead,
  rules: FingerprintRules,
): Fingerprint {
  const headers = headersComponent(head, rules, 'content') ?? ''
  return hashOf(
    printed.components.map((one) => (one.name === 'headers' ? { name: one.name, byteText: headers } : one)),
  )
}

type MaybeText = { readonly name: ComponentName; readonly byteText: string | undefined }

function queryComponent(text: string | undefined): string | undefined {
  const query = canonicalQuery(text)
  return wireList(query.kind === 'absent' ? [] : [query.kind, query.text])
}

/** The headers that count, each with its lines. */
export function countedHeaders(
  { headers, clientStated }: RequestHead,
  rules: FingerprintRules,
  by: IdentifiedBy,
) {
  return by === 'key'
    ? countedWithKey(headers, rules)
    : countedByContent(headers, rules, clientStated === true)
}

/** Of a person who asks why two requests are one: the headers that are in no component, each once. */
export function ignoredHeaders(
  head: RequestHead,
  rules: FingerprintRules,
  by: IdentifiedBy,
): readonly string[] {
  const counted = new Set(countedHeaders(head, rules, by).map(([name]) => name))
  const names = new Set(head.headers.map(([name]) => name.toLowerCase()))
  return [...names].filter((name) => !counted.has(name) && !OWN_COMPONENTS.has(name)).sort()
}

/** One frame per header: its name, then each of its lines. */
function headersComponent(head: RequestHead, rules: FingerprintRules, by: IdentifiedBy): string | undefined {
  const frames: string[] = []
  for (const list of countedHeaders(head, rules, by)) {
    const lines = wireList(list)
    if (lines === undefined) return undefined
    frames.push(lines)
  }
  return frameText(frames)
}

/**
 * Without the boundary where the parts are compared; else the boundary decides which parts the bytes hold. Without a
 * charset of utf-8 where the bytes are JSON text; else it may decide what an application reads.
 */
function mediaTypeComponent(
  headers: HeaderList,
  media: MediaType | undefined,
  { form, jsonText }: BodyForm,
): string | undefined {
  const lines = linesOf(headers, 'content-type')
  if (lines.length === 0 || !areWireText(lines)) return wireList(lines)
  if (media === undefined) return wireList(['verbatim', ...lines])
  const boundary = form === 'multipart' || media.boundary === undefined ? [] : [media.boundary]
  return wireList(['parsed', jsonText ? media.normalOfJsonText : media.normal, ...boundary])
}

function mediaTypeOf(headers: HeaderList): MediaType | undefined {
  const lines = linesOf(headers, 'content-type')
  const [line] = lines
  if (line === undefined || lines.length > 1) return undefined
  if (latestRead?.line !== line) latestRead = { line, media: parseMediaType(line) }
  return latestRead.media
}

/** Clients state one type again and again, and what a line means depends on nothing else. One, so that it has a bound. */
let latestRead: { readonly line: string; readonly media: MediaType | undefined } | undefined

function codingsComponent(headers: HeaderList, kept: readonly string[]): string | undefined {
  return areWireText(linesOf(headers, 'content-encoding')) ? wireList(kept) : undefined
}

/** Checked before text is compared without case: beyond Latin-1 some letters have an ASCII letter as lower case. */
function areWireText(lines: readonly string[]): boolean {
  return lines.every(isWireText)
}

function wireList(texts: readonly string[]): string | undefined {
  return areWireText(texts) ? frameText(texts) : undefined
}

/** The active algorithms of RFC 9530, under their names in the field and in node:crypto. */
const ALGORITHMS: ReadonlyMap<string, string> = new Map([
  ['sha-256', 'sha256'],
  ['sha-512', 'sha512'],
])

type DigestFault =
  | { readonly kind: 'digest_malformed'; readonly detail: string }
  | { readonly kind: 'digest_mismatch'; readonly algorithm: string }

/**
 * Verifies a body against its Content-Digest: over the bytes of the message, before any content coding is undone. Every digest of an algorithm
 * that we know must match; others are ignored, as the RFC wants it. A field that cannot be read is refused rather than ignored: a client
 * that sends a digest asks for the body to be checked.
 *
 * Source: RFC 9530, sections 2 and 5.
 *
 * @param lines all Content-Digest lines of the request
 */
export function verifyDigest(lines: readonly string[], body: Uint8Array): DigestFault | undefined {
  if (lines.length === 0) return undefined
  const announced = parseDictionary(lines.join(', '))
  if (announced === undefined) return malformed('Content-Digest is no structured-field dictionary')
  const expected: { algorithm: string; name: string; digest: Buffer }[] = []
  for (const [algorithm, value] of announced) {
    const name = ALGORITHMS.get(algorithm)
    if (name === undefined) continue
    if (value.type !== 'bytes') return malformed(`${algorithm} of Content-Digest is no byte sequence`)
    expected.push({ algorithm, name, digest: value.value })
  }
  const wrong = expected.find(({ name, digest }) => !hash(name, body, 'buffer').equals(digest))
  return wrong === undefined ? undefined : { kind: 'digest_mismatch', algorithm: wrong.algorithm }
}

function malformed(detail: string): DigestFault {
  return { kind: 'digest_malformed', detail }
}
