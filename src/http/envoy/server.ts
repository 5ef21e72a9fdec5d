/**
 * The listener for Envoy's gRPC services: ext_authz (`authorization.ts`) and ext_proc (`processing.ts`).
 *
 * Owns the connections, the token, the number of questions and of streams under way, and the end: a draining sidecar admits
 * nothing new, and answers what it has begun. Of gRPC nothing but this folder knows.
 */

import { createServer, type Socket } from 'node:net'
import {
  type Metadata,
  Server,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { type CheckOptions, type CheckPorts, check } from '../check/check.ts'
import { DRAINING, overload } from '../check/check-answers.ts'
import { TOKEN_HEADER } from '../check/gateway-token.ts'
import type { Problem } from '../message/problems.ts'
import { isToken } from '../request/access-token.ts'
import { ALWAYS_END_TO_END } from '../request/admission.ts'
import { decidedEvent } from '../request/decided-event.ts'
import { waitersByRoute } from '../request/protect.ts'
import { type ListenAt, whereListening } from '../server/listen-address.ts'
import type { ListenerTls } from '../server/tls.ts'
import { questionFrom, refusedWith, toldOf } from './authorization.ts'
import { converse } from './conversation.ts'
import { listenerCredentials } from './credentials.ts'
import {
  AUTHORIZATION,
  type CheckRequest,
  type CheckResponse,
  EXTERNAL_PROCESSOR,
  type ProcessingRequest,
  type ProcessingResponse,
} from './messages.ts'
import { type ProcessingOptions, type ProcessingPorts, processOne } from './processing.ts'

export type EnvoyOptions = CheckOptions & {
  readonly settleBudgetMs: number
  readonly renewFraction: number
  /** Events carry the client's key itself, not only its hash. */
  readonly rawKeys: boolean
  /** Envoy must show one of them where given, as metadata `fencepost-gateway-token`; asked at each call. */
  readonly tokens: (() => readonly string[]) | undefined
  /** Present where the listener speaks TLS. */
  readonly tls?: ListenerTls
  readonly limits: {
    readonly inFlightMax: number
    readonly headerLinesMax: number
    readonly connectionsMax: number
    readonly handshakeTimeoutMs: number
    /** Of one message: a body that is handed on, and what is around it. */
    readonly messageBytesMax: number
  }
}

export type EnvoyPorts = CheckPorts & Omit<ProcessingPorts, 'waitersOf'>

export interface EnvoyServer {
  listen(at: ListenAt): Promise<string>
  /** Checks and requests under way now. */
  inFlight(): number
  /** Admits nothing new; answers what is under way for `graceMs`. */
  close(graceMs: number): Promise<void>
}

/** How soon an Envoy that is gone without a word is noticed: then its streams end, and their leases with them. */
const KEEPALIVE_MS = 10_000
const KEEPALIVE_ANSWER_MS = 5_000
const SECRET_SOON_MS = 1_000
const FLUSH_MS_MAX = 1_000

export function createEnvoyServer(options: EnvoyOptions, ports: EnvoyPorts): EnvoyServer {
  const { limits } = options
  const rules = { headerLinesMax: limits.headerLinesMax, endToEnd: new Set<string>(ALWAYS_END_TO_END) }
  const processing: ProcessingOptions = { ...options, rules }
  const processingPorts: ProcessingPorts = { ...ports, waitersOf: waitersByRoute() }
  const grpc = new Server({
    'grpc.max_receive_message_length': limits.messageBytesMax,
    'grpc.max_send_message_length': limits.messageBytesMax,
    'grpc.max_concurrent_streams': limits.inFlightMax,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_ANSWER_MS,
    'grpc.enable_channelz': 0,
  })
  const injector = grpc.createConnectionInjector(listenerCredentials(options.tls, limits.handshakeTimeoutMs))
  const sockets = new Set<Socket>()
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .once('close', () => {
        sockets.delete(socket)
        if (sockets.size === 0) onUnconnected?.()
      })
    injector.injectConnection(socket)
  })
  listener.maxConnections = limits.connectionsMax
  let draining = false
  let inFlight = 0
  let onIdle: (() => void) | undefined
  let onUnconnected: (() => void) | undefined

  async function underWay<T>(work: () => Promise<T>): Promise<T> {
    inFlight += 1
    try {
      return await work()
    } finally {
      inFlight -= 1
      if (inFlight === 0) onIdle?.()
    }
  }

  function admitted(metadata: Metadata): boolean {
    const shown = metadata.get(TOKEN_HEADER)[0]
    return options.tokens === undefined || isToken(shown?.toString(), options.tokens())
  }

  /** What nobody is asked about: there is no room for it, or no time. */
  function notNow(): Problem | undefined {
    if (draining) return DRAINING
    return inFlight > limits.inFlightMax ? overload(limits.inFlightMax) : undefined
  }

  async function answerTo(request: CheckRequest): Promise<CheckResponse> {
    const startedMonoMs = ports.clock.monoMs()
    const { told, answer, ...about } = await checked(request)
    const durationMs = ports.clock.monoMs() - startedMonoMs
    const { route, recordKey } = about
    ports.events.publish(decidedEvent(answer, { entrypoint: 'ext_authz', route, durationMs, recordKey }))
    return told
  }

  async function checked(request: CheckRequest) {
    const none = { route: undefined, recordKey: undefined }
    const busy = notNow()
    if (busy !== undefined) return { ...refusedWith(busy, ports.newInstance), ...none }
    const question = questionFrom(request, rules)
    if (question.kind === 'refused') return { ...refusedWith(question.problem, ports.newInstance), ...none }
    try {
      const of = await check(question.original, question.readBody, options, ports)
      if (of === 'gone') throw new Error('a body that is there can not be gone')
      return { ...toldOf(of, question.original, ports.newInstance), route: of.route, recordKey: of.recordKey }
    } catch (error) {
      const instance = ports.newInstance()
      ports.onFailure(error, instance)
      return { ...refusedWith(FAULT, () => instance), ...none }
    }
  }

  grpc.addService(AUTHORIZATION, {
    check: (call: ServerUnaryCall<CheckRequest, CheckResponse>, done: sendUnaryData<CheckResponse>) => {
      if (!admitted(call.metadata)) return done(TOKEN_MISSING)
      void underWay(() => answerTo(call.request)).then((response) => done(null, response))
    },
  })
  grpc.addService(EXTERNAL_PROCESSOR, {
    process: (call: ServerDuplexStream<ProcessingRequest, ProcessingResponse>) => {
      const conversation = converse(call)
      if (!admitted(call.metadata)) return conversation.fail(TOKEN_MISSING)
      void underWay(() => processOne(conversation, notNow, processing, processingPorts))
    },
  })

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

  /** Connections end by themselves once what was answered on them is written; gRPC's own word for it comes too early. */
  async function flushed(withinMs: number): Promise<void> {
    grpc.tryShutdown(() => {})
    if (withinMs <= 0 || sockets.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = ports.clock.timer(withinMs, resolve)
      onUnconnected = () => {
        timer.cancel()
        resolve()
      }
    })
  }

  return {
    listen: async ({ kind: _, ...where }) => {
      await new Promise<void>((resolve, reject) => {
        listener.once('error', reject).listen(where, () => resolve())
      })
      void ports.secret.current(SECRET_SOON_MS)
      return whereListening(listener, options.tls !== undefined)
    },
    inFlight: () => inFlight,
    close: async (graceMs) => {
      draining = true
      const closed = new Promise<void>((resolve) => {
        listener.close(() => resolve())
      })
      const untilMonoMs = ports.clock.monoMs() + graceMs
      await idleOrAfter(graceMs)
      // What was answered last may still be on its way.
      if (inFlight === 0) await flushed(Math.min(FLUSH_MS_MAX, untilMonoMs - ports.clock.monoMs()))
      grpc.forceShutdown()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Envoy makes an error of its own of this, and lets nothing through. */
const TOKEN_MISSING = {
  code: status.UNAUTHENTICATED,
  details: 'Send the token as metadata fencepost-gateway-token.',
}

const FAULT: Problem = {
  code: 'internal-error',
  detail: 'The sidecar failed at this check; its log says why.',
}
