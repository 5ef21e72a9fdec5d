/**
 * Dispatches a request that has arrived at the proxy: refuse it, bypass protection, or protect it.
 *
 * Owns the order of these decisions. Everything about a protected request is decided in `core/deduplicate.ts`.
 */

import type { Readable } from 'node:stream'
import { type HeaderList, linesOf } from '../../core/header-list.ts'
import type { PassedOn } from '../../core/ports.ts'
import { protects } from '../../core/routes/route.ts'
import type { Tracing } from '../../core/tracing.ts'
import { unprotectedLimit } from '../../core/units.ts'
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
import type { Arrived } from '../request/arrival.ts'
import type { Observer } from '../request/observe.ts'
import { noAnswer } from '../request/outcome-answers.ts'
import { type About, type ProtectOptions, type ProtectPorts, protect } from '../request/protect.ts'
import { DRAINING, NO_UPGRADE, overloaded, overloadedByPassing } from '../request/refusals.ts'
import type { BodyMemory } from '../server/body-memory.ts'
import { abandoned, bodyStream, hasBody, type Inbound, offersWebSocket } from '../server/inbound.ts'
import { type Application, type ForwardPorts, hopOf, protectedCall } from './application.ts'
import { observed } from './observed.ts'

export type DispatchOptions = ProtectOptions & {
  readonly forwarded: ForwardedHeaders
  /** For requests that no route matches. */
  readonly upstreamTimeoutMs: number
  readonly limits: { readonly inFlightMax: number }
}

export type DispatchPorts = ProtectPorts &
  ForwardPorts & { readonly bodyMemory: BodyMemory; readonly observer: Observer }

/** How busy the proxy is. */
export type Load = {
  readonly draining: () => boolean
  /** Requests and tunnels in flight. A request counts from its arrival, a tunnel from its upgrade. */
  readonly inFlight: () => number
  /** Those of them that no route protects. */
  readonly passing: () => number
}

/** No route protects it. */
export function passesThrough({ admission, matched }: Arrived): boolean {
  return admission.kind === 'admitted' && !protects(matched?.route)
}

/** Without an answer if the client disconnected before its request was complete. */
export type Dispatched = { readonly answer?: Answer; readonly about?: About }

export async function dispatch(
  inbound: Inbound,
  { admission, matched }: Arrived,
  load: Load,
  options: DispatchOptions,
  ports: DispatchPorts,
): Promise<Dispatched> {
  const refused = (of: Problem): Dispatched => ({
    answer: problemAnswer(of, { instance: ports.newInstance }),
  })
  const { inFlightMax } = options.limits
  if (admission.kind === 'refused') return refused(admission.problem)
  if (admission.kind === 'options') return { answer: OPTIONS_ANSWER }
  if (load.inFlight() > inFlightMax) return refused(overloaded(inFlightMax, 'requests'))
  const { request } = admission
  const call = { inbound, request, hop: hopOf(inbound.req, request), forwarded: options.forwarded }
  if (matched === undefined || !protects(matched.route)) {
    const unprotectedMax = unprotectedLimit(inFlightMax)
    if (load.passing() > unprotectedMax) return refused(overloadedByPassing(unprotectedMax))
    const answerWithinMs = matched?.route.upstreamTimeoutMs ?? options.upstreamTimeoutMs
    if (matched?.route.mode !== 'observe') return { answer: await bypass(call, answerWithinMs, ports) }
    const { route, params } = matched
    const pass = (application: Application) => bypass(call, answerWithinMs, { ...ports, application })
    return { answer: await observed(inbound, request, { route, params }, pass, ports) }
  }
  if (load.draining()) return refused(DRAINING)
  // Offers of other protocols are declined by ignoring them: Java's HttpClient offers h2c with every request.
  if (offersWebSocket(inbound.req)) return refused(NO_UPGRADE)

  const { route, params } = matched
  const held = ports.bodyMemory.hold()
  // Not `using`, as in `protect`.
  try {
    const result = await protect(
      protectedCall(call, { route, params }, options.forwarded, held, ports),
      options,
      ports,
    )
    switch (result.kind) {
      case 'answer':
        return result
      case 'gone':
        return {}
      case 'unkeyed': {
        return { answer: await bypass(call, route.upstreamTimeoutMs, ports, result) }
      }
    }
  } finally {
    held[Symbol.dispose]()
  }
}

const OPTIONS_ANSWER: Answer = {
  status: 204,
  headers: [['Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS']],
  body: Buffer.alloc(0),
  decision: 'bypassed',
  detail: 'options',
}

type BypassPorts = {
  readonly application: Application
  readonly newInstance: () => string
  readonly tracing: Tracing
}

type BypassCall = {
  readonly inbound: Inbound
  readonly request: AdmittedRequest
  readonly hop: Hop
  readonly forwarded: ForwardedHeaders
}

/**
 * An unprotected request: streamed to the application and back, in both directions at once; a disconnect of either side ends the other.
 *
 * @param read its body, where it was read already, or has `begun` to be
 */
async function bypass(
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

function passed({ status, headers, body }: PassedOn): Answer {
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
