/**
 * Requests for a WebSocket: which of them are forwarded, and the connections that become tunnels.
 *
 * Owns the set of tunnels, which count as in flight: a drain waits for them, and cuts those that are left at its end. `upgrade.ts`
 * connects the two ends.
 */

import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../core/clock.ts'
import { protects } from '../../core/routes/route.ts'
import type { RequestTrace } from '../../core/tracing.ts'
import { passingShare } from '../../core/units.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import type { Arrived } from '../request/arrival.ts'
import { DRAINING, NO_UPGRADE, overloaded, overloadedByPassing } from '../request/refusals.ts'
import type { InFlight } from '../server/in-flight.ts'
import type { ListenerLimits } from '../server/listener.ts'
import { writeRaw } from '../server/send.ts'
import type { DispatchOptions, Load } from './dispatch.ts'
import { type ForwardPorts, hopOf } from './forwarding.ts'
import { passUpgrade } from './upgrade.ts'

export type TunnelOptions = DispatchOptions & {
  readonly limits: Pick<ListenerLimits, 'readerIdleMs'>
}

export type TunnelPorts = ForwardPorts & {
  readonly clock: Clock
  readonly newInstance: () => string
  readonly onFailure: (error: unknown, instance: string) => void
  readonly arrive: (req: IncomingMessage) => Arrived
  readonly traced: (req: IncomingMessage, arrived: Arrived) => RequestTrace
  readonly load: Load
  readonly inFlight: Pick<InFlight, 'begin' | 'end'>
  readonly publish: (answer: Answer, arrived: Arrived, startedMonoMs: number) => void
}

type Taken = {
  readonly req: IncomingMessage
  readonly socket: Duplex
  readonly first: Buffer
  readonly arrived: Arrived
  readonly trace: RequestTrace
}

export interface Tunnels {
  /** Resolves when the tunnel has ended, or the request is refused. Never rejects. */
  take(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void>
  cut(): void
  count(): number
}

export function createTunnels(options: TunnelOptions, ports: TunnelPorts): Tunnels {
  const { load, publish } = ports
  const { inFlightMax, readerIdleMs } = options.limits
  const passingMax = passingShare(inFlightMax)
  const tunnels = new Set<Duplex>()

  function take(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void> {
    const arrived = ports.arrive(req)
    const trace = ports.traced(req, arrived)
    return trace.run(() => serve({ req, socket, first, arrived, trace }))
  }

  async function serve({ req, socket, first, arrived, trace }: Taken): Promise<void> {
    const startedMonoMs = ports.clock.monoMs()
    const { admission, matched } = arrived
    const route = matched?.route
    const refuse = (of: Problem): void => {
      const answer = problemAnswer(of, { instance: ports.newInstance })
      writeRaw(socket, answer, () => socket.destroy())
      publish(answer, arrived, startedMonoMs)
      trace.ended(answer.status)
    }
    if (admission.kind === 'refused') return refuse(admission.problem)
    if (load.draining()) return refuse(DRAINING)
    if (load.inFlight() >= inFlightMax) return refuse(overloaded(inFlightMax, 'requests'))
    if (load.passing() >= passingMax) return refuse(overloadedByPassing(passingMax))
    if (admission.kind === 'options' || protects(route)) return refuse(NO_UPGRADE)
    const { request } = admission
    const answerWithinMs = route?.upstreamTimeoutMs ?? options.upstreamTimeoutMs
    const hop = hopOf(req, request)
    tunnels.add(socket)
    ports.inFlight.begin()
    let switched = false
    // A tunnel lives for hours: its span is the handshake, like that of any request its answer.
    const onSwitched = ({ status, decision }: Answer): void => {
      switched = true
      trace.ended(status, { decision, entrypoint: 'proxy' })
    }
    try {
      const { forwarded } = options
      const call = {
        socket: req.socket,
        first,
        request,
        hop,
        answerWithinMs,
        forwarded,
        readerIdleMs,
        onSwitched,
      }
      const answer = await passUpgrade(call, ports)
      publish(answer, arrived, startedMonoMs)
      if (!switched) trace.ended(answer.status)
    } catch (error) {
      ports.onFailure(error, ports.newInstance())
      socket.destroy()
      if (!switched) trace.ended(undefined)
    } finally {
      tunnels.delete(socket)
      ports.inFlight.end()
    }
  }

  return {
    take,
    count: () => tunnels.size,
    cut: () => {
      for (const tunnel of tunnels) tunnel.destroy()
    },
  }
}
