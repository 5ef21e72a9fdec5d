/**
 * Names of headers and cookies, chosen freely: those that are known to change between two tries of one request, and all others. The lists
 * are read as the reference writes them and not through the code that goes by them.
 */

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { CHANGING_COOKIES } from '../../src/core/request/changing-cookies.ts'

const page = readFileSync(new URL('../../docs/reference/fingerprint.md', import.meta.url), 'utf8')

/** What stands between backquotes in the rows of the table behind a heading. */
export function namesBehind(heading: string): readonly string[] {
  const [, table = ''] = /((?:^\|.*\n)+)/m.exec(page.slice(page.indexOf(heading))) ?? []
  return [...table.matchAll(/`([^`]+)`/g)].flatMap(([, names = '']) => names.split(' '))
}

const listed = namesBehind('## The closed list')
const changing = listed.filter((name) => !name.startsWith('…'))
const endings = listed.filter((name) => name.startsWith('…')).map((name) => name.slice(1))
const withKey = namesBehind('## With a key')
const some = fc.stringMatching(/^[a-z0-9]{1,8}$/)

/** Connection names others, so it can't be tried with any value. */
export const changingHeader: fc.Arbitrary<string> = fc.oneof(
  fc
    .tuple(fc.constantFrom(...changing.filter((name) => name !== 'connection')), some)
    .map(([name, text]) => name.replace('*', text)),
  fc.tuple(some, fc.constantFrom(...endings)).map(([text, ending]) => `x-${text}-${ending}`),
)

/** Of `forwarded` a part counts. */
const OWN = 'authorization content-type content-encoding connection cookie forwarded content-digest'.split(
  ' ',
)

function isListed(name: string): boolean {
  return (
    OWN.includes(name) ||
    changing.some((one) => (one.endsWith('*') ? name.startsWith(one.slice(0, -1)) : name === one)) ||
    endings.some((ending) => name === ending || name.endsWith(`-${ending}`)) ||
    withKey.some((one) => {
      const dashed = name.replaceAll(/[^a-z0-9-]/g, '-')
      return one.startsWith('…') ? `-${dashed}`.endsWith(`-${one.slice(1)}`) : dashed === one
    })
  )
}

/** Names that applications have, or may have tomorrow. */
const KNOWN =
  'accept accept-language if-match if-none-match content-disposition x-trino-schema x-container-read x-appwrite-key dolapikey x-api-key x-csrf-token origin referer range x-http-user x-tenant x-shopify-topic x-github-event ce-id hx-prompt hx-trigger x-priority priority x-sequence x-attempt-id x-event-timestamp x-idempotency-key idempotency-key x-client-id host x-forwarded-host x-original-host'

export const lastingHeader: fc.Arbitrary<string> = fc
  .oneof(
    fc.stringMatching(/^[a-z][a-z0-9_.!#$%&'*+^`|~-]{0,20}$/),
    fc.constantFrom(...KNOWN.split(' ')),
    fc.tuple(fc.constantFrom(...KNOWN.split(' ')), some).map(([name, text]) => `${name}-${text}`),
  )
  .filter((name) => !isListed(name))

export const changingCookie: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...CHANGING_COOKIES.names),
  fc
    .tuple(fc.constantFrom(...CHANGING_COOKIES.patterns), fc.nat())
    .map(([[start, end], id]) => `${start}${id}${end}`),
)

export const lastingCookie: fc.Arbitrary<string> = fc
  .stringMatching(/^[A-Za-z_][A-Za-z0-9_.-]{0,20}$/)
  .filter(
    (name) =>
      !CHANGING_COOKIES.names.has(name) &&
      !CHANGING_COOKIES.patterns.some(([start]) => start !== '' && name.startsWith(start)),
  )
