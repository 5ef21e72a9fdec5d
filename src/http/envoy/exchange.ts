/**
 * A request and its answer as ext_proc shows them: Envoy sends the request to the application and the answer to the client, and
 * both wait for the replies from here.
 *
 *   requestHeaders → requestBody → (the application works) → responseHeaders → responseBody
 *
 * A call of gRPC says in its trailers what came of it, and its messages are not held back: responseHeaders → responseTrailers.
 *
 * Owns the reply to each of these: `forward` lets the request go on and waits for the answer, like the proxy's own connection to the
 * application. It decides nothing about the request: `core/deduplicate.ts` does.
 */

import { isGrpc } from '../../core/formats/grpc-status.ts'
import { type HeaderList, linesOf } from '../../core/header-list.ts'
import type { ForwardResult } from '../../core/ports.ts'
import { OUTCOME_HEADER } from '../../core/routes/settlement.ts'
import type { Answer } from '../message/answer.ts'
import { otherSpellings, STATUS_HEADER, sidecarHeaderNames } from '../message/headers.ts'
import type { HeldBody } from '../server/body-memory.ts'
import { type Body, memoryFull, tooLarge } from '../server/inbound.ts'
import type { Conversation } from './conversation.ts'
import { inTrailers, towardsGrpc } from './grpc-refusal.ts'
import {
  type Attribute,
  BODY_MODES,
  BODY_PASSES_BY,
  EVERYTHING,
  type HeaderMutation,
  type HttpBody,
  linesFrom,
  NOTHING_MORE,
  ONLY_TRAILERS,
  ordinaryLines,
  type Phase,
  type ProcessingMode,
  type ProcessingRequest,
  type ProcessingResponse,
  pseudoHeader,
  setting,
} from './messages.ts'

/** @property set in place of the lines of their names that came */
export type HeaderChanges = { readonly set: HeaderList; readonly removed: readonly string[] }

export interface Exchange {
  /** The head of the request, with its pseudo-headers. */
  readonly head: HeaderList
  readBody(limitBytes: number, held: HeldBody): Promise<Body>
  /** Lets the request go on to the application with these changes, and waits for the answer. Never rejects. */
  forward(changes: HeaderChanges, storedLimitBytes: number, held: HeldBody): Promise<ForwardResult>
  /** Lets the message that Envoy holds go on, request or answer; Envoy shows nothing more of it. */
  passOn(answer?: Answer): void
  /** Sends an answer in place of the message that Envoy holds. */
  replace(answer: Answer): void
}

/**
 * The log has this name: the filter is not configured as docs/guide/gateways.md requires, and the application executed a request
 * without a claim.
 */
class SentUnclaimed extends Error {
  override readonly name = 'SentUnclaimed'
}

/** What Envoy is configured to show; its first message states it. */
type Shown = { readonly requestBody: boolean; readonly responseBody: boolean }

export function exchangeOver(conversation: Conversation, first: ProcessingRequest): Exchange {
  const head = linesFrom(first.requestHeaders?.headers)
  const headers = ordinaryLines(head)
  const shown = shownBy(first)
  const foreign = sidecarHeaderNames(headers)
  let ofAnswer: readonly string[] = []
  const held = heldMessage(conversation)

  async function readBody(limitBytes: number, memory: HeldBody): Promise<Body> {
    if (first.requestHeaders?.endOfStream === true) return { kind: 'whole', bytes: Buffer.alloc(0) }
    const stated = linesOf(headers, 'content-length')[0]
    if (Number(stated ?? 0) > limitBytes) return tooLarge(limitBytes)
    if (!memory.fits(Number(stated ?? 0))) return memoryFull(memory)
    if (!shown.requestBody) return { kind: 'refused', problem: BODY_NOT_SHOWN }
    held.goOn({ removeHeaders: foreign }, EVERYTHING)
    const message = await held.next()
    // At trailers the head can't be changed any more, and the application would get no token.
    if (message?.request === 'requestTrailers') return { kind: 'refused', problem: TRAILERS_ALONE }
    if (message?.request !== 'requestBody') {
      // Envoy has answered by itself (a body above its own limit), or its client has disconnected.
      const unguarded = message !== undefined && by(message).kind === 'application'
      passOn()
      if (unguarded) throw new SentUnclaimed()
      return { kind: 'gone' }
    }
    const bytes = bytesOf(message.requestBody)
    if (bytes.length > limitBytes) return tooLarge(limitBytes)
    // A fingerprint never covers a part.
    if (stated !== undefined && bytes.length !== Number(stated))
      return { kind: 'refused', problem: NOT_WHOLE }
    return memory.take(bytes.length) ? { kind: 'whole', bytes } : memoryFull(memory)
  }

  async function forward(
    { set, removed }: HeaderChanges,
    storedLimitBytes: number,
    memory: HeldBody,
  ): Promise<ForwardResult> {
    if (conversation.wentOn()) {
      if (!conversation.ended.aborted) await held.next()
      return { kind: 'never_sent', detail: 'Envoy gave the request up before it was let through' }
    }
    const removeHeaders = [...new Set([...foreign, ...removed, ...otherSpellings(headers, set)])]
    held.goOn({ setHeaders: setting(set, 'bytes'), removeHeaders })
    for (;;) {
      const message = await held.next()
      if (message === undefined) return lost('Envoy ended the stream before the answer')
      if (message.request === 'responseHeaders') return answerFrom(message, storedLimitBytes, memory)
      if (message.request !== 'requestTrailers') return lost(`Envoy went on with ${message.request}`)
      held.goOn({})
    }
  }

  async function answerFrom(
    message: ProcessingRequest,
    storedLimitBytes: number,
    memory: HeldBody,
  ): Promise<ForwardResult> {
    const lines = linesFrom(message.responseHeaders?.headers)
    const status = Number(pseudoHeader(lines, ':status'))
    const own = ordinaryLines(lines)
    ofAnswer = sidecarHeaderNames(own)
    const from = by(message)
    switch (from.kind) {
      case 'never_sent':
      case 'no_answer':
        return from
      case 'envoy':
        // Nothing was executed, so this answer is no outcome.
        return answered(status, [...own, [OUTCOME_HEADER, 'release']], Buffer.alloc(0))
      case 'application':
        break
    }
    if (message.responseHeaders?.endOfStream === true) return answered(status, own, Buffer.alloc(0))
    if (isGrpc(own)) {
      held.goOn({ removeHeaders: ofAnswer }, ONLY_TRAILERS)
      const trailers = await trailersOf(held)
      ofAnswer = sidecarHeaderNames(trailers)
      return passingBy(status, [...own, ...trailers])
    }
    // Envoy sends all that it holds at once.
    const bytes = Number(linesOf(own, 'content-length')[0] ?? storedLimitBytes)
    if (!shown.responseBody || bytes > storedLimitBytes || isStream(own) || !memory.keep(bytes))
      return passingBy(status, own)
    held.goOn({ removeHeaders: ofAnswer })
    return wholeAnswer(status, own, await held.next(), storedLimitBytes)
  }

  function passOn(answer?: Answer): void {
    if (answer === undefined || !held.isOfAnswer) {
      held.goOn({ removeHeaders: foreign }, NOTHING_MORE)
    } else {
      const status = answer.headers.filter(([name]) => name === STATUS_HEADER)
      held.goOn({ setHeaders: setting(status, 'bytes'), removeHeaders: ofAnswer }, BODY_PASSES_BY)
    }
    conversation.leave()
  }

  function replace(answer: Answer): void {
    held.replace(towardsGrpc(answer, headers))
    conversation.leave()
  }

  return { head, readBody, forward, passOn, replace }
}

function shownBy({ protocolConfig }: ProcessingRequest): Shown {
  const { requestBodyMode, responseBodyMode } = protocolConfig ?? {}
  return {
    requestBody: requestBodyMode === BODY_MODES.buffered,
    // In mode BUFFERED Envoy answers 500 if an answer is larger than its buffer.
    responseBody: responseBodyMode === BODY_MODES.bufferedPartial || responseBodyMode === BODY_MODES.buffered,
  }
}

function by({ attributes = {} }: ProcessingRequest): AnsweredBy {
  return answeredBy(Object.values(attributes)[0]?.fields ?? {})
}

function bytesOf(body: HttpBody | undefined): Buffer {
  return body?.body ?? Buffer.alloc(0)
}

/** Answers without an end to wait for. */
function isStream(headers: HeaderList): boolean {
  return /^text\/event-stream/i.test(linesOf(headers, 'content-type')[0] ?? '')
}

/** Where Envoy ends without them, what is behind the body is not known, and the head stands: the application has answered. */
async function trailersOf(held: HeldMessage): Promise<HeaderList> {
  for (;;) {
    const message = await held.next()
    if (message === undefined) return []
    if (message.request === 'responseTrailers') return linesFrom(message.responseTrailers?.trailers)
    held.goOn({})
  }
}

/** What Envoy holds after the head of an answer: its body, or as much of it as Envoy can hold. */
function wholeAnswer(
  status: number,
  headers: HeaderList,
  held: ProcessingRequest | undefined,
  storedLimitBytes: number,
): ForwardResult {
  if (held === undefined) return lost('Envoy ended the stream before the answer was whole')
  if (held.request !== 'responseBody') return passingBy(status, headers)
  const stated = linesOf(headers, 'content-length')[0]
  const body = bytesOf(held.responseBody)
  const whole =
    held.responseBody?.endOfStream === true || (stated !== undefined && body.length === Number(stated))
  return whole && body.length <= storedLimitBytes
    ? answered(status, headers, body)
    : passingBy(status, headers)
}

function answered(status: number, headers: HeaderList, body: Buffer): ForwardResult {
  return { kind: 'answered', response: { status, headers, body } }
}

/** Lets the body pass unseen: the record has no body. */
function passingBy(status: number, headers: HeaderList): ForwardResult {
  const response = { status, headers, body: Buffer.alloc(0), oversized: { stream: nothing() } }
  return { kind: 'answered', response }
}

async function* nothing(): AsyncGenerator<Buffer> {}

function lost(detail: string): ForwardResult {
  return { kind: 'no_answer', cause: 'reset', detail }
}

const BODY_NOT_SHOWN = {
  code: 'internal-error',
  detail:
    'Nothing was carried out: on a protected route Envoy has to show the whole body (request_body_mode: BUFFERED), and says that it does not.',
} as const

const TRAILERS_ALONE = {
  code: 'malformed-request',
  detail:
    'The request has trailers and no body, which is not taken on a protected route. Nothing was carried out.',
} as const

const NOT_WHOLE = {
  code: 'malformed-request',
  detail: 'The body is not as long as the request states. Nothing was carried out.',
} as const

type AnsweredBy =
  | { readonly kind: 'application' }
  /** Envoy answered by itself and sent nothing: no route, a redirect, another filter that refused. */
  | { readonly kind: 'envoy' }
  /** No connection to the application. */
  | { readonly kind: 'never_sent'; readonly detail: string }
  | { readonly kind: 'no_answer'; readonly cause: 'reset' | 'timeout' | 'malformed'; readonly detail: string }

const NOTHING_TO_SEND =
  /^(direct_response|route_not_found|cluster_not_found|maintenance_mode|response_payload_too_large_for_request|request_payload_too_large)$/
const NO_CONNECTION =
  /^(no_healthy_upstream|upstream_reset_before_response_started\{(remote_connection_failure|local_connection_failure|connection_failure|connection_timeout|overflow)\b.*)$/

/**
 * Whether the application answered, or Envoy in its place, whose answers look alike: its 503 may mean that nothing was sent, or that the answer
 * was lost. After an unknown reason the request may have been executed.
 *
 * Source: Envoy, "Response Code Details"; its stream reset reasons in envoy/http/codec.h.
 */
export function answeredBy(attributes: Readonly<Record<string, Attribute>>): AnsweredBy {
  const detail = attributes['response.code_details']?.stringValue
  if (detail === 'via_upstream') return { kind: 'application' }
  if (detail === undefined)
    return {
      kind: 'no_answer',
      cause: 'malformed',
      detail: 'Envoy does not say who answered: response_attributes has to name response.code_details',
    }
  if (NOTHING_TO_SEND.test(detail)) return { kind: 'envoy' }
  // A failed last attempt says nothing of earlier attempts.
  const attempts = attributes['upstream.request_attempt_count']?.numberValue
  if (NO_CONNECTION.test(detail) && attempts === 1) return { kind: 'never_sent', detail }
  const cause = /timeout/.test(detail) ? 'timeout' : /protocol_error/.test(detail) ? 'malformed' : 'reset'
  return { kind: 'no_answer', cause, detail }
}

/** The message that Envoy holds until it gets a reply: it is let go on, or replaced. It knows the phase, so that none gets two replies. */
interface HeldMessage {
  readonly isOfAnswer: boolean
  /** Waits for the next message; undefined if Envoy has ended the stream. */
  next(): Promise<ProcessingRequest | undefined>
  /** Lets the message go on, if Envoy holds one. */
  goOn(mutation: Partial<HeaderMutation>, modeOverride?: ProcessingMode): void
  replace(answer: Answer): void
}

/** @param conversation has begun with the head of a request */
function heldMessage(conversation: Conversation): HeldMessage {
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
