/**
 * The headers of a message as this program hands them on: all lines of one header, in order, as they crossed the wire (Latin-1), and the name
 * by which an application may read it. Lines are never joined: two lines are not one line.
 */

export type HeaderLine = readonly [name: string, value: string]

/** Whole headers as they crossed the wire: names in their own case, one entry a line, order kept. */
export type HeaderList = readonly HeaderLine[]

const NONE: readonly string[] = Object.freeze([])

/** @param name in lower case */
export function linesOf(headers: HeaderList, name: string): readonly string[] {
  // Called some twenty times per request, and mostly there is no such line, or one: compare lengths before letters, and make
  // no list that grows.
  let lines: string[] | undefined
  for (const line of headers) {
    const header = line[0]
    if (header.length !== name.length || header.toLowerCase() !== name) continue
    if (lines === undefined) lines = [line[1]]
    else lines.push(line[1])
  }
  return lines ?? NONE
}

/**
 * A name as an application may read it: in any case, and what is no letter or digit is `-`. CGI, WSGI and Rack make `_` of `-`, PHP of
 * `.` as well, some servers of every other sign. Where a header may come from some senders only, or counts by its
 * name, this is the name: any other spelling would bring it past us.
 */
export function readName(name: string): string {
  const lower = name.toLowerCase()
  return ALIASING.test(lower) ? lower.replaceAll(ALL_ALIASING, '-') : lower
}

const ALIASING = /[^a-z0-9-]/
const ALL_ALIASING = /[^a-z0-9-]/g

/** An application may read it by another name. */
export function isAliasing(name: string): boolean {
  return /[^a-zA-Z0-9-]/.test(name)
}

/** All lines that an application may read by `name`, in whatever spelling. */
export function linesReadAs(headers: HeaderList, name: string): readonly string[] {
  // A name keeps its length in every spelling.
  if (!headers.some(([header]) => header.length === name.length && isAliasing(header)) && !isAliasing(name))
    return linesOf(headers, name)
  const read = readName(name)
  return headers.filter(([header]) => readName(header) === read).map(([, value]) => value)
}

/** Whether an application may read `name`, which is in lower case as `names` are, by one of them. */
export function isReadAsOneOf(names: readonly string[], name: string): boolean {
  return (
    names.includes(name) ||
    names.some((one) => one.length === name.length && readName(one) === readName(name))
  )
}

/**
 * Without spaces and tabs at either end (RFC 9110, section 5.6.3). Neither patterns nor `trim()`: patterns may take
 * quadratic time on a line of spaces, and `trim()` also drops U+00A0, which may be a byte of a value.
 */
export function trimOws(value: string): string {
  let from = 0
  let to = value.length
  while (from < to && isOws(value[from]!)) from++
  while (to > from && isOws(value[to - 1]!)) to--
  return value.slice(from, to)
}

/** The elements of all lines of a list of tokens (RFC 9110, section 5.6.1), without the empty ones, in order. */
export function tokenList(lines: readonly string[]): readonly string[] {
  return lines
    .flatMap((line) => line.split(','))
    .map(trimOws)
    .filter((element) => element !== '')
}

/** RFC 9110, section 5.6.2. */
export const TOKEN_PATTERN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

function isOws(char: string): boolean {
  return char === ' ' || char === '\t'
}
