/**
 * One request to the application and its answer, on undici's dispatch interface.
 *
 * Owns that a request is written at most once, that a caller sees only well-formed answers, backpressure in both
 * directions, and when waiting ends. It does not decide what a failure means to the client.
 *
 * Uses the raw headers, byte for byte (Latin-1): undici's parsed ones join lines and change the case of names.
 */

import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Clock } from '../core/clock.ts'
import type { HeaderList } from '../core/header-list.ts'
import { AnswerBody } from './answer-body.ts'
import { AnswerLate, AnswerMalformed, ClaimEnded, type Failure, failureOf } from './failure.ts'

export type ApplicationRequest = {
  readonly method: string
  /** Path and query exactly as received; begins with a slash. */
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer | Readable | undefined
}

export type Reply = {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: HeaderList
  readonly body: AnswerBody
  /** From now on only the application's silence ends the exchange, not its length. */
  noDeadline(): void
}

export type ExchangeOptions = {
  /** From sending the request to the last byte of the answer, unless `noDeadline` is called. */
  readonly answerWithinMs: number
  readonly clock: Clock
  /** Ends the exchange: for requests that no client waits for and no record needs. */
  readonly signal?: AbortSignal
  /** Called once the request has a connection: false if it must not be written any more. */
  readonly mayBegin?: () => boolean
}

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Never rejects. */
export function exchange(
  dispatcher: Dispatcher,
  request: ApplicationRequest,
  { answerWithinMs, clock, signal, mayBegin }: ExchangeOptions,
): Promise<Reply | Failure> {
  return new Promise((resolve) => {
    let control: Dispatcher.DispatchController | undefined
    let body: AnswerBody | undefined
    let given: Error | undefined

    const deadline = clock.timer(answerWithinMs, () => {
      giveUp(new AnswerLate(`no whole answer within ${answerWithinMs} ms`))
    })

    const onAbort = (): void => giveUp(new Error('nobody waits for the answer any more'))
    signal?.addEventListener('abort', onAbort)
    if (signal?.aborted === true) given = new Error('nobody waits for the answer any more')

    function giveUp(error: Error): void {
      given ??= error
      if (control !== undefined) control.abort(error)
      // No connection yet. If one comes, `onRequestStart` refuses to use it.
      else fail(error)
    }

    function finish(): void {
      deadline.cancel()
      signal?.removeEventListener('abort', onAbort)
    }

    function fail(error: Error): void {
      finish()
      const reason = given ?? error
      if (body !== undefined) body.cut(reason)
      else resolve(failureOf(reason, control !== undefined))
    }

    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(controller) {
        if (given !== undefined) throw given
        // In some races of a closing socket undici queues a request again; it must not be written again.
        if (control !== undefined) throw new Error('this request was already handed to a connection once')
        if (mayBegin?.() === false) throw new ClaimEnded('the claim ended before there was a connection')
        control = controller
      },
      onResponseStart(controller, status) {
        if (status < 200) return
        const headers = headersFrom(controller.rawHeaders)
        if (headers === undefined || status > 599) {
          giveUp(new AnswerMalformed('the head of the answer is malformed'))
          return
        }
        body = new AnswerBody(controller)
        resolve({ kind: 'answered', status, headers, body, noDeadline: () => deadline.cancel() })
      },
      onResponseData(_controller, chunk) {
        body?.push(chunk)
      },
      onResponseEnd() {
        finish()
        body?.end()
      },
      onResponseError(_controller, error) {
        fail(error)
      },
    }

    try {
      dispatcher.dispatch(
        {
          method: request.method as Dispatcher.HttpMethod,
          path: request.target,
          headers: request.headers.flat(),
          body: request.body ?? null,
          // undici would pipeline or repeat requests that it considers idempotent.
          idempotent: false,
          headersTimeout: 0,
        },
        handler,
      )
    } catch (error) {
      fail(error instanceof Error ? error : new Error(String(error)))
    }
  })
}

/** Undefined if a line could not be forwarded safely. */
export function headersFrom(raw: Dispatcher.DispatchController['rawHeaders']): HeaderList | undefined {
  if (!Array.isArray(raw)) return []
  const headers: [string, string][] = []
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = latin1(raw[index]!)
    const value = latin1(raw[index + 1]!)
    if (!FIELD_NAME.test(name) || !FIELD_VALUE.test(value)) return undefined
    headers.push([name, value])
  }
  return headers
}

function latin1(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}
