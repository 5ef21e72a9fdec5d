/**
 * One request to the application and its answer, on undici's dispatch interface.
 *
 * Owns that a request is written at most once (one that changes nothing once more, where its connection was given up), that a
 * caller sees only well-formed answers, backpressure in both directions, and when waiting ends. It does not decide what a failure
 * means to the client.
 *
 * Uses the raw headers, byte for byte (Latin-1): undici's parsed ones join lines and change the case of names.
 */

import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Clock, Timer } from '../core/clock.ts'
import type { HeaderList } from '../core/header-list.ts'
import { AnswerBody } from './answer-body.ts'
import { type ConnectedHandler, type Connection, SecondTry } from './connection.ts'
import { AnswerLate, AnswerMalformed, ClaimEnded, type Failure, failureOf } from './failure.ts'
import type { Dispatching, Peer } from './shares.ts'

export type ApplicationRequest = {
  readonly method: string
  /** Path and query exactly as received; begins with a slash. */
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer | Readable | undefined
  /** It changes nothing, and has no body: it may be written once more, where the application gave its kept connection up. */
  readonly repeatable?: boolean
  /** The client's connection. */
  readonly peer?: Peer
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
  /**
   * From sending the request to the last byte of the answer, unless `noDeadline` is called. Of a body that is a stream each part begins
   * it anew: how long the client takes is not the application's silence.
   */
  readonly answerWithinMs: number
  readonly clock: Clock
  /** Ends the exchange: for requests that no client waits for and no record needs. */
  readonly signal?: AbortSignal | undefined
  /** Called once the request has a connection: false if it must not be written any more. */
  readonly mayBegin?: (() => boolean) | undefined
}

export const NOBODY_WAITS = 'nobody waits for the answer any more'
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * A refusal or a redirect of a longer body may have come before the application had read it. Many servers then close the connection and
 * do not say so (gunicorn with threads from 64 KiB on, Jetty, the JDK's own), and the next request, of somebody else, would meet that.
 */
const READ_FOR_CERTAIN_BYTES = 32 * 1024

/** Never rejects. */
export function exchange(
  dispatcher: Dispatching,
  request: ApplicationRequest,
  options: ExchangeOptions,
): Promise<Reply | Failure> {
  return new Promise((resolve) => {
    const send = (): void => dispatch(dispatcher, request, under, (error) => under.fail(error))
    const under = new Exchange(options, request, resolve, send)
    send()
  })
}

/** @param failed what undici refuses at once is told as what it meets later */
export function dispatch(
  dispatcher: Dispatching,
  { method, target, headers, body }: ApplicationRequest,
  handler: ConnectedHandler,
  failed: (error: Error) => void,
  upgrade: string | null = null,
): void {
  try {
    dispatcher.dispatch(
      {
        method: method as Dispatcher.HttpMethod,
        path: target,
        headers: headers.flat(),
        body: body ?? null,
        upgrade,
        // undici would pipeline or repeat requests that it considers idempotent.
        idempotent: false,
        headersTimeout: 0,
      },
      handler,
    )
  } catch (error) {
    failed(error instanceof Error ? error : new Error(String(error)))
  }
}

class Exchange implements ConnectedHandler {
  /** Of the pool, which has the request. */
  connection: Connection | undefined
  readonly #signal: AbortSignal | undefined
  readonly #mayBegin: (() => boolean) | undefined
  readonly #resolve: (end: Reply | Failure) => void
  readonly #clock: Clock
  readonly #answerWithinMs: number
  readonly #sent: Readable | undefined
  #sentBytes: number
  /** When the exchange began, or the last part of the body was sent. */
  #movedMonoMs: number
  #deadline: Timer
  #control: Dispatcher.DispatchController | undefined
  readonly #secondTry: SecondTry | undefined
  #body: AnswerBody | undefined
  #given: Error | undefined

  constructor(
    { answerWithinMs, clock, signal, mayBegin }: ExchangeOptions,
    { body, repeatable = false }: ApplicationRequest,
    resolve: (end: Reply | Failure) => void,
    send: () => void,
  ) {
    this.#signal = signal
    this.#mayBegin = mayBegin
    this.#resolve = resolve
    this.#clock = clock
    this.#answerWithinMs = answerWithinMs
    this.#sent = Buffer.isBuffer(body) ? undefined : body
    this.#sentBytes = Buffer.isBuffer(body) ? body.length : 0
    this.#movedMonoMs = clock.monoMs()
    this.#deadline = clock.timer(answerWithinMs, this.#onDeadline)
    if (repeatable) this.#secondTry = new SecondTry(send)
    signal?.addEventListener('abort', this.#onAbort)
    if (signal?.aborted === true) this.#given = new Error(NOBODY_WAITS)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#given !== undefined) throw this.#given
    // In some races of a closing socket undici queues a request again; it must not be written again.
    if (this.#control !== undefined) throw new Error('this request was already handed to a connection once')
    if (this.#mayBegin?.() === false) throw new ClaimEnded('the claim ended before there was a connection')
    this.#control = controller
    this.#secondTry?.watch(this.connection)
    // undici listens in the same turn, before the first part.
    this.#sent?.on('data', (part: Buffer) => {
      this.#movedMonoMs = this.#clock.monoMs()
      this.#sentBytes += part.length
    })
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return
    const headers = headersFrom(controller.rawHeaders)
    if (headers === undefined || status > 599) {
      this.#giveUp(new AnswerMalformed('the head of the answer is malformed'))
      return
    }
    if (status >= 300 && this.#sentBytes > READ_FOR_CERTAIN_BYTES) this.connection?.endAfterAnswer()
    const body = new AnswerBody(controller)
    this.#body = body
    this.#resolve({ kind: 'answered', status, headers, body, noDeadline: () => this.#deadline.cancel() })
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#body?.push(chunk)
  }

  onResponseEnd(): void {
    this.#finish()
    this.#body?.end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error)
  }

  fail(error: Error): void {
    if (this.#given === undefined && this.#secondTry?.begins() === true) {
      this.#control = undefined
      return
    }
    this.#finish()
    const reason = this.#given ?? error
    if (this.#body !== undefined) this.#body.cut(reason)
    else this.#resolve(failureOf(reason, this.#control !== undefined))
  }

  // Both here, and not where they are used: V8 creates a function that is assigned to a property in the old generation, and what it holds stays
  // until the next full collection, as would all of this exchange (docs/internals/performance.md).
  readonly #onAbort = (): void => this.#giveUp(new Error(NOBODY_WAITS))

  readonly #onDeadline = (): void => {
    const leftMs = this.#movedMonoMs + this.#answerWithinMs - this.#clock.monoMs()
    if (this.#sent !== undefined && leftMs > 0) this.#deadline = this.#clock.timer(leftMs, this.#onDeadline)
    else this.#giveUp(new AnswerLate(`no whole answer within ${this.#answerWithinMs} ms`))
  }

  #giveUp(error: Error): void {
    this.#given ??= error
    if (this.#control !== undefined) this.#control.abort(error)
    // No connection yet. If one comes, `onRequestStart` refuses to use it.
    else this.fail(error)
  }

  #finish(): void {
    this.#deadline.cancel()
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
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
