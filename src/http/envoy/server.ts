/**
 * The listener for Envoy's gRPC services: ext_authz (`authorization.ts`) and ext_proc (`processing.ts`).
 *
 * Owns the token, the number of checks and streams in flight, and the drain: a draining sidecar admits nothing new, and answers
 * what it has begun.
 */

import { createServer, type Socket } from 'node:net'
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import type { Clock } from '../../core/clock.ts'
import type { CheckOptions, CheckPorts } from '../check/check.ts'
import { TOKEN_HEADER } from '../check/check-answers.ts'
import type { Problem } from '../message/problems.ts'
import { isToken } from '../request/access-token.ts'
import { ALWAYS_END_TO_END } from '../request/admission.ts'
import { waitersByRoute } from '../request/protect.ts'
import { DRAINING, overloaded } from '../request/refusals.ts'
import { trackInFlight } from '../server/in-flight.ts'
import {
  type ConnectionLimit,
  contextOf,
  type ListenerTls,
  type Listening,
  limitConnections,
  tlsOptions,
  whereListening,
} from '../server/listening.ts'
import { authorize } from './authorization.ts'
import { converse } from './conversation.ts'
import {
  AUTHORIZATION,
  type CheckRequest,
  type CheckResponse,
  EXTERNAL_PROCESSOR,
  type ProcessingRequest,
  type ProcessingResponse,
} from './messages.ts'
import { type ProcessingOptions, type ProcessingPorts, processOne } from './processing.ts'

type EnvoyOptions = CheckOptions & {
  readonly settleBudgetMs: number
  readonly renewFraction: number
  /** Events carry the client's key itself, not only its hash. */
  readonly rawKeys: boolean
  /** If present, Envoy must send one of them as metadata `fencepost-gateway-token`; read at each call. */
  readonly tokens: (() => readonly string[]) | undefined
  readonly tls?: ListenerTls
  readonly limits: GrpcLimits & {
    readonly headerLinesMax: number
  }
}

export type EnvoyPorts = CheckPorts & Omit<ProcessingPorts, 'waitersOf'>

type EnvoyServer = Omit<Listening, 'leave'> & {
  /** Checks and requests in flight. */
  inFlight(): number
}

const FLUSH_MS_MAX = 1_000

export function createEnvoyServer(options: EnvoyOptions, ports: EnvoyPorts): EnvoyServer {
  const { limits } = options
  const rules = { headerLinesMax: limits.headerLinesMax, endToEnd: new Set<string>(ALWAYS_END_TO_END) }
  const ruled: ProcessingOptions = { ...options, rules }
  const processingPorts: ProcessingPorts = { ...ports, waitersOf: waitersByRoute() }
  const listener = createGrpcListener(limits, options.tls, hasToken, ports.clock)
  const inFlight = trackInFlight(ports.clock)

  async function counted<T>(work: () => Promise<T>): Promise<T> {
    inFlight.begin()
    try {
      return await work()
    } finally {
      inFlight.end()
    }
  }

  function hasToken(metadata: Metadata): boolean {
    const sent = metadata.get(TOKEN_HEADER)[0]
    return options.tokens === undefined || isToken(sent?.toString(), options.tokens())
  }

  /** The reason why nothing new is admitted: the sidecar is full or draining. */
  function busy(): Problem | undefined {
    if (inFlight.draining) return DRAINING
    return inFlight.count > limits.inFlightMax ? overloaded(limits.inFlightMax, 'checks') : undefined
  }

  listener.grpc.addService(AUTHORIZATION, {
    check: (call: ServerUnaryCall<CheckRequest, CheckResponse>, done: sendUnaryData<CheckResponse>) => {
      void counted(() => authorize(call.request, busy, ruled, ports)).then((response) => done(null, response))
    },
  })
  listener.grpc.addService(EXTERNAL_PROCESSOR, {
    process: (call: ServerDuplexStream<ProcessingRequest, ProcessingResponse>) => {
      void counted(() => processOne(converse(call), busy, ruled, processingPorts))
    },
  })

  return {
    listen: (at) => listener.listen(at),
    inFlight: () => inFlight.count,
    close: async (graceMs) => {
      inFlight.drain()
      const closed = listener.close()
      const untilMonoMs = ports.clock.monoMs() + graceMs
      await inFlight.idleOrAfter(graceMs)
      // The last answers may not be written yet.
      if (inFlight.count === 0)
        await listener.flushed(Math.min(FLUSH_MS_MAX, untilMonoMs - ports.clock.monoMs()))
      listener.cut()
      await closed
    },
  }
}

type GrpcLimits = ConnectionLimit & {
  /** Calls of one connection at the same time. */
  readonly inFlightMax: number
  readonly handshakeTimeoutMs: number
  /** Largest message: a body, and what surrounds it. */
  readonly messageBytesMax: number
}

interface GrpcListener {
  /** For its services. */
  readonly grpc: Server
  readonly listen: Listening['listen']
  /** Accepts no new connections; resolves when the open ones have ended. */
  close(): Promise<void>
  /** Begins no new calls; resolves when connections have ended by themselves, after `withinMs` at the latest. */
  flushed(withinMs: number): Promise<void>
  cut(): void
}

/**
 * Envoy turns this into an error of its own, and lets no request through. A call without the token is refused at its head: its message would be
 * kept until it is whole, which need not be ever.
 */
const TOKEN_MISSING = {
  code: status.UNAUTHENTICATED,
  details: 'Send the token as metadata fencepost-gateway-token.',
}

function refusing(mayCall: (metadata: Metadata) => boolean): ServerInterceptor {
  return (_method, call) =>
    new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, admit) =>
            mayCall(metadata) ? admit(metadata) : call.sendStatus(TOKEN_MISSING),
        }),
    })
}

/** How soon a silently dead Envoy is noticed: then its streams end, and their leases with them. */
const KEEPALIVE_MS = 10_000
const KEEPALIVE_ANSWER_MS = 5_000

/** It has the sockets, because gRPC reports the end of a call before its answer is written. */
function createGrpcListener(
  limits: GrpcLimits,
  tls: ListenerTls | undefined,
  mayCall: (metadata: Metadata) => boolean,
  clock: Clock,
): GrpcListener {
  const grpc = new Server({
    'grpc.max_receive_message_length': limits.messageBytesMax,
    'grpc.max_send_message_length': limits.messageBytesMax,
    'grpc.max_concurrent_streams': limits.inFlightMax,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_ANSWER_MS,
    'grpc.enable_channelz': 0,
    interceptors: [refusing(mayCall)],
  })
  const injector = grpc.createConnectionInjector(listenerCredentials(tls, limits.handshakeTimeoutMs))
  const sockets = new Set<Socket>()
  const open = trackInFlight(clock)
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    open.begin()
    socket
      .on('error', () => {})
      .once('close', () => {
        sockets.delete(socket)
        open.end()
      })
    injector.injectConnection(socket)
  })
  limitConnections(listener, limits)

  return {
    grpc,
    listen: async ({ kind: _, ...where }) => {
      await new Promise<void>((resolve, reject) => {
        listener.once('error', reject).listen(where, () => resolve())
      })
      return whereListening(listener, tls !== undefined)
    },
    close: () =>
      new Promise<void>((resolve) => {
        listener.close(() => resolve())
      }),
    // Connections end by themselves once their answers are written; gRPC's own callback comes too early.
    flushed: async (withinMs) => {
      grpc.tryShutdown(() => {})
      if (withinMs > 0) await open.idleOrAfter(withinMs)
    },
    cut: () => {
      grpc.forceShutdown()
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** TLS of the gRPC listener: the same as on every other listener (`server/listening.ts`), in the form that gRPC takes. */
function listenerCredentials(tls: ListenerTls | undefined, handshakeTimeoutMs: number): ServerCredentials {
  return tls === undefined
    ? ServerCredentials.createInsecure()
    : new ListenerCredentials(tls, handshakeTimeoutMs)
}

class ListenerCredentials extends ServerCredentials {
  constructor(tls: ListenerTls, handshakeTimeoutMs: number) {
    // gRPC's server offers HTTP/2 by itself.
    const { ALPNProtocols: _, ...options } = tlsOptions(tls, handshakeTimeoutMs)
    super(options, contextOf(tls.current()))
    tls.onChange(() =>
      this.updateSecureContextOptions({ ...contextOf(tls.current()), minVersion: 'TLSv1.2' }),
    )
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}
