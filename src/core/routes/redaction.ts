/**
 * Removes values from an answer before it is stored.
 *
 * Owns the rule that an answer in doubt is not stored: JSON that can't be written again without loss, or can't be read
 * at all, is `unredactable`, and a tombstone takes its place. The first client gets the answer as it was.
 */

import { canonicalJson, type RawJsonReason } from '../formats/canonical-json.ts'
import { linesOf } from '../formats/header-lines.ts'
import { compileSelection, type JsonPointer } from '../formats/json-pointer.ts'
import { parseMediaType } from '../formats/media-type.ts'
import type { HeaderList } from '../header-list.ts'

export type Redacted =
  | { readonly kind: 'redacted'; readonly headers: HeaderList; readonly body: Buffer }
  | { readonly kind: 'unredactable' }

/** Describe the whole body, and no longer hold for the rest of it. */
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
