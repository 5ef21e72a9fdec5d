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

export type ProblemCode = keyof typeof problems

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
