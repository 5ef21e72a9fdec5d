/**
 * Header field values as text: optional whitespace around them, and lists.
 *
 * Source: RFC 9110, sections 5.6.1 (lists) and 5.6.3 (whitespace). Neither patterns nor `trim()`: patterns may take
 * quadratic time on a line of spaces, and `trim()` also drops U+00A0, which may be a byte of a value.
 */

/** Without spaces and tabs at either end. */
export function trimOws(value: string): string {
  let from = 0
  let to = value.length
  while (from < to && isOws(value[from]!)) from++
  while (to > from && isOws(value[to - 1]!)) to--
  return value.slice(from, to)
}

/** The elements of all lines of a list of tokens, without the empty ones, in order. */
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
