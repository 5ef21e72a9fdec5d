/**
 * Takes values out of an answer before it is stored.
 *
 * Owns the rule that in doubt nothing is stored: what is taken for JSON and can't be written again without loss, and what
 * can't be read at all, is `unredactable`, and a tombstone takes its place. The first client gets the answer as it was.
 */

import { canonicalJson, type RawJsonReason } from '../formats/canonical-json.ts'
import { linesOf } from '../formats/header-lines.ts'
import { compileSelection, type JsonPointer } from '../formats/json-pointer.ts'
import { parseMediaType } from '../formats/media-type.ts'
import type { HeaderList } from '../header-list.ts'

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
  return IS_NO_JSON.has(left.reason) && isAnotherMedium(headers)
    ? { kind: 'redacted', headers, body }
    : { kind: 'unredactable' }
}

/** Every other reason is one of JSON that loses something, or that was not read to its end; whatever it says to be. */
const IS_NO_JSON: ReadonlySet<RawJsonReason> = new Set<RawJsonReason>(['syntax', 'invalid_utf8'])

/** Another medium has no such values. Where it says nothing, or names JSON in whatever charset or sequence (NDJSON), it may have. */
function isAnotherMedium(headers: HeaderList): boolean {
  const media = linesOf(headers, 'content-type').map(parseMediaType)
  return media.length > 0 && media.every((each) => each !== undefined && !each.essence.includes('json'))
}
