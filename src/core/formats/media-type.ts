/**
 * The media type of a body: its normal form, and which canonical form its body may have.
 *
 * Types, parameter names and the charset are compared without case; a quoted value and a token are one; the order of
 * parameters stays. The boundary of a multipart type is kept apart, because it changes with every attempt.
 *
 * Of the parameters of JSON only `charset=utf-8` means nothing. RFC 8259 defines none, but applications do: `version`
 * and `v` of APIs, `profile` of JSON-LD, `IEEE754Compatible` of OData. Two values of these are two requests.
 *
 * Source: RFC 9110, sections 8.3.1 and 8.3.2; RFC 8259, sections 8.1 and 11; RFC 6839, section 3.1 (`+json`).
 */

import { TOKEN_PATTERN, trimOws } from '../header-list.ts'

export type MediaType = {
  /** `type/subtype` in lower case. */
  readonly essence: string
  readonly charset: string | undefined
  readonly boundary: string | undefined
  /** Essence and parameters without the boundary: `text/plain;charset="utf-8"`. */
  readonly normal: string
  /** `normal` for a body that is JSON text in UTF-8: without the charset that says just that. */
  readonly normalOfJsonText: string
}

const QUOTED_PAIR = /\\(.)/gs

/** undefined where the value is no media type; a parameter named twice makes it none. */
export function parseMediaType(value: string): MediaType | undefined {
  const pieces = splitOutsideQuotes(value)
  const essence = trimOws(pieces[0]!).toLowerCase()
  const [type, subtype, ...more] = essence.split('/')
  if (!isToken(type) || !isToken(subtype) || more.length > 0) return undefined

  const parameters = new Map<string, string>()
  for (const piece of pieces.slice(1)) {
    const text = trimOws(piece)
    // The grammar allows an empty parameter, as in `text/plain;`, and it means nothing.
    if (text === '') continue
    const equals = text.indexOf('=')
    const name = text.slice(0, Math.max(equals, 0)).toLowerCase()
    const parameter = parameterValue(text.slice(equals + 1))
    if (!isToken(name) || parameter === undefined || parameters.has(name)) return undefined
    parameters.set(name, name === 'charset' ? parameter.toLowerCase() : parameter)
  }
  const boundary = type === 'multipart' ? parameters.get('boundary') : undefined
  if (boundary !== undefined) parameters.delete('boundary')
  const charset = parameters.get('charset')
  const normal = normalForm(essence, parameters)
  // What is read as JSON has no charset here but utf-8. Of text types it is defined (RFC 6657): there it stays.
  if (type !== 'text' && isJson({ essence, charset })) parameters.delete('charset')
  return { essence, charset, boundary, normal, normalOfJsonText: normalForm(essence, parameters) }
}

function normalForm(essence: string, parameters: ReadonlyMap<string, string>): string {
  const written = [...parameters].map(([name, text]) => `;${name}="${text.replace(/["\\]/g, '\\$&')}"`)
  return essence + written.join('')
}

/**
 * A JSON body is UTF-8 (RFC 8259, section 8.1). Under another charset it is not read, but compared byte for byte and
 * with that charset: no standard gives it a meaning, yet some applications decode by it, and to them the same bytes are
 * other text.
 */
export function isJson({ essence, charset }: Pick<MediaType, 'essence' | 'charset'>): boolean {
  const named = essence === 'application/json' || essence.endsWith('+json')
  return named && (charset === undefined || charset === 'utf-8')
}

export function isUrlencodedForm(media: MediaType): boolean {
  return media.essence === 'application/x-www-form-urlencoded'
}

export function isMultipartForm(media: MediaType): boolean {
  return media.essence === 'multipart/form-data'
}

function isToken(text: string | undefined): boolean {
  return text !== undefined && TOKEN_PATTERN.test(text)
}

/** Splits at semicolons; a quote that is never closed takes the rest, which then is no valid value. */
export function splitOutsideQuotes(value: string): readonly string[] {
  const pieces: string[] = []
  let from = 0
  let quoted = false
  for (let index = 0; index < value.length; index++) {
    const char = value[index]
    if (quoted && char === '\\') index++
    else if (char === '"') quoted = !quoted
    else if (char === ';' && !quoted) {
      pieces.push(value.slice(from, index))
      from = index + 1
    }
  }
  return [...pieces, value.slice(from)]
}

function parameterValue(text: string): string | undefined {
  if (TOKEN_PATTERN.test(text)) return text
  if (text.length < 2 || !text.startsWith('"') || !text.endsWith('"')) return undefined
  const inner = text.slice(1, -1)
  const unescaped = inner.replace(QUOTED_PAIR, '')
  return unescaped.includes('"') || unescaped.includes('\\') ? undefined : inner.replace(QUOTED_PAIR, '$1')
}
