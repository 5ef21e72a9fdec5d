/**
 * The message that Envoy holds until it gets a reply: it is let go on, or replaced.
 *
 * Owns the phase of the exchange, so that no message gets two replies. `exchange.ts` decides what is changed in it.
 */

import type { Answer } from '../message/answer.ts'
import type { Conversation } from './conversation.ts'
import { inTrailers } from './grpc-refusal.ts'
import {
  type HeaderMutation,
  type Phase,
  type ProcessingMode,
  type ProcessingRequest,
  type ProcessingResponse,
  setting,
} from './messages.ts'

export interface HeldMessage {
  readonly isOfAnswer: boolean
  /** Waits for the next message; undefined if Envoy has ended the stream. */
  next(): Promise<ProcessingRequest | undefined>
  /** Lets the message go on, if Envoy holds one. */
  goOn(mutation: Partial<HeaderMutation>, modeOverride?: ProcessingMode): void
  replace(answer: Answer): void
}

/** @param conversation has begun with the head of a request */
export function heldMessage(conversation: Conversation): HeldMessage {
  let phase: Phase | undefined = 'requestHeaders'

  return {
    get isOfAnswer() {
      return phase?.startsWith('response') === true
    },
    next: async () => {
      const message = await conversation.next()
      phase = message?.request
      return message
    },
    goOn: ({ setHeaders = [], removeHeaders = [] }, modeOverride) => {
      const held = phase
      phase = undefined
      if (held === undefined) return
      const headerMutation = { setHeaders, removeHeaders }
      conversation.answer({
        [held]: held.endsWith('Trailers') ? { headerMutation } : { response: { headerMutation } },
        ...(modeOverride === undefined ? {} : { modeOverride }),
      })
    },
    replace: (answer) => {
      const held = phase
      phase = undefined
      conversation.answer(
        // Its head and its messages have gone to the client: what is left to change is how the call ends.
        held === 'responseTrailers'
          ? {
              [held]: {
                headerMutation: { setHeaders: setting(inTrailers(answer), 'bytes'), removeHeaders: [] },
              },
            }
          : { immediateResponse: immediateResponse(answer) },
      )
    },
  }
}

function immediateResponse({
  status,
  headers,
  body,
  detail,
}: Answer): NonNullable<ProcessingResponse['immediateResponse']> {
  const kept = headers.filter(([name]) => name.toLowerCase() !== 'content-length')
  // Envoy would call it text otherwise.
  const typed = kept.some(([name]) => name.toLowerCase() === 'content-type')
  return {
    status: { code: status },
    headers: { setHeaders: setting(kept, 'bytes'), removeHeaders: typed ? [] : ['content-type'] },
    // What is replaced is never a stream: those are passed on.
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    details: `fencepost_${detail}`,
  }
}
