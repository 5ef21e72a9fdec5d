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

import { codingsOf, DECODED_BYTES_MAX } from '../formats/content-coding.ts'
import { type DigestFault, verifyDigest } from '../formats/content-digest.ts'
import { bytesOf, frame, frameText, isWireText, sha256Hex, utf8Text, wireText } from '../formats/framing.ts'
import { linesOf } from '../formats/header-lines.ts'
import { compileSelection, type Selection } from '../formats/json-pointer.ts'
import { type MediaType, parseMediaType } from '../formats/media-type.ts'
import { canonicalQuery } from '../formats/query.ts'
import type { HeaderList } from '../header-list.ts'
import type { Fingerprint } from '../record/record.ts'
import type { FingerprintPolicy } from '../routes/route.ts'
import { type BodyForm, bodyFormOf, plainFormOf } from './body-form.ts'
import { asLists, countedIn, saysWhat } from './counted-headers.ts'

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
  readonly method: string
  /** As it crossed the wire, Latin-1, without the query. */
  readonly path: string
  /** Without `?`; undefined where the target has none. */
  readonly query: string | undefined
  readonly headers: HeaderList
}

/** A route's policy, checked and compiled once. */
export type FingerprintRules = {
  /** Names the version and, where they are not the default, the rules: a changed rule is another scheme. */
  readonly scheme: string
  readonly headers: readonly string[]
  readonly selection: Selection | undefined
}

export type FingerprintLimits = { readonly bodyBytesMax: number; readonly decodedBytesMax: number }

export const DEFAULT_LIMITS: FingerprintLimits = Object.freeze({
  bodyBytesMax: BODY_BYTES_MAX,
  decodedBytesMax: DECODED_BYTES_MAX,
})

export type FingerprintProblem =
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

export type ComponentName =
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

export type CompiledRules =
  | { readonly kind: 'rules'; readonly rules: FingerprintRules }
  | { readonly kind: 'invalid'; readonly pointer: string; readonly detail: string }

export function compileRules(policy: FingerprintPolicy): CompiledRules {
  const headers = [...new Set(policy.headers.map((name) => name.toLowerCase()))].sort()
  if (policy.body.kind === 'all')
    return { kind: 'rules', rules: { scheme: schemeOf(headers, undefined), headers, selection: undefined } }
  const compiled = compileSelection(policy.body.kind, policy.body.pointers)
  if (compiled.kind === 'invalid') return compiled
  const { selection } = compiled
  return { kind: 'rules', rules: { scheme: schemeOf(headers, selection), headers, selection } }
}

/** The defaults: the whole body and no chosen headers. */
export const DEFAULT_RULES: FingerprintRules = Object.freeze({
  scheme: SCHEME_VERSION,
  headers: Object.freeze([]),
  selection: undefined,
})

function schemeOf(headers: readonly string[], selection: Selection | undefined): string {
  if (headers.length === 0 && selection === undefined) return SCHEME_VERSION
  const chosen = selection === undefined ? [] : [selection.mode, ...selection.pointers]
  const rules = frame([headers, chosen].map((list) => frame(list.map((text) => Buffer.from(text, 'utf8')))))
  return `${SCHEME_VERSION}+${sha256Hex(rules).slice(0, 16)}`
}

export async function fingerprint(
  head: RequestHead,
  body: Uint8Array,
  rules: FingerprintRules = DEFAULT_RULES,
  limits: FingerprintLimits = DEFAULT_LIMITS,
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
  return assemble(head, rules, media, form)
}

/** Whose request it is: a name that is only compared. */
export function clientOf({ tenant, principal }: Pick<RequestHead, 'tenant' | 'principal'>): string {
  return `${tenant}\0${principal}`
}

function assemble(
  head: RequestHead,
  rules: FingerprintRules,
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
    { name: 'headers', byteText: headersComponent(head.headers, rules.headers) },
    { name: 'media_type', byteText: mediaTypeComponent(head.headers, media, body) },
    { name: 'codings', byteText: codingsComponent(head.headers, body.codings) },
    { name: 'body_form', byteText: body.form },
    { name: 'body_sha256', byteText: body.sha256 },
  ]
  const missing = found.find(({ byteText }) => byteText === undefined)
  if (missing !== undefined) return { kind: 'not_text', component: missing.name }
  const components = found as readonly Component[]
  const hash = sha256Hex(bytesOf(frameText(components.map(({ byteText }) => byteText))))
  return { kind: 'fingerprint', hash, scheme: rules.scheme, body, components }
}

type MaybeText = { readonly name: ComponentName; readonly byteText: string | undefined }

function queryComponent(text: string | undefined): string | undefined {
  const query = canonicalQuery(text)
  return wireList(query.kind === 'absent' ? [] : [query.kind, query.text])
}

/**
 * One frame per header: its name, then each of its lines. A chosen header is always there, without a line where the request has
 * none; those that say what is asked for are there where the request has them, so that no other request gets another fingerprint.
 */
function headersComponent(headers: HeaderList, chosen: readonly string[]): string | undefined {
  const counted = countedIn(headers, saysWhat)
  const names = counted.length === 0 ? chosen : [...new Set([...chosen, ...counted])].sort()
  const frames: string[] = []
  for (const list of asLists(headers, names)) {
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
