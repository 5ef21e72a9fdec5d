/**
 * Patterns of paths: `/payments/{id}/captures`, `/files/{rest*}`.
 *
 * Owns their grammar and how a request's path is compared with them. A path is compared in a normal form, because an
 * application behind us may well take `/%70ayments`, `//payments`, `/x/../payments/` and, on a Java server,
 * `/payments;jsessionid=1` and `/x/..;/payments` for `/payments`, and a request must not slip past its protection by its
 * spelling. The identity of a request uses its actual path, not this form.
 *
 * Servers do not agree on what divides a path and what of it they read, so it may have several readings ({@link REWRITES}, {@link scriptReadings},
 * {@link withoutFormat}); and Express, Koa and ASP.NET do not distinguish the case of letters, so each is compared in both ways. There are no
 * regular expressions of the configuration: a pattern can't be made to hang.
 *
 * Source: RFC 3986, sections 3.3 (parameters of a segment), 5.2.4 (dot segments) and 6.2.2 (normalisation of case and
 * percent-encoding); PEP 3333 and ASGI (`path` is decoded); WHATWG URL, "path state" (`\` of a special URL); RFC 3875, section 4.1.5 (`PATH_INFO`).
 */

import { queryValues } from '../formats/query.ts'
import { type HeaderList, isAliasing, readName } from '../header-list.ts'

export type Segment =
  /** Without escapes, as {@link unescaped} gives it. */
  | { readonly kind: 'literal'; readonly text: string }
  /** `{name}`: one segment, never empty. */
  | { readonly kind: 'parameter'; readonly name: string }
  /** `{name*}`, last only: the rest of the path, which may be empty. */
  | { readonly kind: 'rest'; readonly name: string }

export type PathPattern = { readonly text: string; readonly segments: readonly Segment[] }

/** Whether the case of letters counts. */
type Letters = 'as-written' | 'any-case'

/** A path as a server reads it. */
type Reading = { readonly segments: readonly string[]; readonly letters: Letters }

export type PathParameters = Readonly<Record<string, string>>

type ParsedPattern =
  | { readonly kind: 'pattern'; readonly pattern: PathPattern }
  | { readonly kind: 'malformed'; readonly reason: string }

const PARAMETER = /^\{([A-Za-z_][A-Za-z0-9_]*)(\*?)\}$/

/**
 * How other routers write a parameter (`:id`, `<id>`, `[id]`), and regular expressions (`(\d+)`, `\w+`, `.+`, `v1$`). Taken as text they match no
 * request, and what the route was to protect would pass through. As text they are written with an escape, `%3Aid`.
 */
const OTHER_SYNTAX = /^[:<[(]|[\\^|]|\.\+|\$$/

export function parsePathPattern(text: string): ParsedPattern {
  const malformed = (reason: string): ParsedPattern => ({ kind: 'malformed', reason })
  if (!text.startsWith('/')) return malformed('it does not begin with "/"')
  if (/[?#\s]/.test(text)) return malformed('it contains "?", "#" or a space')
  const segments: Segment[] = []
  const names = new Set<string>()
  const parts = normalSegments(text)
  for (const [index, part] of parts.entries()) {
    const parameter = PARAMETER.exec(part)
    if (parameter === null) {
      if (/[{}*]/.test(part)) return malformed(`"${part}" is neither plain text nor {name} nor {name*}`)
      if (OTHER_SYNTAX.test(part))
        return malformed(
          `"${part}" is the syntax of another router; a parameter is {name}, the rest of a path {name*}`,
        )
      // A request has the bytes of UTF-8, escaped.
      segments.push({ kind: 'literal', text: unescaped(Buffer.from(part).toString('latin1')) })
      continue
    }
    const [, name = '', star] = parameter
    if (names.has(name)) return malformed(`the parameter "${name}" appears twice`)
    names.add(name)
    if (star === '*' && index !== parts.length - 1) return malformed(`{${name}*} is not the last segment`)
    segments.push({ kind: star === '*' ? 'rest' : 'parameter', name })
  }
  return { kind: 'pattern', pattern: { text, segments } }
}

/** Each way in which a server may read `path` (without its query). The first is by the standard. */
export function readingsOf(path: string): readonly Reading[] {
  const ways = waysOf(path)
  return [...ways.map(asWritten), ...ways.map(inAnyCase)]
}

function asWritten(segments: readonly string[]): Reading {
  return { segments, letters: 'as-written' }
}

function inAnyCase(segments: readonly string[]): Reading {
  return { segments, letters: 'any-case' }
}

/** What a server may do to a path before it divides it, with or without what stands before: where a path has none of it, it stays one text. */
const REWRITES: readonly ((path: string) => string)[] = [
  // WSGI, ASGI and Gin undo escapes first, so that an escaped divider divides.
  (path) =>
    path.includes('%')
      ? path.replace(/%(2f|5c)/gi, (_, hex) => (hex === '2f' || hex === '2F' ? '/' : '\\'))
      : path,
  // A browser's `URL`, with which many Node frameworks read the target, and IIS.
  (path) => (path.includes('\\') ? path.replaceAll('\\', '/') : path),
  // What is blank around a segment: `trim` of PHP and `strip` of Python, file names of Windows, `$` of Python before a line feed (Starlette).
  (path) => (BLANK.test(path) ? path.replace(BLANK_AROUND, '') : path),
]

const BLANK = /%[012]|%7f|\+/i
const BLANK_AROUND = /(?<=\/)(?:%[01][0-9a-f]|%20|%7f|\+)+|(?:%[01][0-9a-f]|%20|%7f|\+)+(?=[/;]|$)/gi

function waysOf(path: string): readonly (readonly string[])[] {
  const texts = [path]
  for (const rewrite of REWRITES)
    for (const text of [...texts]) {
      const read = rewrite(text)
      if (read !== text) texts.push(read)
    }
  const divided = texts.map(normalSegments)
  const scripts = divided.flatMap(scriptReadings)
  return [...divided, ...scripts, ...[...divided, ...scripts].flatMap(withoutFormat)]
}

/** A segment that names a program which a server runs with what follows as `PATH_INFO`: PHP, CGI, ASP.NET. */
const SCRIPT = /\.(php\d?|phtml|f?cgi|p[ly]|rb|as[hmp]x?|dll|exe)$/i

/** `/shop/index.php/payments` is `/payments` of that program, its `/shop/payments`, or the program itself. */
function scriptReadings(segments: readonly string[]): readonly (readonly string[])[] {
  const at = segments.findIndex((segment) => segment.includes('.') && SCRIPT.test(withoutParameters(segment)))
  if (at === -1) return []
  const after = segments.slice(at + 1)
  return [after, [...segments.slice(0, at), ...after], segments.slice(0, at + 1)]
}

/** `/payments.json` is `/payments` for Rails and others, which read the form of the answer there; Windows leaves out a dot at the end. */
function withoutFormat(segments: readonly string[]): readonly (readonly string[])[] {
  const last = segments.at(-1)
  const named = last?.includes('.') ? /^(.+)\.\w*$/.exec(withoutParameters(last))?.[1] : undefined
  return named === undefined ? [] : [[...segments.slice(0, -1), named]]
}

function withoutParameters(segment: string): string {
  const at = segment.indexOf(';')
  return at === -1 ? segment : segment.slice(0, at)
}

/** The parameters of a path under `pattern`, or undefined where it does not match. */
export function matchReading(
  pattern: PathPattern,
  { segments: path, letters }: Reading,
): PathParameters | undefined {
  const { segments } = pattern
  const endsWithRest = segments.at(-1)?.kind === 'rest'
  if (endsWithRest ? path.length < segments.length - 1 : path.length !== segments.length) return undefined
  for (let index = 0; index < segments.length; index += 1) {
    const segment = segments[index]!
    if (segment.kind === 'literal' && !isText(path[index] ?? '', segment.text, letters)) return undefined
  }
  return parametersOf(segments, path)
}

/** With or without parameters of its own: `payments;v=1` is the segment `payments`. */
function isText(segment: string, text: string, letters: Letters): boolean {
  if (isNamed(unescaped(segment), text, letters)) return true
  return segment.includes(';') && isNamed(unescaped(withoutParameters(segment)), text, letters)
}

function isNamed(name: string, text: string, letters: Letters): boolean {
  // Every request comes here for every route: no text is made where lengths tell the answer. Letters of one byte have one length in both cases.
  if (name.length !== text.length) return false
  return name === text || (letters === 'any-case' && name.toLowerCase() === text.toLowerCase())
}

/** All escapes undone, a character a byte: the routers of applications compare what they stand for. */
function unescaped(segment: string): string {
  return segment.includes('%')
    ? segment.replace(/%[0-9a-fA-F]{2}/g, (encoded) =>
        String.fromCharCode(Number.parseInt(encoded.slice(1), 16)),
      )
    : segment
}

export const NO_PARAMETERS: PathParameters = Object.freeze(Object.create(null))

/** Of a path that matches. */
function parametersOf(segments: readonly Segment[], path: readonly string[]): PathParameters {
  let parameters: Record<string, string> | undefined
  for (let index = 0; index < segments.length; index += 1) {
    const segment = segments[index]!
    if (segment.kind === 'literal') continue
    parameters ??= Object.create(null) as Record<string, string>
    parameters[segment.name] = segment.kind === 'rest' ? path.slice(index).join('/') : path[index]!
  }
  return parameters ?? NO_PARAMETERS
}

/** The segments of a path without empty and dot segments, unreserved characters decoded, hex digits in upper case. */
function normalSegments(path: string): string[] {
  const segments: string[] = []
  for (const raw of path.split('/')) {
    const segment = raw.includes('%') ? raw.replace(/%[0-9a-fA-F]{2}/g, decodeUnreserved) : raw
    const name = withoutParameters(segment)
    if (name === '' || name === '.') continue
    if (name === '..') segments.pop()
    else segments.push(segment)
  }
  return segments
}

function decodeUnreserved(encoded: string): string {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
  return /[A-Za-z0-9\-._~]/.test(character) ? character : encoded.toUpperCase()
}

export type RequestReading = {
  readonly path: Reading
  readonly method: string
  /** `any-spelling`: `X_Mode` may be read as `X-Mode`, or not. */
  readonly names: 'as-written' | 'any-spelling'
}

type Head = {
  readonly method: string
  readonly path: string
  readonly query: string | undefined
  readonly headers: HeaderList
}

/** Each way; the first is by the standard. */
export function readingsOfRequest({ method, path, query, headers }: Head): readonly RequestReading[] {
  const paths = readingsOf(path)
  const methods = [method, ...overridesOf(headers, query)]
  const readings: RequestReading[] = []
  for (const names of namesOf(headers))
    for (const one of methods) for (const way of paths) readings.push({ path: way, method: one, names })
  return readings
}

const AS_WRITTEN = ['as-written'] as const
const BOTH = ['as-written', 'any-spelling'] as const

function namesOf(headers: HeaderList): readonly RequestReading['names'][] {
  return headers.some(([name]) => isAliasing(name)) ? BOTH : AS_WRITTEN
}

export const METHOD_OVERRIDES = 'x-http-method-override x-http-method x-method-override'

const OVERRIDES: ReadonlySet<string> = new Set(METHOD_OVERRIDES.split(' '))

function overridesOf(headers: HeaderList, query: string | undefined): readonly string[] {
  const stated = headers.filter(([name]) => name[0]?.toLowerCase() === 'x' && OVERRIDES.has(readName(name)))
  const asked = query?.includes('ethod') ? queryValues(query, '_method') : []
  return [...stated.map(([, value]) => value), ...asked].map((value) => value.trim().toUpperCase())
}
