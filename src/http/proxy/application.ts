/**
 * What the proxy needs from the application behind it, as an interface; `upstream/` implements it.
 *
 * Owns the words only. A failure is a value: whether the request may have been carried out decides what is answered.
 */

import type { Duplex, Readable } from 'node:stream'
import type { HeaderList } from '../../core/header-list.ts'
import type { ForwardResult } from '../../core/ports.ts'

export type ApplicationRequest = {
  readonly method: string
  /** Path and query exactly as they came; begins with a slash. */
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer | Readable | undefined
}

export type ForwardLimits = {
  /** From the hand-over of the request to the whole answer. */
  readonly answerWithinMs: number
  /** Longest body that is kept in memory; a longer one is passed on as a stream. */
  readonly storedLimitBytes: number
  /** Aborts when nobody waits for the answer any more; then a stream has `answerWithinMs` left to end. */
  readonly abandoned?: AbortSignal
}

export type Reply = {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: HeaderList
  /** Fails where the answer is cut. Has to be read to its end or destroyed. */
  readonly body: Readable
}

export type Tunnel = { readonly kind: 'tunnel'; readonly headers: HeaderList; readonly socket: Duplex }

export type Failure = Exclude<ForwardResult, { kind: 'answered' }>

/** Nothing here rejects. */
export interface Application {
  forward(request: ApplicationRequest, limits: ForwardLimits): Promise<ForwardResult>
  /** Passes the answer on as it comes. `answerWithinMs` is for its head. */
  stream(request: ApplicationRequest, answerWithinMs: number, signal: AbortSignal): Promise<Reply | Failure>
  upgrade(
    request: ApplicationRequest,
    protocol: string,
    answerWithinMs: number,
  ): Promise<Tunnel | Reply | Failure>
}
