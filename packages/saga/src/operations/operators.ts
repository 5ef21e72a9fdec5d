/**
 * Who calls, and what their role allows: `view` sees, `operate` decides as well, and sees what users sent.
 *
 * Owns how a token of a file is sent: as a bearer token by tools, as the password of `Basic` by a browser. An application that mounts the
 * handler says by itself who calls.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { OperatorToken } from '../core.ts'
import { Refused } from './refusals.ts'

export type Operator = Pick<OperatorToken, 'name' | 'role'>

/** Compares hashes, and all of them: the time reveals neither length nor content, nor which token matched. */
export function operatorOf(
  { headers }: Pick<IncomingMessage, 'headers'>,
  tokens: readonly OperatorToken[],
): Operator | undefined {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  const given = hash(tokenOf(headers.authorization ?? ''))
  return tokens.filter(({ token }) => timingSafeEqual(given, hash(token)))[0]
}

/** RFC 6750, section 2.1; RFC 7617, where the name may be any. */
function tokenOf(authorization: string): string {
  const [, scheme = '', sent = ''] = /^(bearer|basic) +(\S+) *$/i.exec(authorization) ?? []
  if (scheme.toLowerCase() !== 'basic') return sent
  const pair = Buffer.from(sent, 'base64').toString('utf8')
  return pair.slice(pair.indexOf(':') + 1)
}

/**
 * A browser sends what it knows of a person along with the forms of any page. It says which page that was, and a program that says
 * nothing of it is none.
 */
export function requireOwnPage({ headers }: Pick<IncomingMessage, 'headers'>): void {
  const site = headers['sec-fetch-site']
  const { origin } = headers
  const isOwn =
    site === undefined
      ? origin === undefined || (URL.canParse(origin) && new URL(origin).host === headers.host)
      : site === 'same-origin' || site === 'none'
  if (!isOwn) throw new Refused('page-refused', 'A page of another site may not decide. Nothing was decided.')
}
