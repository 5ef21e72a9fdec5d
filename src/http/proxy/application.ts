/**
 * How a protected request is read from its client and sent to the application, which `upstream/` is.
 */

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Application as Port } from '../../core/ports.ts'
import type { PathParameters } from '../../core/routes/path-pattern.ts'
import type { ProtectedRoute } from '../../core/routes/route.ts'
import type { Tracing } from '../../core/tracing.ts'
import { type Claimed, type ForwardedHeaders, type Hop, towardsApplication } from '../message/headers.ts'
import type { AdmittedRequest } from '../request/admission.ts'
import type { ProtectedCall } from '../request/protect.ts'
import type { HeldBody } from '../server/body-memory.ts'
import { abandoned, type Inbound, readBody } from '../server/inbound.ts'

export type Application = Port<Readable, Socket>

export type ForwardPorts = { readonly application: Application; readonly tracing: Tracing }

export function hopOf(req: IncomingMessage, { host, httpVersion }: AdmittedRequest): Hop {
  const scheme = 'encrypted' in req.socket ? 'https' : 'http'
  return { peerAddress: plainAddress(req.socket.remoteAddress), scheme, host, httpVersion }
}

/** On a listener for both families (`[::]`) an IPv4 peer is ::ffff:10.0.0.1, which lists of addresses in applications do not know. */
function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=[0-9]+\.)/i, '')
}

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
