/**
 * The identity of a request, and the Redis key of its record: `dedup:{tenant}:{env}:{version}:{sha256 hex}`.
 *
 * No two scopes meet. The three names are percent-encoded outside `A-Z a-z 0-9 . _ -`, so a colon in a name is never
 * the one between names, and are hashed once more together with everything else. The key of a client appears only
 * inside the hash. A name is never empty, so keys with an empty tenant part (`dedup::…`) are free for our own use,
 * and `%` is always followed by two digits, so `dedup:%:…` is, too.
 */

import { bytesOf, frameText, percentEncode, sha256Hex, utf8Text, wireText } from '../formats/framing.ts'
import type { Fingerprint } from '../record/record.ts'

/** Longest tenant, environment or API version in bytes of UTF-8. A longer one is refused, never cut. */
export const SCOPE_PART_BYTES_MAX = 128

/**
 * Between the scope and the hash of an entity's key, `dedup:{tenant}:{env}:{version}:lock:{hash}`: its record is a
 * lease and never an outcome, and a reader of the nodes must be able to distinguish the two.
 */
export const ENTITY_MARK = ':lock'

/** The same for the mark of a content (`duplicate-content.ts`): it is left to expire, and never has an outcome. */
const CONTENT_MARK = ':content'

/**
 * The same for what would have come of a request that was only observed (`core/observation.ts`). No request whose route protects has such a
 * key, and no operator decides about one.
 */
const OBSERVED_MARK = ':observed'

const IDENTITY_SCHEME = 'fencepost-identity/1'

export type Scope = { readonly tenant: string; readonly env: string; readonly apiVersion: string }

export type Identity = Scope &
  (
    | {
        /** Keyed by what the client sent. */
        readonly mode: 'header'
        readonly principal: string
        readonly method: string
        /** As it crossed the wire, without the query. */
        readonly path: string
        readonly key: string
      }
    | {
        /** Keyed by what the request says. */
        readonly mode: 'content'
        readonly principal: string
        readonly method: string
        readonly path: string
        readonly fingerprint: Fingerprint
      }
    /** A value that a caller of the reservation API named; it has no method or path, and the scope is its owner. */
    | { readonly mode: 'reservation'; readonly value: string }
    /** What different requests of one scope must not work on at the same time. */
    | { readonly mode: 'entity'; readonly value: string }
  )

type RecordKey =
  | { readonly kind: 'record_key'; readonly recordKey: string }
  | {
      readonly kind: 'invalid_identity'
      readonly part: 'tenant' | 'env' | 'apiVersion' | 'principal' | 'method' | 'path' | 'key' | 'value'
      readonly reason: 'empty' | 'too_long' | 'not_text'
      readonly detail: string
    }

type Invalid = Extract<RecordKey, { kind: 'invalid_identity' }>

export function recordKey(identity: Identity): RecordKey {
  const scope = scopeOf(identity)
  if ('kind' in scope) return scope
  const parts = subjectOf(identity)
  if ('kind' in parts) return parts
  // The names of the scope are percent-encoded: each is its own bytes.
  const hash = sha256Hex(bytesOf(frameText([IDENTITY_SCHEME, ...scope, ...parts])))
  const mark = identity.mode === 'entity' ? ENTITY_MARK : ''
  return { kind: 'record_key', recordKey: `dedup:${scope.join(':')}${mark}:${hash}` }
}

/** The mark that remembers under which key the content of this record came. */
export function contentMarkOf(key: string): string {
  return marked(key, CONTENT_MARK)
}

/** Of a record, or the mark of a content. */
export function observedKeyOf(key: string): string {
  return marked(key, OBSERVED_MARK)
}

export function isObserved(key: string): boolean {
  return /^dedup:[^:]+:[^:]+:[^:]+(:content)?:observed:[0-9a-f]{64}$/.test(key)
}

function marked(key: string, mark: string): string {
  const hashAt = key.lastIndexOf(':')
  return `${key.slice(0, hashAt)}${mark}${key.slice(hashAt)}`
}

/** Whether the record of this key ends with an outcome: not that of an entity, nor the mark of a content. */
export function isWork(key: string): boolean {
  return /^dedup:[^:]+:[^:]+:[^:]+:[0-9a-f]{64}$/.test(key)
}

/** The tenant in the key of a record; undefined in keys for our own use. */
export function tenantOf(key: string): string | undefined {
  const name = /^dedup:((?:[A-Za-z0-9._-]|%[0-9A-F]{2})+):/.exec(key)?.[1]
  return name === undefined ? undefined : decodeURIComponent(name)
}

/** The fingerprint of what is only its name: a reserved value, an entity. */
export function fingerprintOfName(recordKey: string): Fingerprint {
  return sha256Hex(Buffer.from(recordKey))
}

/** The three names, encoded; or which of them is invalid. */
function scopeOf(scope: Scope): readonly string[] | Invalid {
  const encoded: string[] = []
  for (const part of ['tenant', 'env', 'apiVersion'] as const) {
    const text = scope[part]
    const name = percentEncode(text)
    if (name === undefined) return invalid(part, 'not_text', `${part} has a lone surrogate`)
    if (name === '') return invalid(part, 'empty', `${part} is empty, at least 1 byte is expected`)
    const bytes = Buffer.byteLength(text)
    if (bytes > SCOPE_PART_BYTES_MAX)
      return invalid(part, 'too_long', `${part} has ${bytes} bytes, at most ${SCOPE_PART_BYTES_MAX}`)
    encoded.push(name)
  }
  return encoded
}

/** As byte texts. */
function subjectOf(identity: Identity): readonly string[] | Invalid {
  const { mode } = identity
  if (identity.mode === 'reservation' || identity.mode === 'entity') {
    const value = utf8Text(identity.value)
    return value === undefined ? invalid('value', 'not_text', 'value has a lone surrogate') : [mode, value]
  }
  const principal = utf8Text(identity.principal)
  if (principal === undefined) return invalid('principal', 'not_text', 'principal has a lone surrogate')
  const method = wireText(identity.method)
  if (method === undefined) return invalid('method', 'not_text', 'method has a character above U+00FF')
  const path = wireText(identity.path)
  if (path === undefined) return invalid('path', 'not_text', 'path has a character above U+00FF')
  const key = utf8Text(identity.mode === 'header' ? identity.key : identity.fingerprint)
  if (key === undefined) return invalid('key', 'not_text', 'key has a lone surrogate')
  return [mode, principal, method, path, key]
}

function invalid(part: Invalid['part'], reason: Invalid['reason'], detail: string): Invalid {
  return { kind: 'invalid_identity', part, reason, detail }
}
