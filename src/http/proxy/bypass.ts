/**
 * An unprotected request: streamed to the application and back, in both directions at once.
 *
 * Owns backpressure, and that a disconnect of either side ends the other.
 */

import type { Readable } from 'node:stream'
import { linesOf } from '../../core/formats/header-lines.ts'
import type { HeaderList } from '../../core/header-list.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import {
  type ForwardedHeaders,
  type Hop,
  STATUS_HEADER,
  towardsApplication,
  towardsClient,
} from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import { noAnswer } from '../request/outcome-answers.ts'
import { abandoned } from '../server/abandoned.ts'
import { bodyStream, hasBody, type Inbound } from '../server/inbound.ts'
import type { Application, Reply } from './application.ts'

export type BypassPorts = {
  readonly application: Application
  readonly newInstance: () => string
  readonly tracing: Tracing
}

export type BypassCall = {
  readonly inbound: Inbound
  readonly request: AdmittedRequest
  readonly hop: Hop
  readonly forwarded: ForwardedHeaders
}

/** @param read its body, where it was read already, or has `begun` to be */
export async function bypass(
  call: BypassCall,
  answerWithinMs: number,
  ports: BypassPorts,
  read?: { readonly body: Buffer; readonly begun?: boolean },
): Promise<Answer> {
  const { inbound, request } = call
  const headers = ports.tracing.outgoing(towardsApplication(request.headers, call.hop, call.forwarded))
  const streamed = () => (hasBody(inbound) ? bodyStream(inbound, read?.body) : undefined)
  const body = read === undefined || read.begun === true ? streamed() : read.body
  const length = lengthOf(request, body)
  const reply = await ports.application.stream(
    {
      method: request.method,
      target: request.target,
      headers: withHops(length === undefined ? headers : [...headers, ['Content-Length', length]], request),
      body,
      repeatable: body === undefined && SAFE.has(request.method),
      peer: inbound.req.socket,
    },
    answerWithinMs,
    abandoned(inbound.res),
  )
  if (reply.kind === 'answered') return passed(reply)
  const context = { instance: ports.newInstance }
  const because = reply.detail
  // The body was malformed or late: this is the client's answer, not what the application made of a part of it.
  if (inbound.cut.aborted) return problemAnswer(inbound.cut.reason as Problem, context, 'bypassed')
  if (reply.kind === 'never_sent') {
    const problem = {
      code: 'application-unreachable',
      detail: 'No connection to the application. Nothing was sent.',
    } as const
    return { ...problemAnswer(problem, context, 'bypassed'), because }
  }
  const { code, detail } = noAnswer(reply.cause, answerWithinMs)
  const problem = { code, detail: `${detail} The request may have been carried out.` }
  return { ...problemAnswer(problem, context, 'bypassed'), because }
}

/**
 * They change nothing (RFC 9110, section 9.2.1). A route that protects them says otherwise, and what it lets pass has its body, if
 * an empty one.
 */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

function passed({ status, headers, body }: Reply): Answer {
  const lines = towardsClient(headers)
  const length = linesOf(headers, 'content-length')[0]
  if (length !== undefined) lines.push(['Content-Length', length])
  lines.push([STATUS_HEADER, 'bypassed'])
  return { status, headers: lines, body, decision: 'bypassed', detail: 'bypassed' }
}

/** The length that the client stated; a body without one is sent in chunks. */
function lengthOf(request: AdmittedRequest, body: Buffer | Readable | undefined): string | undefined {
  if (body === undefined || Buffer.isBuffer(body)) return undefined
  return linesOf(request.headers, 'content-length')[0]?.trim()
}

/** RFC 9110, section 7.6.2: one hop fewer is left. */
function withHops(headers: HeaderList, request: AdmittedRequest): HeaderList {
  if (request.method !== 'OPTIONS') return headers
  return headers.map(([name, value]) =>
    name.toLowerCase() === 'max-forwards' && /^[0-9]+$/.test(value)
      ? [name, String(Number(value) - 1)]
      : [name, value],
  )
}
