/**
 * The application behind the proxy, as the interface that `upstream/` implements.
 *
 * Owns the types only. A failure is a value: the answer depends on whether the request may have been executed.
 */

import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { HeaderList } from '../../core/header-list.ts'
import type { ForwardResult } from '../../core/ports.ts'

type ApplicationRequest = {
  readonly method: string
  /** Path and query exactly as received; begins with a slash. */
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer | Readable | undefined
  /**
   * It changes nothing, and has no body: it may be written once more, where the application gave its kept connection up. Read by
   * `stream` alone.
   */
  readonly repeatable?: boolean
  /** The client's connection: a login may hold for it alone. */
  readonly peer?: Pick<Duplex, 'destroyed' | 'once'>
}

type ForwardLimits = {
  /** From sending the request to the complete answer. */
  readonly answerWithinMs: number
  /** Longest body that is kept in memory; a longer one is streamed. */
  readonly storedLimitBytes: number
  /** Called for each part that arrives: false if it must not be kept, and the answer is streamed. */
  readonly mayKeep?: (bytes: number) => boolean
  /** Called once the request has a connection: false if it must not be written any more. */
  readonly mayBegin?: (() => boolean) | undefined
  /** Aborts when no client waits for the answer any more; then a stream has `answerWithinMs` left to end. */
  readonly abandoned?: AbortSignal
}

export type Reply = {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: HeaderList
  /** All of it, where it came with its head; else a stream, which fails if the answer is cut, and is read to its end or destroyed. */
  readonly body: Buffer | AsyncIterable<Buffer>
}

type Tunnel = { readonly kind: 'tunnel'; readonly headers: HeaderList; readonly socket: Socket }

export type Failure = Exclude<ForwardResult, { kind: 'answered' }>

/** No method rejects. */
export interface Application {
  forward(request: ApplicationRequest, limits: ForwardLimits): Promise<ForwardResult>
  /** Passes the answer on as it comes. `answerWithinMs` is for its head. */
  stream(request: ApplicationRequest, answerWithinMs: number, signal: AbortSignal): Promise<Reply | Failure>
  upgrade(
    request: ApplicationRequest,
    protocol: string,
    answerWithinMs: number,
    signal: AbortSignal,
  ): Promise<Tunnel | Reply | Failure>
}
