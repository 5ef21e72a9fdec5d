/**
 * The application behind the proxy, as the interface that `upstream/` implements, and how a protected request is sent to it.
 *
 * A failure is a value: the answer depends on whether the request may have been executed.
 */

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { HeaderList } from '../../core/header-list.ts'
import type { ForwardResult } from '../../core/ports.ts'
import type { PathParameters } from '../../core/routes/path-pattern.ts'
import type { ProtectedRoute } from '../../core/routes/route.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Claimed, type ForwardedHeaders, type Hop, towardsApplication } from '../message/headers.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { ProtectedCall } from '../request/protect.ts'
import type { HeldBody } from '../server/body-memory.ts'
import { abandoned, type Inbound, readBody } from '../server/inbound.ts'

type ApplicationRequest = {
  readonly method: string
  /** Path and query exactly as received; begins with a slash. */
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer | Readable | undefined
  /**
   * It changes nothing, and has no body: it may be written once more, where the application gave its kept connection up. Read by
   * `stream` alone.
   */
  readonly repeatable?: boolean
  /** The client's connection: a login may hold for it alone. */
  readonly peer?: Pick<Duplex, 'destroyed' | 'once'>
}

type ForwardLimits = {
  /** From sending the request to the complete answer. */
  readonly answerWithinMs: number
  /** Longest body that is kept in memory; a longer one is streamed. */
  readonly storedLimitBytes: number
  /** Called for each part that arrives: false if it must not be kept, and the answer is streamed. */
  readonly mayKeep?: (bytes: number) => boolean
  /** Called once the request has a connection: false if it must not be written any more. */
  readonly mayBegin?: (() => boolean) | undefined
  /** Aborts when no client waits for the answer any more; then a stream has `answerWithinMs` left to end. */
  readonly abandoned?: AbortSignal
}

export type Reply = {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: HeaderList
  /** All of it, where it came with its head; else a stream, which fails if the answer is cut, and is read to its end or destroyed. */
  readonly body: Buffer | AsyncIterable<Buffer>
}

type Tunnel = { readonly kind: 'tunnel'; readonly headers: HeaderList; readonly socket: Socket }

export type Failure = Exclude<ForwardResult, { kind: 'answered' }>

/** No method rejects. */
export interface Application {
  forward(request: ApplicationRequest, limits: ForwardLimits): Promise<ForwardResult>
  /** Passes the answer on as it comes. `answerWithinMs` is for its head. */
  stream(request: ApplicationRequest, answerWithinMs: number, signal: AbortSignal): Promise<Reply | Failure>
  upgrade(
    request: ApplicationRequest,
    protocol: string,
    answerWithinMs: number,
    signal: AbortSignal,
  ): Promise<Tunnel | Reply | Failure>
}

export type ForwardPorts = { readonly application: Application; readonly tracing: Tracing }

export function hopOf(req: IncomingMessage, { host, httpVersion }: AdmittedRequest): Hop {
  const scheme = 'encrypted' in req.socket ? 'https' : 'http'
  return { peerAddress: plainAddress(req.socket.remoteAddress), scheme, host, httpVersion }
}

/** On a listener for both families (`[::]`) an IPv4 peer is ::ffff:10.0.0.1, which lists of addresses in applications do not know. */
function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=[0-9]+\.)/i, '')
}

/** The proxy's side of a protected request: reading its body from the client, and sending it to the application. */
export function protectedCall(
  {
    inbound,
    request,
    hop,
  }: { readonly inbound: Inbound; readonly request: AdmittedRequest; readonly hop: Hop },
  { route, params }: { readonly route: ProtectedRoute; readonly params: PathParameters },
  forwarded: ForwardedHeaders,
  held: HeldBody,
  ports: ForwardPorts,
): ProtectedCall {
  const gone = abandoned(inbound.res)
  const forward = async (body: Buffer, claimed: Claimed | undefined) => {
    const towards = towardsApplication(request.headers, hop, forwarded, claimed)
    const headers = ports.tracing.outgoing(towards, claimed)
    const { method, target } = request
    const result = await ports.application.forward(
      { method, target, headers, body, peer: inbound.req.socket },
      {
        answerWithinMs: route.upstreamTimeoutMs,
        storedLimitBytes: route.storedResponseLimitBytes,
        mayKeep: (bytes) => held.keep(bytes),
        abandoned: gone,
        // While it waits for a connection there, its lease may be lost, and another holder may execute it.
        mayBegin: claimed?.held,
      },
    )
    // What is kept of an answer while it passes is let go behind it.
    if (result.kind === 'answered') void result.response.oversized?.whole?.then(() => held[Symbol.dispose]())
    return result
  }
  return {
    request,
    route,
    params,
    answerWithinMs: route.upstreamTimeoutMs,
    forward,
    readBody: (limitBytes) => readBody(inbound, limitBytes, held),
    abandoned: gone,
  }
}
