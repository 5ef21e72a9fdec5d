/**
 * The proxy: the way of a request through the parts of this folder, from its connection to its answer.
 *
 * Owns the number of requests in flight and the end: a draining proxy refuses new protected requests and finishes those
 * that it has. What is decided about a protected request is decided in `core/deduplicate.ts`.
 */

import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { PathParameters } from '../../core/routes/path-pattern.ts'
import type { ProtectedRoute, Route } from '../../core/routes/route.ts'
import type { RequestTrace, Tracing } from '../../core/tracing.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import { type Claimed, type ForwardedHeaders, type Hop, towardsApplication } from '../message/headers.ts'
import { closesConnection, type Problem } from '../message/problems.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import { type Arrived, createArrival } from '../request/arrival.ts'
import { decidedEvent } from '../request/decided-event.ts'
import type { ScopeRules } from '../request/identify.ts'
import {
  type About,
  type ProtectedCall,
  type ProtectPorts,
  protect,
  waitersByRoute,
} from '../request/protect.ts'
import type { Peers } from '../request/trusted-peers.ts'
import { abandoned } from '../server/abandoned.ts'
import { type Inbound, readBody } from '../server/inbound.ts'
import { type ListenAt, whereListening } from '../server/listen-address.ts'
import { createListener, type ListenerLimits } from '../server/listener.ts'
import { createRequestScheduler } from '../server/request-scheduler.ts'
import { send, writeRaw } from '../server/send.ts'
import type { ListenerTls } from '../server/tls.ts'
import { offersWebSocket } from '../server/websocket-offer.ts'
import type { Application } from './application.ts'
import { bypass } from './bypass.ts'
import { traced } from './traced.ts'
import { passUpgrade } from './upgrade.ts'

export type ProxyOptions = {
  readonly routes: readonly Route[]
  readonly scope: ScopeRules
  /** Whose headers of tenant, version, client and origin are believed. */
  readonly trustedPeers: Peers
  /** Present where the listener speaks TLS. */
  readonly tls?: ListenerTls
  readonly forwarded: ForwardedHeaders
  readonly settleBudgetMs: number
  readonly renewFraction: number
  /** Events carry the client's key itself, not only its hash. */
  readonly rawKeys: boolean
  /** For requests that no route matches. */
  readonly upstreamTimeoutMs: number
  readonly limits: ListenerLimits & { readonly inFlightMax: number; readonly headerLinesMax: number }
}

export type ProxyPorts = Omit<ProtectPorts, 'waitersOf'> & {
  readonly application: Application
  readonly tracing: Tracing
  /** Told of a fault of our own; the client got 500 with this instance. */
  readonly onFailure: (error: unknown, instance: string) => void
}

export interface ProxyServer {
  /** Where it listens: `http://host:port`, or `unix:/path`. */
  listen(at: ListenAt): Promise<string>
  /** Requests under way now. */
  inFlight(): number
  /** From now on new protected requests get 503. Resolves when the last one is answered, or after `graceMs`. */
  close(graceMs: number): Promise<void>
}

const RETRY_SOON_MS = 1_000

export function createProxy(options: ProxyOptions, ports: ProxyPorts): ProxyServer {
  const { limits } = options
  const protectPorts: ProtectPorts = { ...ports, waitersOf: waitersByRoute() }
  const arrive = createArrival(options)
  const scheduler = createRequestScheduler(ports.clock)
  const listener = createListener(limits, { take, takeUpgrade }, ports.newInstance, options.tls)
  const { server } = listener
  const tunnels = new Set<Duplex>()
  /** Connections whose last answer is decided. */
  const ending = new WeakSet<Duplex>()
  let draining = false
  let inFlight = 0
  let onIdle: (() => void) | undefined

  const problem = (of: Problem): Answer =>
    problemAnswer(of, { idempotencyKey: undefined, instance: ports.newInstance })

  async function take(inbound: Inbound): Promise<void> {
    const { req } = inbound
    const startedMonoMs = ports.clock.monoMs()
    inFlight += 1
    const turn = scheduler.begin()
    if (turn !== undefined) await turn
    // Otherwise its client was told that no answer follows: what is carried out now would be carried out behind its back.
    if (!ending.has(req.socket)) {
      const arrived = arrive(req)
      const trace = ports.tracing.request(traced(req, arrived.matched?.route.name))
      await trace.run(() => serve(inbound, arrived, startedMonoMs, trace))
    }
    inFlight -= 1
    if (inFlight === 0) onIdle?.()
  }

  /** Never rejects. */
  async function serve(
    inbound: Inbound,
    arrived: Arrived,
    startedMonoMs: number,
    trace: RequestTrace,
  ): Promise<void> {
    const { req } = inbound
    let status: number | undefined
    try {
      if (arrived.admission.kind === 'refused') ending.add(req.socket)
      const { answer, about } = await answerTo(inbound, arrived).catch(failed)
      if (answer !== undefined) {
        const close = draining || closesConnection(answer.detail)
        if (close || !req.complete) ending.add(req.socket)
        await send(inbound, answer, { readerIdleMs: limits.readerIdleMs, close })
        status = answer.status
        publish(answer, arrived, startedMonoMs, about)
      }
    } catch (error) {
      ports.onFailure(error, ports.newInstance())
      req.destroy()
    }
    trace.ended(status)
  }

  function failed(error: unknown): Done {
    const instance = ports.newInstance()
    ports.onFailure(error, instance)
    const fault = {
      code: 'internal-error',
      detail: 'The sidecar failed at this request; its log says why.',
    } as const
    return { answer: problemAnswer(fault, { idempotencyKey: undefined, instance: () => instance }) }
  }

  async function answerTo(inbound: Inbound, { admission, matched }: Arrived): Promise<Done> {
    if (admission.kind === 'refused') return { answer: problem(admission.problem) }
    if (admission.kind === 'options') return { answer: OPTIONS_ANSWER }
    if (inFlight + tunnels.size > limits.inFlightMax) return { answer: problem(overload()) }
    const { request } = admission
    const call = { inbound, request, hop: hopOf(inbound.req, request), forwarded: options.forwarded }
    const route = matched?.route
    if (route === undefined || route.mode === 'bypass') {
      const answerWithinMs = route?.upstreamTimeoutMs ?? options.upstreamTimeoutMs
      return { answer: await bypass({ ...call, answerWithinMs }, ports) }
    }
    if (draining) return { answer: problem(SHUTTING_DOWN) }
    // Any other protocol is an offer, which is declined by not taking it: Java's HttpClient offers h2c with every request.
    if (offersWebSocket(inbound.req)) return { answer: problem(NO_UPGRADE) }

    const result = await protect(
      protectedCall(inbound, request, route, matched?.params ?? {}),
      options,
      protectPorts,
    )
    switch (result.kind) {
      case 'answer':
        return result
      case 'gone':
        return {}
      case 'unkeyed':
        return {
          answer: await bypass(
            { ...call, answerWithinMs: route.upstreamTimeoutMs, body: result.body },
            ports,
          ),
        }
    }
  }

  function protectedCall(
    inbound: Inbound,
    request: AdmittedRequest,
    route: ProtectedRoute,
    params: PathParameters,
  ): ProtectedCall {
    const gone = abandoned(inbound.res)
    const hop = hopOf(inbound.req, request)
    const forward = (body: Buffer, claimed: Claimed | undefined) => {
      const towards = towardsApplication(request.headers, hop, options.forwarded, claimed)
      const headers = ports.tracing.outgoing(towards, claimed?.lockId)
      const { method, target } = request
      return ports.application.forward(
        { method, target, headers, body },
        {
          answerWithinMs: route.upstreamTimeoutMs,
          storedLimitBytes: route.storedResponseLimitBytes,
          abandoned: gone,
          // It may wait there for a connection, while its lease is lost and somebody else carries it out.
          ...(claimed === undefined ? {} : { mayBegin: claimed.held }),
        },
      )
    }
    const readWhole = (limitBytes: number) => readBody(inbound, limitBytes)
    const answerWithinMs = route.upstreamTimeoutMs
    return {
      ...{ request, route, params, answerWithinMs, forward },
      readBody: readWhole,
      abandoned: gone,
    }
  }

  function overload(): Problem {
    return {
      code: 'too-many-requests-in-flight',
      detail: `${limits.inFlightMax} requests are under way, which is the limit. Nothing was carried out.`,
      retryAfterMs: RETRY_SOON_MS,
    }
  }

  async function takeUpgrade(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void> {
    if (ending.has(req.socket)) {
      socket.destroy()
      return
    }
    const startedMonoMs = ports.clock.monoMs()
    const arrived = arrive(req)
    const { admission, matched } = arrived
    const route = matched?.route
    const refuse = (of: Problem): void => {
      const answer = problem(of)
      writeRaw(socket, answer, () => socket.destroy())
      publish(answer, arrived, startedMonoMs)
    }
    if (admission.kind === 'refused') return refuse(admission.problem)
    if (draining) return refuse(SHUTTING_DOWN)
    if (inFlight + tunnels.size >= limits.inFlightMax) return refuse(overload())
    if (admission.kind === 'options' || (route !== undefined && route.mode !== 'bypass'))
      return refuse(NO_UPGRADE)
    const { request } = admission
    const answerWithinMs = route?.upstreamTimeoutMs ?? options.upstreamTimeoutMs
    const hop = hopOf(req, request)
    tunnels.add(socket)
    try {
      const call = { socket, first, request, hop, answerWithinMs, forwarded: options.forwarded }
      publish(await passUpgrade(call, ports), arrived, startedMonoMs)
    } catch (error) {
      ports.onFailure(error, ports.newInstance())
      socket.destroy()
    } finally {
      tunnels.delete(socket)
    }
  }

  function publish(answer: Answer, { matched }: Arrived, startedMonoMs: number, about?: About): void {
    ports.events.publish(
      decidedEvent(answer, {
        entrypoint: 'proxy',
        route: matched?.route.name,
        durationMs: ports.clock.monoMs() - startedMonoMs,
        recordKey: about?.recordKey,
        tenant: about?.tenant,
        shownKey: options.rawKeys ? about?.clientKey : undefined,
      }),
    )
  }

  async function idleOrAfter(graceMs: number): Promise<void> {
    if (inFlight === 0) return
    await new Promise<void>((resolve) => {
      const timer = ports.clock.timer(graceMs, resolve)
      onIdle = () => {
        timer.cancel()
        resolve()
      }
    })
  }

  return {
    listen: async ({ kind: _, ...where }) => {
      await listener.listen(where)
      return whereListening(server, options.tls !== undefined)
    },
    inFlight: () => inFlight,
    close: async (graceMs) => {
      draining = true
      const closed = listener.close()
      await idleOrAfter(graceMs)
      for (const tunnel of tunnels) tunnel.destroy()
      server.closeAllConnections()
      await closed
    },
  }
}

/** Without an answer where the client went away before its request was whole. */
type Done = { readonly answer?: Answer; readonly about?: About }

const SHUTTING_DOWN: Problem = {
  code: 'draining',
  detail: 'The sidecar is shutting down. Nothing was carried out; send the request again, unchanged.',
  retryAfterMs: RETRY_SOON_MS,
}

const NO_UPGRADE: Problem = {
  code: 'upgrade-refused',
  detail: 'A protected request never changes the protocol of its connection. Nothing was carried out.',
}

const OPTIONS_ANSWER: Answer = {
  status: 204,
  headers: [['Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS']],
  body: Buffer.alloc(0),
  decision: 'bypassed',
  detail: 'options',
}

function hopOf(req: IncomingMessage, { host, httpVersion }: AdmittedRequest): Hop {
  const scheme = 'encrypted' in req.socket ? 'https' : 'http'
  return { peerAddress: req.socket.remoteAddress, scheme, host, httpVersion }
}
