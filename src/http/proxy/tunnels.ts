/**
 * Requests for a WebSocket: which of them are forwarded, and the connections that become tunnels.
 *
 * Owns the set of tunnels, which count as in flight: a drain waits for them, and cuts those that are left at its end. `upgrade.ts`
 * connects the two ends.
 */

import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../core/clock.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import type { Problem } from '../message/problems.ts'
import type { Arrived } from '../request/arrival.ts'
import { DRAINING, NO_UPGRADE, overloaded } from '../request/refusals.ts'
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
  readonly load: Load
  readonly inFlight: Pick<InFlight, 'begin' | 'end'>
  readonly publish: (answer: Answer, arrived: Arrived, startedMonoMs: number) => void
}

export interface Tunnels {
  /** Resolves when the tunnel has ended, or the request is refused. Never rejects. */
  take(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void>
  cut(): void
}

export function createTunnels(options: TunnelOptions, ports: TunnelPorts): Tunnels {
  const { load, publish } = ports
  const { inFlightMax, readerIdleMs } = options.limits
  const tunnels = new Set<Duplex>()

  async function take(req: IncomingMessage, socket: Duplex, first: Buffer): Promise<void> {
    const startedMonoMs = ports.clock.monoMs()
    const arrived = ports.arrive(req)
    const { admission, matched } = arrived
    const route = matched?.route
    const refuse = (of: Problem): void => {
      const answer = problemAnswer(of, { instance: ports.newInstance })
      writeRaw(socket, answer, () => socket.destroy())
      publish(answer, arrived, startedMonoMs)
    }
    if (admission.kind === 'refused') return refuse(admission.problem)
    if (load.draining()) return refuse(DRAINING)
    if (load.inFlight() >= inFlightMax) return refuse(overloaded(inFlightMax, 'requests'))
    if (admission.kind === 'options' || (route !== undefined && route.mode !== 'bypass'))
      return refuse(NO_UPGRADE)
    const { request } = admission
    const answerWithinMs = route?.upstreamTimeoutMs ?? options.upstreamTimeoutMs
    const hop = hopOf(req, request)
    tunnels.add(socket)
    ports.inFlight.begin()
    try {
      const { forwarded } = options
      const call = { socket: req.socket, first, request, hop, answerWithinMs, forwarded, readerIdleMs }
      publish(await passUpgrade(call, ports), arrived, startedMonoMs)
    } catch (error) {
      ports.onFailure(error, ports.newInstance())
      socket.destroy()
    } finally {
      tunnels.delete(socket)
      ports.inFlight.end()
    }
  }

  return {
    take,
    cut: () => {
      for (const tunnel of tunnels) tunnel.destroy()
    },
  }
}
