/**
 * A connection to the application that is to speak another protocol (RFC 9110, section 7.8).
 *
 * Owns the hand-over: either the application agrees and both sides get the bare connection, or its ordinary answer is
 * forwarded. It is a GET: where its kept connection was given up, it is written once more.
 */

import type { Socket } from 'node:net'
import type { Dispatcher } from 'undici'
import type { HeaderList } from '../core/header-list.ts'
import { AnswerBody } from './answer-body.ts'
import { type ConnectedHandler, SecondTry } from './connection.ts'
import {
  type ApplicationRequest,
  dispatch,
  type ExchangeOptions,
  headersFrom,
  NOBODY_WAITS,
  type Reply,
} from './exchange.ts'
import { AnswerLate, AnswerMalformed, type Failure, failureOf } from './failure.ts'
import type { Dispatching } from './shares.ts'

export type Tunnel = {
  readonly kind: 'tunnel'
  readonly headers: HeaderList
  readonly socket: Socket
}

export function tunnel(
  dispatcher: Dispatching,
  request: ApplicationRequest,
  protocol: string,
  { answerWithinMs, clock, signal }: ExchangeOptions,
): Promise<Tunnel | Reply | Failure> {
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
