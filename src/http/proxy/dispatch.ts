/**
 * Dispatches a request that has arrived at the proxy: refuse it, bypass protection, or protect it.
 *
 * Owns the order of these decisions. Everything about a protected request is decided in `core/deduplicate.ts`.
 */

import { protects } from '../../core/routes/route.ts'
import { passingShare } from '../../core/units.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import type { ForwardedHeaders } from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'
import type { Arrived } from '../request/arrival.ts'
import type { Observer } from '../request/observe.ts'
import { type About, type ProtectOptions, type ProtectPorts, protect } from '../request/protect.ts'
import { DRAINING, NO_UPGRADE, overloaded, overloadedByPassing } from '../request/refusals.ts'
import type { BodyMemory } from '../server/body-memory.ts'
import type { Inbound } from '../server/inbound.ts'
import { offersWebSocket } from '../server/websocket-offer.ts'
import { bypass } from './bypass.ts'
import { type ForwardPorts, hopOf, protectedCall } from './forwarding.ts'
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
    const passingMax = passingShare(inFlightMax)
    if (load.passing() > passingMax) return refused(overloadedByPassing(passingMax))
    const answerWithinMs = matched?.route.upstreamTimeoutMs ?? options.upstreamTimeoutMs
    const pass = (application = ports.application) => bypass(call, answerWithinMs, { ...ports, application })
    if (matched?.route.mode !== 'observe') return { answer: await pass() }
    const { route, params } = matched
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
