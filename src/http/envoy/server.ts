/**
 * The listener for Envoy's gRPC services: ext_authz (`authorization.ts`) and ext_proc (`processing.ts`).
 *
 * Owns the token, the number of checks and streams in flight, and the drain: a draining sidecar admits nothing new, and answers
 * what it has begun. `grpc-listener.ts` has its connections.
 */

import type { Metadata, ServerDuplexStream, ServerUnaryCall, sendUnaryData } from '@grpc/grpc-js'
import type { CheckOptions, CheckPorts } from '../check/check.ts'
import { TOKEN_HEADER } from '../check/gateway-token.ts'
import type { Problem } from '../message/problems.ts'
import { isToken } from '../request/access-token.ts'
import { ALWAYS_END_TO_END } from '../request/admission.ts'
import { waitersByRoute } from '../request/protect.ts'
import { DRAINING, overloaded } from '../request/refusals.ts'
import { trackInFlight } from '../server/in-flight.ts'
import type { ListenAt } from '../server/listen-address.ts'
import type { ListenerTls } from '../server/tls.ts'
import { authorize } from './authorization.ts'
import { converse } from './conversation.ts'
import { createGrpcListener, type GrpcLimits } from './grpc-listener.ts'
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
  /** If present, Envoy must send one of them as metadata `fencepost-gateway-token`; read at each call. */
  readonly tokens: (() => readonly string[]) | undefined
  /** Present if the listener speaks TLS. */
  readonly tls?: ListenerTls
  readonly limits: GrpcLimits & {
    readonly headerLinesMax: number
  }
}

export type EnvoyPorts = CheckPorts & Omit<ProcessingPorts, 'waitersOf'>

export interface EnvoyServer {
  listen(at: ListenAt): Promise<string>
  /** Checks and requests in flight. */
  inFlight(): number
  /** Admits nothing new; finishes what is in flight within `graceMs`. */
  close(graceMs: number): Promise<void>
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
