/**
 * A handler of HTTP requests that takes effect once for each `Idempotency-Key` of a caller: a duplicate gets the first
 * answer. For servers of any framework, because it reads a request's headers and body and returns an answer.
 *
 * Owns what the key is, which answers are outcomes, and the answers to a missing key, to one of another request, and to a
 * rival. Refuses to own errors: what the handler throws is thrown, nothing is kept, and a retry runs it again.
 *
 * Source: draft-ietf-httpapi-idempotency-key-header-07; RFC 9457; the sidecar's own rules, which these follow.
 */
import type { Tx } from './database.ts'
import { IdempotencyKeyReuseError, OperationInProgressError } from './errors.ts'
import { type IdempotencyRequest, withIdempotency } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import { requireName } from './option-checks.ts'

/** As much of a request as is read: those of Express, Fastify and `node:http` have it, and so has a `Request` of fetch. */
export type HttpRequest = {
  readonly headers:
    | { get(name: string): string | null }
    | Readonly<Record<string, string | readonly string[] | undefined>>
  /** Parsed, as the framework does it. Part of what must be equal in a repetition. */
  readonly body?: unknown
}

export type HttpOutcome<R> = {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body: R
}

export type HttpAnswer<R> = {
  readonly replayed: boolean
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: R
}

export type HttpProblem = {
  readonly type: string
  readonly code: string
  readonly title: string
  readonly status: number
  readonly detail: string
}

export type IdempotentHandlerOptions<Q> = Pick<IdempotencyRequest, 'scope' | 'ttlMs' | 'onInProgress'> & {
  /** Whose key it is, from what authentication has shown: two callers with the same key are two operations. */
  readonly caller: (request: Q) => string
  /** Default: the header `Idempotency-Key`, quoted or not. */
  readonly key?: (request: Q) => string | undefined
  /** What must be equal in a repetition. Default: the body. Add what else decides, such as parameters of the path. */
  readonly request?: (request: Q) => unknown
}

export function idempotentHandler<Q extends HttpRequest, R>(
  kit: SagaKit,
  options: IdempotentHandlerOptions<Q>,
  handle: (tx: Tx, request: Q) => Promise<HttpOutcome<R>>,
): (request: Q) => Promise<HttpAnswer<R | HttpProblem>> {
  const {
    caller,
    key: keyOf = keyOfHeader,
    request: partOf = ({ body }: Q) => body ?? null,
    ...rest
  } = options
  return async (request) => {
    const key = keyOf(request)
    if (key === undefined) return keyMissing
    if (!isKey(key)) return keyInvalid
    const whose = caller(request)
    // All whom authentication does not know would be one, and read each other's answers.
    requireName('the caller of an idempotency key', whose)
    const whole = { ...rest, key: JSON.stringify([whose, key]), request: partOf(request) }
    try {
      const { replayed, result } = await withIdempotency(kit, whole, async (tx) => {
        const outcome = await handle(tx, request)
        if (!isOutcome(outcome)) throw new NoOutcome(outcome)
        return outcome
      })
      return answerOf(result, replayed)
    } catch (error) {
      if (error instanceof NoOutcome) return answerOf(error.answer as HttpOutcome<R>, false)
      // One of another key is the handler's own affair.
      if (error instanceof IdempotencyKeyReuseError && error.key === whole.key && error.scope === whole.scope)
        return keyReused
      if (error instanceof OperationInProgressError) return inProgress(error.retryAfterMs)
      throw error
    }
  }
}

/** Takes the transaction back: the answer is sent, and not kept. */
class NoOutcome extends Error {
  readonly answer: unknown
  constructor(answer: unknown) {
    super('the answer is no outcome')
    this.answer = answer
  }
}

/**
 * As the sidecar settles an answer: of refusals only a verdict on the request itself is one that a retry gets again, and none that asks for
 * another form of it. With 2xx and 3xx the same lines say what comes next.
 */
const verdicts = new Set([400, 402, 409, 410, 422])
const asksForAnother =
  /^(retry-after|www-authenticate|dpop-nonce|payment-required|accept-(encoding|post|patch))$/i

function isOutcome({ status = 200, headers = {} }: HttpOutcome<unknown>): boolean {
  return (
    status < 400 || (verdicts.has(status) && !Object.keys(headers).some((name) => asksForAnother.test(name)))
  )
}

function answerOf<R>({ status = 200, headers = {}, body }: HttpOutcome<R>, replayed: boolean): HttpAnswer<R> {
  const shown = replayed
    ? { ...headers, 'idempotent-replayed': 'true', 'cache-control': 'no-store' }
    : headers
  return { replayed, status, headers: shown, body }
}

const keyCharsMax = 255

function isKey(key: string): boolean {
  return key.length <= keyCharsMax && /^[\x20-\x7e]+$/.test(key) && key.trim() !== ''
}

/** Quoted or not is one key: a client library that learns to quote must not execute twice. */
function keyOfHeader({ headers }: HttpRequest): string | undefined {
  const value =
    typeof headers.get === 'function'
      ? headers.get('idempotency-key')
      : (headers as Readonly<Record<string, unknown>>)['idempotency-key']
  if (value === undefined || value === null) return undefined
  // Several lines, which a server hands on as a list: no one key.
  if (typeof value !== 'string') return ''
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(value.trim())
  if (quoted !== null) return quoted[1]!.replace(/\\(["\\])/g, '$1')
  // An unquoted comma is a list, which is what several lines become.
  return /[",]/.test(value) ? '' : value.trim()
}

function problem(
  status: number,
  code: string,
  title: string,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): HttpAnswer<HttpProblem> {
  const body = { type: `https://fencepost.dev/problems/${code}`, code, title, status, detail }
  return {
    replayed: false,
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body,
  }
}

const keyMissing = problem(
  400,
  'key-missing',
  'An idempotency key is required',
  'Send the header Idempotency-Key, with a new key for each new operation.',
)
const keyInvalid = problem(
  400,
  'key-invalid',
  'The idempotency key is not valid',
  `One key of 1 to ${keyCharsMax} visible ASCII characters is expected.`,
)
const keyReused = problem(
  422,
  'key-reused',
  'The key was first used for another request',
  'Send a new key for a new operation.',
)
const inProgress = (retryAfterMs: number) =>
  problem(
    409,
    'request-in-progress',
    'The same request is being carried out',
    'Send it again, unchanged, after the time given.',
    { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) },
  )
