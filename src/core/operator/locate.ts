/**
 * From what support has to the keys of records: names, digests, and the ids that logs and answers carry.
 *
 * Owns the forms: a record key, the 64 digits of its hash, or the 16 digits of it that log lines and problem documents
 * show, alone or as the first part of a lock id. Only the 16 digits need a search; everything else is computed.
 */

import { percentEncode } from '../formats/framing.ts'
import type { Scope } from '../request/identity.ts'

const RECORD_KEY = /^dedup:[^:]+:[^:]+:[^:]+(?::(lock|content))?:[0-9a-f]{64}$/

/** Of any record that a request or a reservation can have. */
export function isRecordKey(text: string): boolean {
  return text.length <= 2_048 && RECORD_KEY.test(text) && !text.startsWith('dedup:%:')
}

/** What sort of record it is, by its key: by the mark behind the scope, whose names may be the same words. */
export function sortOfRecord(recordKey: string): 'work' | 'entity' | 'content' {
  switch (RECORD_KEY.exec(recordKey)?.[1]) {
    case 'lock':
      return 'entity'
    case 'content':
      return 'content'
    default:
      return 'work'
  }
}

type Reference =
  | { readonly kind: 'record'; readonly recordKey: string }
  | { readonly kind: 'hash'; readonly hash: string }
  /** The first 16 digits of the hash: what log lines, traces and problem documents show. */
  | { readonly kind: 'short'; readonly digits: string }
  /** Of a problem document. */
  | { readonly kind: 'instance'; readonly instance: string }

/** Undefined where the text is none of them. */
export function parseReference(text: string): Reference | undefined {
  if (isRecordKey(text)) return { kind: 'record', recordKey: text }
  if (/^[0-9a-f]{64}$/.test(text)) return { kind: 'hash', hash: text }
  const short = /^([0-9a-f]{16})(?:-\d{1,16})?$/.exec(text)?.[1]
  if (short !== undefined) return { kind: 'short', digits: short }
  const uuid = /^(?:urn:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(text)?.[1]
  return uuid === undefined ? undefined : { kind: 'instance', instance: `urn:uuid:${uuid}` }
}

/** The keys that a hash can stand for in a scope: a request or reservation, an entity, a mark of a content. */
export function keysOfHash({ tenant, env, apiVersion }: Scope, hash: string): readonly string[] {
  const scope = [tenant, env, apiVersion].map((part) => percentEncode(part) ?? '')
  return ['', ':lock', ':content'].map((mark) => `dedup:${scope.join(':')}${mark}:${hash}`)
}
