/**
 * Who calls, and what their role allows: `view` sees, `operate` decides as well, and sees what users sent.
 *
 * Owns how a token of a file is sent: as a bearer token by tools, as the password of `Basic` by a browser. An application that mounts the
 * handler says by itself who calls.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { OperatorToken } from '../core.ts'

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

/** What is refused, as problem documents (RFC 9457): the codes are those of the sidecar where the sidecar has them. */
export const problems = {
  'request-invalid': { status: 400, title: 'The request is not accepted' },
  'token-required': { status: 401, title: 'The token is missing or wrong' },
  'role-required': { status: 403, title: 'The role of the caller does not allow it' },
  'page-refused': { status: 403, title: 'A page in a browser may not call' },
  'call-unknown': { status: 404, title: 'There is no such call' },
  'saga-unknown': { status: 404, title: 'There is no such saga' },
  'saga-not-movable': { status: 409, title: 'The saga cannot be moved from where it is' },
  'body-too-large': { status: 413, title: 'The body is too large' },
  'database-unavailable': { status: 503, title: 'The database of the sagas did not answer' },
} as const satisfies Record<string, { readonly status: number; readonly title: string }>

type ProblemCode = keyof typeof problems

export class Refused extends Error {
  override readonly name = 'Refused'
  readonly code: ProblemCode
  constructor(code: ProblemCode, detail: string) {
    super(detail)
    this.code = code
  }

  get status(): number {
    return problems[this.code].status
  }

  get document(): object {
    const { status, title } = problems[this.code]
    const type = `https://fencepost.dev/problems/${this.code}`
    return { type, code: this.code, title, status, detail: this.message }
  }
}
