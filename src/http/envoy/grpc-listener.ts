/**
 * The connections of the gRPC listener: TLS, their number, keep-alive, who may call, and their end.
 *
 * A call without the token is refused at its head. Its message would be kept until it is whole, which need not be ever.
 *
 * Owns the sockets, because gRPC reports the end of a call before its answer is written. Only this folder uses gRPC.
 */

import { createServer, type Socket } from 'node:net'
import { type Metadata, Server, ServerInterceptingCall, type ServerInterceptor, status } from '@grpc/grpc-js'
import type { Clock } from '../../core/clock.ts'
import { type ConnectionLimit, limitConnections } from '../server/connection-limit.ts'
import { trackInFlight } from '../server/in-flight.ts'
import { type ListenAt, whereListening } from '../server/listen-address.ts'
import type { ListenerTls } from '../server/tls.ts'
import { listenerCredentials } from './credentials.ts'

export type GrpcLimits = ConnectionLimit & {
  /** Calls of one connection at the same time. */
  readonly inFlightMax: number
  readonly handshakeTimeoutMs: number
  /** Largest message: a body, and what surrounds it. */
  readonly messageBytesMax: number
}

export interface GrpcListener {
  /** For its services. */
  readonly grpc: Server
  listen(at: ListenAt): Promise<string>
  /** Accepts no new connections; resolves when the open ones have ended. */
  close(): Promise<void>
  /** Begins no new calls; resolves when connections have ended by themselves, after `withinMs` at the latest. */
  flushed(withinMs: number): Promise<void>
  cut(): void
}

/** Envoy turns this into an error of its own, and lets no request through. */
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

export function createGrpcListener(
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
