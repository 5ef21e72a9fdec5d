/**
 * A line of `Cookie` without the cookies that change while a user does one thing.
 *
 * Owns how they are cut out. Which they are is data (`changing-cookies.ts`); every other cookie may say who asks, and counts.
 */

import { trimOws } from '../header-list.ts'
import { CHANGING_COOKIES } from './changing-cookies.ts'

/** @returns undefined where no cookie is left */
export function lastingCookies(line: string, ignored: ReadonlySet<string> = new Set()): string | undefined {
  let quotes = 0
  const lasting = line
    .split(';')
    .map(trimOws)
    .filter((pair) => {
      // A semicolon between quotes ends no cookie for some readers.
      const isPair = quotes % 2 === 0
      quotes += pair.split('"').length - 1
      const name = pair.split('=', 1)[0]!
      return !(isPair && (ignored.has(`cookie:${name}`) || isChangingCookie(name)))
    })
  return lasting.length === 0 ? undefined : lasting.join('; ')
}

/** An id has a digit: `_ga_X1` is one of them, and not the `_ga_session` of an application. */
function isChangingCookie(name: string): boolean {
  return (
    CHANGING_COOKIES.names.has(name) ||
    CHANGING_COOKIES.patterns.some(
      ([start, end]) =>
        name.startsWith(start) &&
        name.endsWith(end) &&
        /\d/.test(name.slice(start.length, name.length - end.length)),
    )
  )
}
