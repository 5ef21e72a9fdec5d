/**
 * The identity of a protected request: its scope, its key, its fingerprint, and the key of its record.
 *
 * Owns the translation of a route's choices into that identity, and of what `core` finds wrong with a request into a problem.
 * Nothing is claimed and nothing is sent before this succeeds.
 */

import { hash } from 'node:crypto'
import { codingsOf, decodeBody } from '../../core/formats/content-coding.ts'
import { linesOf, linesReadAs } from '../../core/header-list.ts'
import type { Fingerprint } from '../../core/record/record.ts'
import {
  clientOf,
  compileRules,
  countedHeaders,
  type FingerprintRules,
  fingerprint,
  hashByContent,
  type IdentifiedBy,
  type RequestHead,
} from '../../core/request/fingerprint.ts'
import type { ParsedKey } from '../../core/request/idempotency-key.ts'
import { contentMarkOf, recordKey, type Scope } from '../../core/request/identity.ts'
import { entityName, type KeyCarrier, keyOf } from '../../core/request/key-parts.ts'
import type { CountedContent } from '../../core/request/near-misses.ts'
import { opensUpload } from '../../core/request/opened-upload.ts'
import {
  type Principal,
  type PrincipalRules,
  principalFrom,
  principalOfRequest,
  type TokenFault,
} from '../../core/request/principal.ts'
import type { PathParameters } from '../../core/routes/path-pattern.ts'
import type { KeyPart, ProtectedRoute } from '../../core/routes/route.ts'
import type { KeysForApplication } from '../message/headers.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import type { AdmittedRequest } from './admission.ts'

export type ScopeRules = PrincipalRules & {
  /** For requests without their own. */
  readonly defaults: Scope
  readonly tenantHeader: string
  readonly versionHeader: string
}

export type Identified = {
  readonly kind: 'identified'
  readonly recordKey: string
  readonly fingerprint: Fingerprint
  /** The key that the client sent, for messages to it. */
  readonly clientKey: string | undefined
  readonly keys: KeysForApplication
  /** In mode `both`: the record of the key under which this content arrived. */
  readonly contentRecord?: { readonly recordKey: string; readonly fingerprint: Fingerprint }
  /** Where the content is the key: what of it counted. */
  readonly counted?: () => CountedContent
  /** Records of the entities that the request names. */
  readonly entityKeys: readonly string[]
}

export type Identification =
  | Identified
  /** The route does not require a key, and there is none; or the content would be the key, and is not there yet. */
  | { readonly kind: 'unkeyed' }
  | { readonly kind: 'refused'; readonly problem: Problem; readonly clientKey?: string }

export type Subject = {
  readonly request: AdmittedRequest
  readonly body: Buffer
  readonly route: ProtectedRoute
  readonly params: PathParameters
}

export async function identify(
  subject: Subject,
  scope: Scope,
  rules: PrincipalRules,
): Promise<Identification> {
  const { request, body, route } = subject
  const { headers, query } = request
  const believable = believed(request, rules)
  const names = isBodyRead(route)
    ? await namesInBody(subject, scope, believable)
    : namesIn(subject, scope, body)
  const { key } = names
  if (key?.kind === 'missing') return route.required ? refuseMissing(route) : { kind: 'unkeyed' }
  if (key?.kind === 'invalid')
    return refuse({ code: 'key-invalid', detail: `${sentence(key.detail)} Nothing was carried out.` })
  const clientKey = key?.key
  const opening = opensUpload(request, body.length)
  if (key === undefined && opening) return { kind: 'unkeyed' }
  if (key === undefined && isHostMissing(request, route)) return refuse(HOST_UNSAID)

  const source = route.principal
  // Only a token that is verified is waited for.
  const named: Principal =
    source.kind === 'verified_jwt'
      ? await principalOfRequest(source, headers, believable)
      : principalFrom(source, headers, believable)
  if (named.kind !== 'principal') return refuse(tokenProblem(named), clientKey)
  rules.onIdentified?.(route, headers)
  const { principal, stated } = named
  const { method, path } = request
  const head: RequestHead = { ...scope, principal, clientStated: stated, method, path, query, headers }
  const limits = {
    bodyBytesMax: route.bodyLimitBytes,
    decodedBytesMax: DECODED_FACTOR * route.bodyLimitBytes,
  }
  const printed = await fingerprint(head, body, rulesOf(route), limits, identifiedBy(route))
  if (printed.kind !== 'fingerprint') return refuse(fingerprintProblem(printed), clientKey)

  const of = { ...scope, principal, method, path }
  const byContent = (fingerprint: Fingerprint) => recordKey({ ...of, mode: 'content', fingerprint })
  const record =
    clientKey === undefined ? byContent(printed.hash) : recordKey({ ...of, mode: 'header', key: clientKey })
  const both = route.mode === 'both' && route.duplicateContent === 'conflict' && !opening
  const content = both ? byContent(hashByContent(printed, head, rulesOf(route))) : undefined
  if (record.kind === 'invalid_identity' || content?.kind === 'invalid_identity') {
    const detail = record.kind === 'invalid_identity' ? record.detail : 'the request has no identity'
    return refuse({ code: 'scope-invalid', detail: sentence(detail) }, clientKey)
  }
  const { entities } = names
  if ('code' in entities) return refuse(entities, clientKey)
  return {
    kind: 'identified',
    recordKey: record.recordKey,
    fingerprint: printed.hash,
    clientKey,
    entityKeys: entities.keys,
    keys: keysForApplication(subject, clientKey, record.recordKey),
    ...(clientKey === undefined
      ? { counted: () => ({ printed, headers: countedHeaders(head, rulesOf(route), 'content'), principal }) }
      : {}),
    ...(content === undefined
      ? {}
      : {
          contentRecord: {
            recordKey: contentMarkOf(content.recordKey),
            fingerprint: sha256Hex(record.recordKey),
          },
        }),
  }
}

function believed<R extends PrincipalRules>({ untrusted }: AdmittedRequest, rules: R): R {
  return untrusted ? { ...rules, trusted: false } : rules
}

/** What a client is told of a token that does not identify it. Nothing was claimed, so it may renew the token and send the request again. */
export function tokenProblem(fault: TokenFault): Problem {
  return fault.kind === 'token_refused'
    ? {
        code: 'token-invalid',
        detail: `The bearer token ${fault.reason}. Nothing was carried out; send the request again, unchanged, with a valid token.`,
        challenge: 'Bearer error="invalid_token"',
      }
    : {
        code: 'token-unverifiable',
        detail: `${fault.detail} Nothing was carried out. Send the request again, unchanged, after the time given.`,
        retryAfterMs: RETRY_SOON_MS,
      }
}

/** Whether keys or entities are read from the body. */
function isBodyRead({ mode, key, entities }: ProtectedRoute): boolean {
  return (mode !== 'content' && key.parts.some(isInBody)) || entities.some(isInBody)
}

function isInBody(part: KeyPart): boolean {
  return part.in === 'body'
}

type Names = {
  /** Undefined where the content is the key. */
  readonly key: ParsedKey | undefined
  readonly entities: EntityKeys
}

/** @param plain the body without content codings */
function namesIn({ request, route, params }: Subject, scope: Scope, plain: Uint8Array): Names {
  const { headers, query } = request
  const carrier: KeyCarrier = { headers, query, pathParameters: params, body: plain }
  return {
    key: route.mode === 'content' ? undefined : keyOf(route.key, carrier),
    entities: entityKeys(route, carrier, scope),
  }
}

/**
 * A body that can't be decoded stays as it is, and can't be read. What it unpacks to is read at once and not kept while the request
 * waits for anything else: its turn for the fingerprint, the keys of an issuer.
 */
async function namesInBody(subject: Subject, scope: Scope, rules: PrincipalRules): Promise<Names> {
  const { request, body, route } = subject
  const codings = codingsOf(linesOf(request.headers, 'content-encoding'))
  if (codings.length === 0) return namesIn(subject, scope, body)
  // Whom a token names is not known yet; its line tells clients apart as well.
  const source = route.principal.kind === 'verified_jwt' ? UNVERIFIED : route.principal
  const client = clientOf({ ...scope, ...principalFrom(source, request.headers, rules) })
  const decoded = await decodeBody(body, codings, DECODED_FACTOR * route.bodyLimitBytes, client)
  return namesIn(subject, scope, decoded.kind === 'decoded' ? decoded.bytes : body)
}

const UNVERIFIED = { kind: 'authorization' } as const

type EntityKeys = { readonly keys: readonly string[] } | Problem

const NO_ENTITIES: EntityKeys = { keys: [] }

/** The request does not work on an entity that it does not name; an entity that can't be read is an error. */
function entityKeys(route: ProtectedRoute, carrier: KeyCarrier, scope: Scope): EntityKeys {
  if (route.entities.length === 0) return NO_ENTITIES
  const keys: string[] = []
  for (const source of route.entities) {
    const named = entityName(source, carrier)
    if (named.kind === 'missing') continue
    if (named.kind === 'invalid')
      return { code: 'key-invalid', detail: `Entity: ${named.detail}. Nothing was carried out.` }
    const record = recordKey({ ...scope, mode: 'entity', value: named.key })
    if (record.kind === 'invalid_identity') return { code: 'scope-invalid', detail: sentence(record.detail) }
    keys.push(record.recordKey)
  }
  return { keys }
}

/** A small body may decode to a large one; beyond this factor it is hashed as received (`content-coding.ts`). */
const DECODED_FACTOR = 4

/** With several spellings of `Idempotency-Key` the application may read another one than we did, so what is the key replaces them. */
function keysForApplication(
  { request: { headers }, route: { key, derivedKey } }: Subject,
  clientKey: string | undefined,
  record: string,
): KeysForApplication {
  const requestKey = record.slice(-64)
  const source = key.headers.find((name) => linesOf(headers, name).length > 0)
  const [line] = key.parts.length === 0 && source === 'idempotency-key' ? linesOf(headers, source) : []
  const own = clientKey === undefined ? undefined : line
  return { requestKey, idempotencyKey: own ?? (derivedKey ? `fp-${requestKey}` : undefined) }
}

export function scopeOf({ headers }: AdmittedRequest, rules: ScopeRules): Scope | Problem {
  const { defaults, tenantHeader, versionHeader } = rules
  if (!rules.trusted) return defaults
  for (const name of [tenantHeader, versionHeader]) {
    const lines = linesReadAs(headers, name).length
    if (lines > 1)
      return {
        code: 'scope-invalid',
        detail: `The request has ${lines} lines of ${name}, at most 1 is accepted.`,
      }
  }
  return {
    tenant: linesReadAs(headers, tenantHeader)[0] ?? defaults.tenant,
    env: defaults.env,
    apiVersion: linesReadAs(headers, versionHeader)[0] ?? defaults.apiVersion,
  }
}

/** In mode `both` the record has the client’s key. */
export function identifiedBy({ mode }: ProtectedRoute): IdentifiedBy {
  return mode === 'content' ? 'content' : 'key'
}

/** Routes are frozen values of the configuration: their rules are compiled once. */
const compiled = new WeakMap<ProtectedRoute, FingerprintRules>()

export function rulesOf(route: ProtectedRoute): FingerprintRules {
  const known = compiled.get(route)
  if (known !== undefined) return known
  const { headers, parts } = route.key
  const ofParts = parts.flatMap((part) => (part.in === 'header' ? [part.name] : []))
  const result = compileRules(route.fingerprint, route.mode === 'both' ? [...headers, ...ofParts] : [])
  if (result.kind === 'invalid')
    throw new Error(`route ${route.name}: fingerprint pointer ${result.pointer}: ${result.detail}`)
  compiled.set(route, result.rules)
  return result.rules
}

type FingerprintFault = Exclude<Awaited<ReturnType<typeof fingerprint>>, { kind: 'fingerprint' }>

export function fingerprintProblem(fault: FingerprintFault): Problem {
  switch (fault.kind) {
    case 'body_too_large':
      return {
        code: 'body-too-large',
        detail: `The body is larger than ${fault.limitBytes} bytes, which is what this route accepts. Nothing was carried out.`,
      }
    case 'digest_malformed':
      return { code: 'digest-mismatch', detail: `${sentence(fault.detail)} Nothing was carried out.` }
    case 'digest_mismatch':
      return {
        code: 'digest-mismatch',
        detail: `The body does not have the ${fault.algorithm} digest of Content-Digest. Nothing was carried out.`,
      }
    case 'not_text':
      return { code: 'malformed-request', detail: `The ${fault.component} of the request is not valid text.` }
  }
}

/** Of two tenants the host may be all that tells their requests apart. */
export function isHostMissing({ hostUnsaid }: AdmittedRequest, route: ProtectedRoute): boolean {
  const { headers, ignored } = rulesOf(route)
  return hostUnsaid === true && (headers === 'all' ? !ignored.has('host') : headers.includes('host'))
}

export const HOST_UNSAID: Problem = {
  code: 'key-missing',
  detail:
    'The request does not say its host, by which it may be another one, so its content can not be the key. Nothing was carried out; describe it with its host (a gateway in the header for that, such as X-Forwarded-Host, a caller of the API among the headers), or send an Idempotency-Key on a route that takes one.',
}

function refuseMissing(route: ProtectedRoute): Identification {
  const where = route.key.parts.length > 0 ? 'all parts of its key' : route.key.headers.join(' or ')
  return refuse({
    code: 'key-missing',
    detail: `This route requires ${where}. Nothing was carried out. Send it with a key: a new one for a new request, the same one for each retry.`,
  })
}

function refuse(problem: Problem, clientKey?: string): Identification {
  return { kind: 'refused', problem, ...(clientKey === undefined ? {} : { clientKey }) }
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`
}

function sha256Hex(text: string): string {
  return hash('sha256', text, 'hex')
}
