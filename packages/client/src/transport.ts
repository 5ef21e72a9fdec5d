/**
 * One call to the sidecar, retried while that can help and time is left.
 *
 * Owns retries: repeats what is safe to repeat after the time that the sidecar states (`Retry-After`), or after a
 * growing delay without one, always with jitter, inside one budget for all tries. Every call of the API is safe to
 * repeat: reserving because of its session, the others because of what they carry.
 */

import {
  errorFrom,
  type FencepostError,
  type ProblemDocument,
  RefusedError,
  UnreachableError,
} from './errors.ts'

/** As much of `fetch` as is used: those of runtimes and of undici fit, whose types don't fit each other. */
export type FetchLike = (
  url: string,
  init: {
    readonly method: 'GET' | 'POST'
    readonly headers: Record<string, string>
    readonly body?: string
    readonly signal: AbortSignal
  },
) => Promise<{
  readonly ok: boolean
  readonly status: number
  readonly headers: AnswerHeaders
  text(): Promise<string>
}>

type AnswerHeaders = { get(name: string): string | null }

export type TransportOptions = {
  readonly url: string
  readonly token: string | undefined
  readonly fetch: FetchLike
  /** Budget for all tries of one call. */
  readonly retryForMs: number
  /** Time for one try, besides the waiting that the call requests. */
  readonly callTimeoutMs: number
  /** Whether a sidecar has ever answered there: then a refused connection is its restart, and worth another try. */
  readonly reached: { yet: boolean }
}

export type CallOptions = {
  /** Ends the call at once. */
  readonly signal?: AbortSignal | undefined
  /** Waiting that the call requested of the sidecar. */
  readonly waitMs?: number
  /** Less than the usual budget, if time is short. */
  readonly retryForMs?: number
}

export type Answered = {
  readonly body: Record<string, unknown>
  /** Just before the try that got the answer, on {@link nowMs}. */
  readonly sentAtMs: number
}

/** Never goes back, and does not notice a change of the system's clock. */
export function nowMs(): number {
  return performance.now()
}

const FIRST_DELAY_MS = 50
const LONGEST_DELAY_MS = 2_000
/** A later try may succeed: too many others, or a sidecar that ends. */
export const RETRIED: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])
/** No process listens there, or no machine has the name: in the words of Node, and of Bun. */
const NO_LISTENER = /^(ECONNREFUSED|ENOTFOUND|ConnectionRefused)$/

export async function call(
  method: 'GET' | 'POST',
  path: string,
  body: Record<string, unknown> | undefined,
  options: TransportOptions,
  { signal, waitMs = 0, retryForMs = options.retryForMs }: CallOptions = {},
): Promise<Answered> {
  // Before the first try: what JSON can't express is the caller's error, not a failed call.
  const text = body === undefined ? undefined : JSON.stringify(body)
  const untilMs = nowMs() + retryForMs + waitMs
  let silent = false
  for (let retry = 0; ; retry += 1) {
    const tried = await tryOnce(method, path, text, options, signal, waitMs)
    if ('body' in tried) return tried
    const { error, retryAfterMs } = tried
    signal?.throwIfAborted()
    const ceilingMs = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** retry)
    // The sidecar states the minimum; callers that were refused together must not return together.
    const askedMs = typeof retryAfterMs === 'number' ? retryAfterMs : 0
    const delayMs = askedMs + Math.random() * ceilingMs
    // After a try without an answer, the holder may be an earlier try of our own, still in progress.
    const ours = silent && error.code === 'reservation-conflict'
    silent ||= error instanceof UnreachableError
    if ((retryAfterMs === 'never' && !ours) || nowMs() + delayMs >= untilMs) throw error
    await pause(delayMs, signal)
  }
}

type Failed = {
  readonly error: FencepostError
  /** What the sidecar states; undefined without a statement. */
  readonly retryAfterMs: number | undefined | 'never'
}

async function tryOnce(
  method: 'GET' | 'POST',
  path: string,
  text: string | undefined,
  { url, token, fetch: fetchIt, callTimeoutMs, reached }: TransportOptions,
  signal: AbortSignal | undefined,
  waitMs: number,
): Promise<Answered | Failed> {
  const sentAtMs = nowMs()
  const overdue = new AbortController()
  const timer = setTimeout(() => overdue.abort(new Error('no answer in time')), callTimeoutMs + waitMs)
  const cancel = (): void => overdue.abort(signal?.reason)
  signal?.addEventListener('abort', cancel, { once: true })
  if (signal?.aborted) cancel()
  try {
    const response = await fetchIt(url + path, {
      method,
      headers: {
        ...(text === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(text === undefined ? {} : { body: text }),
      signal: overdue.signal,
    })
    const answer = documentIn(await response.text(), response.headers)
    // Once a sidecar has answered, a page is of something between: the call may have taken effect, and is tried again.
    if (answer === undefined && !reached.yet && !RETRIED.has(response.status))
      return { error: notFencepost(url, response.status), retryAfterMs: 'never' }
    if (answer === undefined) throw new Error(`status ${response.status} without a document of fencepost`)
    reached.yet = true
    if (response.ok) return { body: answer, sentAtMs }
    const problem = answer as ProblemDocument
    const error = errorFrom(response.status, problem)
    if (!RETRIED.has(response.status) || problem.code === 'record-damaged')
      return { error, retryAfterMs: 'never' }
    const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
    return { error, retryAfterMs: Number.isFinite(seconds) ? seconds * 1_000 : undefined }
  } catch (cause) {
    const code = codeOf(cause)
    const noListener = !reached.yet && NO_LISTENER.test(code ?? '')
    const why = noListener
      ? `no sidecar is reached there (${code}). Start one, or name its address: createClient({ url })`
      : `${cause instanceof Error ? cause.message : cause}${code === undefined ? '' : ` (${code})`}`
    return {
      error: new UnreachableError(`${method} ${url}${path}: ${why}`, 0, {}, { cause }),
      retryAfterMs: noListener ? 'never' : undefined,
    }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', cancel)
  }
}

/**
 * Undefined for what no sidecar sends: a page of another server. Throws where a document was cut off on its way, which
 * another try may mend.
 */
function documentIn(text: string, headers: AnswerHeaders): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : undefined
  } catch (cause) {
    if (/[/+]json\b/.test(headers.get('content-type') ?? '')) throw cause
    return undefined
  }
}

export function notFencepost(url: string, status: number): RefusedError {
  return new RefusedError(
    `${url} answered with status ${status} and not as fencepost does: name the address of the reservation API, which is on port 8081 unless FENCEPOST_API_LISTEN says otherwise`,
    status,
    {},
  )
}

/** `fetch` says only that it failed; why is in the cause, or in the cause of that. */
function codeOf(error: unknown, depth = 0): string | undefined {
  const { code, cause } = (error ?? {}) as { readonly code?: unknown; readonly cause?: unknown }
  if (typeof code === 'string') return code
  return cause === undefined || depth === 3 ? undefined : codeOf(cause, depth + 1)
}

function pause(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, delayMs)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

/** Timers of every runtime take it; some end at once where they get more than 24 days. */
export const A_DAY_MS = 86_400_000

/** As the API takes it: with its unit. */
export function duration(name: string, givenMs: number, leastMs: number, mostMs?: number): string {
  return `${wholeMs(name, givenMs, leastMs, mostMs)}ms`
}

/**
 * Times are whole numbers of milliseconds. Others are refused before a call is sent: a fraction would come back as a refusal about a notation
 * that the caller never wrote, and `30` may have been meant as seconds by somebody who finds `lease` in the API.
 */
export function wholeMs(
  name: string,
  givenMs: number,
  leastMs: number,
  mostMs = Number.MAX_SAFE_INTEGER,
): number {
  if (Number.isSafeInteger(givenMs) && givenMs >= leastMs && givenMs <= mostMs) return givenMs
  const given = typeof givenMs === 'number' ? String(givenMs) : JSON.stringify(givenMs)
  throw new TypeError(
    `${name} is ${given}; give a whole number of milliseconds from ${leastMs} to ${mostMs}: 30_000 is 30 seconds`,
  )
}
