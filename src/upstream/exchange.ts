/**
 * One request to the application and its answer, on undici's dispatch interface.
 *
 * Owns that a request is written at most once (one that changes nothing once more, where its connection was given up), that a
 * caller sees only well-formed answers, backpressure in both directions, when waiting ends, and what errors of undici and Node mean: none of
 * them leaves this folder. It does not decide what a failure means to the client.
 *
 * Uses the raw headers, byte for byte (Latin-1): undici's parsed ones join lines and change the case of names.
 */

import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Clock, Timer } from '../core/clock.ts'
import type { HeaderList } from '../core/header-list.ts'
import type { ApplicationRequest, Failure, Tunnel } from '../core/ports.ts'
import { AnswerBody } from './answer-body.ts'
import { type ConnectedHandler, type Connection, SecondTry } from './connection.ts'
import type { Dispatching } from './shares.ts'

export type Reply = {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: HeaderList
  readonly body: AnswerBody
  /** From now on only the application's silence ends the exchange, not its length. */
  noDeadline(): void
}

type ExchangeOptions = {
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

const NOBODY_WAITS = 'nobody waits for the answer any more'
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
  request: ApplicationRequest<Readable>,
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
  { method, target, headers, body }: ApplicationRequest<Readable>,
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
    { body, repeatable = false }: ApplicationRequest<Readable>,
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
function headersFrom(raw: Dispatcher.DispatchController['rawHeaders']): HeaderList | undefined {
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

/** Our own reasons to abandon an exchange; all other errors come from undici or the socket. */
export class AnswerLate extends Error {
  override readonly name = 'AnswerLate'
}

class AnswerMalformed extends Error {
  override readonly name = 'AnswerMalformed'
}

class ClaimEnded extends Error {
  override readonly name = 'ClaimEnded'
}

const LATE = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const MALFORMED = new Set(['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'UND_ERR_HEADERS_OVERFLOW'])
/** undici's own error, which has no code. */
const PARSER_ERROR = 'HTTPParserError'
/** undici has no code for an unexpected 101. */
const UNASKED_UPGRADE = 'bad upgrade'

/**
 * What an error means: nothing was sent, or that is unknown. The criterion is whether undici had begun to write the request to a socket
 * (`onRequestStart`), not the kind of the error: a refused connection and a name that does not resolve come before that, a reset and a timeout
 * may come after it.
 *
 * Source: RFC 9110, section 9.2.2 (a proxy must not retry what is not idempotent); RFC 9112, section 6.3 (broken framing is 502).
 */
export function failureOf(error: Error, begun: boolean): Failure {
  const detail = describe(error)
  if (!begun) return { kind: 'never_sent', detail }
  return { kind: 'no_answer', cause: causeOf(error), detail }
}

function causeOf(error: Error): Extract<Failure, { kind: 'no_answer' }>['cause'] {
  const code = codeOf(error)
  if (error instanceof AnswerLate || LATE.has(code)) return 'timeout'
  if (error instanceof AnswerMalformed || MALFORMED.has(code)) return 'malformed'
  if (error.name === PARSER_ERROR) return 'malformed'
  return error.message === UNASKED_UPGRADE ? 'malformed' : 'reset'
}

/** For logs: the code if there is one. Messages of undici may quote bytes of the answer. */
function describe(error: Error): string {
  if (error instanceof AnswerLate || error instanceof AnswerMalformed || error instanceof ClaimEnded)
    return error.message
  return codeOf(error) || error.name
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : ''
}

/**
 * A connection that is to speak another protocol (RFC 9110, section 7.8): either the application agrees and both sides get the bare connection,
 * or its ordinary answer is forwarded. It is a GET: where its kept connection was given up, it is written once more.
 */
export function tunnel(
  dispatcher: Dispatching,
  request: ApplicationRequest<Readable>,
  protocol: string,
  { answerWithinMs, clock, signal }: ExchangeOptions,
): Promise<Tunnel<Socket> | Reply | Failure> {
  return new Promise((resolve) => {
    let control: Dispatcher.DispatchController | undefined
    let body: AnswerBody | undefined
    let given: Error | undefined
    const giveUp = (reason: Error): void => {
      given = reason
      control?.abort(given)
      fail(given)
    }
    const deadline = clock.timer(answerWithinMs, () =>
      giveUp(new AnswerLate(`no answer to the upgrade within ${answerWithinMs} ms`)),
    )
    const onAbort = (): void => giveUp(new Error(NOBODY_WAITS))
    /** What becomes of the connection is its caller's affair from now on. */
    const decided = (): void => {
      deadline.cancel()
      signal?.removeEventListener('abort', onAbort)
    }
    function fail(error: Error): void {
      if (given === undefined && secondTry.begins()) {
        control = undefined
        return
      }
      decided()
      body?.cut(error)
      resolve(failureOf(error, control !== undefined))
    }
    const handler: ConnectedHandler = {
      onRequestStart(controller) {
        // No caller would use or close the connection.
        if (given !== undefined) throw given
        if (control !== undefined) throw new Error('this request was already handed to a connection once')
        control = controller
        secondTry.watch(handler.connection)
      },
      onRequestUpgrade(controller, _status, _headers, socket) {
        decided()
        const headers = headersFrom(controller.rawHeaders)
        if (headers === undefined) {
          socket.destroy()
          fail(new AnswerMalformed('the head of the answer is malformed'))
          return
        }
        // undici hands over the connection itself.
        resolve({ kind: 'tunnel', headers, socket: socket as Socket })
      },
      onResponseStart(controller, status) {
        if (status < 200) return
        decided()
        const headers = headersFrom(controller.rawHeaders)
        if (headers === undefined || status > 599) {
          controller.abort(new AnswerMalformed('the head of the answer is malformed'))
          return
        }
        body = new AnswerBody(controller)
        resolve({ kind: 'answered', status, headers, body, noDeadline: () => {} })
      },
      onResponseData(_controller, chunk) {
        body?.push(chunk)
      },
      onResponseEnd() {
        body?.end()
      },
      onResponseError(_controller, error) {
        fail(error)
      },
    }
    const send = (): void => dispatch(dispatcher, request, handler, fail, protocol)
    const secondTry = new SecondTry(send)
    signal?.addEventListener('abort', onAbort)
    if (signal?.aborted === true) onAbort()
    else send()
  })
}
