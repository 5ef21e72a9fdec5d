/**
 * One stream of ext_proc as a conversation: Envoy sends a message, and waits for the reply.
 *
 * Owns the order of messages and the end of the stream, without events of gRPC. The end has a meaning for Envoy: after a regular
 * end the request goes on without us, after an error Envoy answers the client with 5xx.
 */

import type { ServerDuplexStream, ServerErrorResponse } from '@grpc/grpc-js'
import type { ProcessingRequest, ProcessingResponse } from './messages.ts'

export interface Conversation {
  /** Envoy's next message; undefined after the end of the stream. */
  next(): Promise<ProcessingRequest | undefined>
  /** Envoy has ended the stream, or sent more without waiting for a reply: no reply counts any more. */
  wentOn(): boolean
  answer(response: ProcessingResponse): void
  /** Aborts when Envoy has ended the stream, as it does with the request that the stream is about. */
  readonly ended: AbortSignal
  /** Let Envoy go on without us. */
  leave(): void
  /** Stop the request. */
  fail(why: Partial<ServerErrorResponse>): void
}

/** Envoy waits for replies; a peer that does not is read no further. */
const AHEAD_MAX = 4

export function converse(call: ServerDuplexStream<ProcessingRequest, ProcessingResponse>): Conversation {
  const said: ProcessingRequest[] = []
  const ended = new AbortController()
  let waiting: ((message: ProcessingRequest | undefined) => void) | undefined
  let left = false

  const over = (): void => {
    ended.abort()
    waiting?.(undefined)
    waiting = undefined
  }
  call.on('data', (message: ProcessingRequest) => {
    if (waiting !== undefined) {
      waiting(message)
      waiting = undefined
      return
    }
    said.push(message)
    if (said.length >= AHEAD_MAX) call.pause()
  })
  call.on('end', over).on('cancelled', over).on('close', over)
  // For a stream that we fail ourselves, and one that breaks.
  call.on('error', over)

  return {
    next: () => {
      const message = said.shift()
      if (said.length < AHEAD_MAX) call.resume()
      if (message !== undefined) return Promise.resolve(message)
      if (ended.signal.aborted) return Promise.resolve(undefined)
      return new Promise((resolve) => {
        waiting = resolve
      })
    },
    wentOn: () => said.length > 0 || ended.signal.aborted,
    answer: (response) => {
      if (!ended.signal.aborted && !left) call.write(response)
    },
    ended: ended.signal,
    leave: () => {
      if (left) return
      left = true
      if (!call.cancelled) call.end()
    },
    fail: (why) => {
      left = true
      call.emit('error', why)
    },
  }
}
