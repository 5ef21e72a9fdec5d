/**
 * Open reservations of this sidecar, of its reservation API or of its checks: for its drain, and for the limit of one session.
 *
 * Owns no truth: the nodes have what is reserved. A session on several sidecars has its limit on each of them, and a restarted
 * sidecar counts anew. The limit bounds what one caller can make a sidecar hold.
 */

import type { Clock } from '../../core/clock.ts'
import { type Reservation, SESSION_TAG_BYTES, type Validity } from '../../core/reservations/reservations.ts'
import { createWakeUps } from '../../core/retry.ts'
import type { InFlight } from '../server/in-flight.ts'

export interface Outstanding {
  held(reservation: Reservation, validity: Pick<Validity, 'validUntilMonoMs'>): void
  /**
   * What a renewal calls when it is answered; ask for it before it is sent. One that ended meanwhile is not held again: an answer of the
   * nodes may come after that of its end.
   */
  renewing(reservation: Reservation): (validity: Pick<Validity, 'validUntilMonoMs'>) => void
  ended(reservation: Reservation): void
  /**
   * Undefined if the session may hold another one, else its limit.
   *
   * @param recordKey of the first intent: reserving again what the session holds needs no further slot
   */
  full(sessionTag: string, recordKey: string): number | undefined
  count(): number
  /** Resolves when all of them have ended or expired, at most after `graceMs`. */
  none(graceMs: number): Promise<void>
}

type Held = { readonly untilMonoMs: number; readonly recordKey: string }

export function trackOutstanding(clock: Clock, perSessionMax: number): Outstanding {
  /** By session, then by reservation. */
  const sessions = new Map<string, Map<string, Held>>()
  let size = 0
  const none = createWakeUps(clock)

  function forget(session: string, key: string): void {
    const held = sessions.get(session)
    if (held?.delete(key) !== true) return
    size -= 1
    if (held.size === 0) sessions.delete(session)
  }

  function forgetExpired(): void {
    const nowMonoMs = clock.monoMs()
    for (const [session, held] of sessions)
      for (const [key, { untilMonoMs }] of held) if (untilMonoMs <= nowMonoMs) forget(session, key)
  }

  function latestMonoMs(): number {
    let latest = 0
    for (const held of sessions.values())
      for (const { untilMonoMs } of held.values()) latest = Math.max(latest, untilMonoMs)
    return latest
  }

  function hold(reservation: Reservation, { validUntilMonoMs }: Pick<Validity, 'validUntilMonoMs'>): void {
    // Expired ones are dropped now and then: doing it at each call would be a scan for each call.
    if (size % 1_024 === 1_023) forgetExpired()
    const session = sessionOf(reservation)
    const held = sessions.get(session) ?? new Map<string, Held>()
    sessions.set(session, held)
    if (!held.has(keyOf(reservation))) size += 1
    const recordKey = reservation.intents[0]?.recordKey ?? ''
    held.set(keyOf(reservation), { untilMonoMs: validUntilMonoMs, recordKey })
  }

  const isHeld = (reservation: Reservation): boolean =>
    sessions.get(sessionOf(reservation))?.has(keyOf(reservation)) === true

  return {
    held: hold,
    renewing: (reservation: Reservation) => {
      const wasHeld = isHeld(reservation)
      return (validity) => {
        if (!wasHeld || isHeld(reservation)) hold(reservation, validity)
      }
    },
    ended: (reservation: Reservation): void => {
      forget(sessionOf(reservation), keyOf(reservation))
      if (size === 0) none.wake()
    },
    full: (sessionTag: string, recordKey: string): number | undefined => {
      const held = sessions.get(sessionTag)
      if (held === undefined || held.size < perSessionMax) return undefined
      const nowMonoMs = clock.monoMs()
      for (const [key, one] of held) if (one.untilMonoMs <= nowMonoMs) forget(sessionTag, key)
      if (held.size < perSessionMax) return undefined
      return [...held.values()].some((one) => one.recordKey === recordKey) ? undefined : perSessionMax
    },
    count: (): number => {
      forgetExpired()
      return size
    },
    none: async (graceMs: number): Promise<void> => {
      const endMonoMs = clock.monoMs() + graceMs
      for (;;) {
        forgetExpired()
        const leftMs = Math.min(endMonoMs, latestMonoMs()) - clock.monoMs()
        if (size === 0 || leftMs <= 0) return
        await none.orAfter(leftMs)
      }
    },
  }
}

/**
 * Resolves when nothing is under way and nothing is held, at most after `graceMs`. A call under way may still make a reservation, and what
 * ends the last one is a call under way.
 */
export async function nothingLeft(
  inFlight: Pick<InFlight, 'idleOrAfter'>,
  outstanding: Pick<Outstanding, 'none' | 'count'>,
  clock: Pick<Clock, 'monoMs'>,
  graceMs: number,
): Promise<void> {
  const endMonoMs = clock.monoMs() + graceMs
  const leftMs = (): number => Math.max(0, endMonoMs - clock.monoMs())
  do {
    await outstanding.none(leftMs())
    await inFlight.idleOrAfter(leftMs())
  } while (outstanding.count() > 0 && leftMs() > 0)
}

/** The first half of an owner is its session (`core/reservations/reservations.ts`). */
function sessionOf({ owner }: Reservation): string {
  return owner.slice(0, 2 * SESSION_TAG_BYTES)
}

/** Owner and token together identify a reservation. */
export function keyOf({ owner, token }: Reservation): string {
  return `${owner}-${token}`
}
