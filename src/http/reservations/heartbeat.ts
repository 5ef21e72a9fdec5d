/**
 * Renews a reservation for a caller that can't run timers, while the caller's connection is open.
 *
 *   reserved → (renewed)* → lease-lost | ended | the connection closes
 *
 * One JSON object a line. Owns the stream and when it ends; the core renews. When the connection closes, renewing ends and not the
 * lease: the caller may still be working, or complete through another sidecar. A caller that hangs with its connection open keeps
 * its reservation for at most `totalHoldMs`; reserving again in the same session continues it.
 */

import type { ServerResponse } from 'node:http'
import type { RenewalPolicy } from '../../core/claims/lease-renewer.ts'
import type { Clock, Random } from '../../core/clock.ts'
import type { Events } from '../../core/events.ts'
import type { Leases } from '../../core/ports.ts'
import { renewReservation } from '../../core/reservations/reservation-wait.ts'
import type { Reservation, Validity } from '../../core/reservations/reservations.ts'
import { keyOf } from '../request/outstanding.ts'
import { type ReservedNow, times } from './answers.ts'
import type { HeartbeatLineOutput } from './schemas.ts'

/** How much a caller may leave unread before its connection counts as closed. */
const UNREAD_BYTES_MAX = 64 * 1024

export type HeartbeatPorts = {
  readonly leases: Leases
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly renewing: (reservation: Reservation) => (validity: Validity) => void
}

type EndReason = Extract<HeartbeatLineOutput, { event: 'ended' }>['reason']

export interface Heartbeats {
  /** Resolves when the stream has ended, for whatever reason. */
  stream(reserved: ReservedNow, response: ServerResponse, renewalPolicy: RenewalPolicy): Promise<void>
  /**
   * The lease for an extension by the caller: never shorter than what its stream relies on, which from now on renews for as long.
   * Call it just before the extension is sent: a renewal that was sent before then also arrives before.
   */
  leaseMsFor(reservation: Reservation, wantedMs: number): number
  /** The reservation was completed or released. */
  settled(reservation: Reservation): void
  /** Ends all streams, and each that a call under way opens still. */
  drain(): void
  readonly open: number
}

/** `leaseMs`: the lease that it renews for. */
type Stream = { readonly key: string; leaseMs: number }

export function createHeartbeats(ports: HeartbeatPorts): Heartbeats {
  const { clock } = ports
  const streams = new Map<(reason: EndReason) => void, Stream>()
  let draining = false

  function of(reservation: Reservation): [(reason: EndReason) => void, Stream][] {
    return [...streams].filter(([, { key }]) => key === keyOf(reservation))
  }

  return {
    stream: (reserved, response, { renewFraction, totalHoldMs }) =>
      new Promise((resolve) => {
        const { reservation, validity, body } = reserved
        const write = (line: HeartbeatLineOutput): void => {
          response.write(`${JSON.stringify(line)}\n`)
          if (response.writableLength > UNREAD_BYTES_MAX) response.destroy()
        }
        const stillHeld = ports.renewing(reservation)
        const stream = { key: keyOf(reservation), leaseMs: reservation.leaseMs }
        const renewer = renewReservation(
          { reservation, validity, leaseMs: () => stream.leaseMs },
          {
            renewed: (renewed) => {
              stillHeld(renewed)
              write({ event: 'renewed', ...times(renewed, clock) })
            },
            done: () => end('settled'),
          },
          renewFraction,
          ports,
        )
        const end = (reason: EndReason): void => {
          renewer.stop(reason === 'settled' ? 'completed' : 'abandoned')
          response.end(`${JSON.stringify({ event: 'ended', reason } satisfies HeartbeatLineOutput)}\n`)
        }
        const longest = clock.timer(totalHoldMs, () => end('total-hold'))
        streams.set(end, stream)
        renewer.lost.addEventListener('abort', () => {
          write({ event: 'lease-lost', detail: sentenceOf(renewer.lost.reason) })
          response.end()
        })
        response.on('error', () => {})
        response.once('close', () => {
          longest.cancel()
          renewer.stop('abandoned')
          streams.delete(end)
          resolve()
        })
        response.writeHead(201, { 'Content-Type': 'application/x-ndjson', 'Cache-Control': 'no-store' })
        write({ event: 'reserved', reservation: body })
        if (draining) end('draining')
      }),
    leaseMsFor: (reservation, wantedMs) => {
      const kept = of(reservation).map(([, stream]) => stream)
      const longestMs = Math.max(wantedMs, ...kept.map(({ leaseMs }) => leaseMs))
      for (const stream of kept) stream.leaseMs = longestMs
      return longestMs
    },
    settled: (reservation) => {
      for (const [end] of of(reservation)) end('settled')
    },
    drain: () => {
      draining = true
      for (const end of streams.keys()) end('draining')
    },
    get open() {
      return streams.size
    },
  }
}

function sentenceOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason)
}
