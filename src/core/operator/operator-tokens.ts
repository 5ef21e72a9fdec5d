/**
 * Who may call the operator listener, from a file: one person or tool a line, `name role token`.
 *
 * Owns the notation. A name may have several lines while its token is rotated; a token belongs to one line. A reason
 * names the line and never what stands in it.
 */

/** `view` sees records and lists; `operate` decides as well, and sees the bodies of stored answers. */
export type OperatorRole = 'view' | 'operate'

export type OperatorToken = { readonly name: string; readonly role: OperatorRole; readonly token: string }

type ParsedOperatorTokens =
  | { readonly kind: 'tokens'; readonly tokens: readonly OperatorToken[] }
  | { readonly kind: 'refused'; readonly reason: string }

/** A shorter token could be guessed: 128 bits take 22 characters of base64, 32 of hex digits. */
export const OPERATOR_TOKEN_CHARS_MIN = 32
const OPERATOR_TOKENS_MAX = 1_000

/** It stands in the audit log, and in tables on a terminal. */
const NAME = /^[A-Za-z0-9._@-]{1,64}$/
const TOKEN = /^[\x21-\x7e]{1,512}$/

/** Empty lines and lines that begin with `#` are ignored. */
export function parseOperatorTokens(content: string): ParsedOperatorTokens {
  const refused = (reason: string): ParsedOperatorTokens => ({ kind: 'refused', reason })
  const tokens: OperatorToken[] = []
  const seen = new Set<string>()
  for (const [index, line] of content.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.trim().startsWith('#')) continue
    const at = `line ${index + 1}`
    const [name = '', role = '', token = '', ...more] = line.trim().split(/\s+/)
    if (more.length > 0 || token === '') return refused(`${at} is not "name role token"`)
    if (!NAME.test(name)) return refused(`the name on ${at} is not 1 to 64 of letters, digits and . _ @ -`)
    if (role !== 'view' && role !== 'operate') return refused(`the role on ${at} is neither view nor operate`)
    if (!TOKEN.test(token) || token.length < OPERATOR_TOKEN_CHARS_MIN)
      return refused(`the token on ${at} is not ${OPERATOR_TOKEN_CHARS_MIN} to 512 visible ASCII characters`)
    if (seen.has(token)) return refused(`the token on ${at} is there twice`)
    seen.add(token)
    tokens.push({ name, role, token })
    if (tokens.length > OPERATOR_TOKENS_MAX) return refused(`it has more than ${OPERATOR_TOKENS_MAX} tokens`)
  }
  return tokens.length === 0 ? refused('there is no token in it') : { kind: 'tokens', tokens }
}
