/**
 * Takes values out of an answer before it is stored.
 *
 * Owns the rule that in doubt nothing is stored: what is taken for JSON and can't be written again without loss, and what
 * can't be read at all, is `unredactable`, and a tombstone takes its place. The first client gets the answer as it was.
 */

import { canonicalJson } from '../formats/canonical-json.ts'
import { linesOf } from '../formats/header-lines.ts'
import { compileSelection } from '../formats/json-pointer.ts'
import { isJson, parseMediaType } from '../formats/media-type.ts'
import type { HeaderList } from '../ports.ts'
import type { JsonPointer } from './route.ts'

export type Redacted =
  | { readonly kind: 'redacted'; readonly headers: HeaderList; readonly body: Buffer }
  | { readonly kind: 'unredactable' }

/** Say something of the whole body that does not hold for what is left of it. */
const OF_THE_WHOLE = new Set(['content-digest', 'content-md5', 'content-encoding'])

export function redact(headers: HeaderList, body: Buffer, pointers: readonly JsonPointer[]): Redacted {
  if (pointers.length === 0 || body.length === 0) return { kind: 'redacted', headers, body }
  const compiled = compileSelection('exclude', pointers)
  if (compiled.kind === 'invalid' || linesOf(headers, 'content-encoding').length > 0)
    return { kind: 'unredactable' }
  const left = canonicalJson(body, compiled.selection)
  if (left.kind === 'canonical') {
    const kept = headers.filter(([name]) => !OF_THE_WHOLE.has(name.toLowerCase()))
    return { kind: 'redacted', headers: kept, body: Buffer.from(left.text) }
  }
  // Another medium has no such values. Where it says nothing or JSON, it may have.
  const [type] = linesOf(headers, 'content-type')
  const media = type === undefined ? undefined : parseMediaType(type)
  return media === undefined || isJson(media) ? { kind: 'unredactable' } : { kind: 'redacted', headers, body }
}
