/**
 * Opening an id of a reservation with the secret of the cluster, which may have changed, or not be known yet.
 *
 * Owns the difference between an id that no sidecar has given out and one that can't be checked now. What an id contains, and its
 * signature, is `reservation-id.ts`.
 */

import { hasFormOfReservationId, verifyReservationId } from './reservation-id.ts'
import type { ReservationSecret } from './reservation-secret.ts'
import type { Reservation } from './reservations.ts'

export type OpenedId =
  /** `secret` signs the id anew. */
  | { readonly kind: 'reservation'; readonly reservation: Reservation; readonly secret: Buffer }
  | { readonly kind: 'foreign' }
  /** A sidecar gave it out whose secret is gone, as with the nodes of before. */
  | { readonly kind: 'lost' }
  /** Too few nodes answered to agree on the secret, or to look whether it has changed. */
  | { readonly kind: 'unavailable' }

/** How long an id waits for the nodes to say with which secret it was signed. */
const WITHIN_MS = 1_000

export async function openReservationId(id: string, secret: ReservationSecret): Promise<OpenedId> {
  if (!hasFormOfReservationId(id)) return { kind: 'foreign' }
  const known = openedWith(await secret.current(WITHIN_MS), id)
  if (known.kind === 'reservation' || known.kind === 'unavailable') return known
  return openedWith((await secret.refreshed(WITHIN_MS)) ?? [], id)
}

function openedWith(secrets: readonly Buffer[], id: string): OpenedId {
  const [secret] = secrets
  if (secret === undefined) return { kind: 'unavailable' }
  const verified = verifyReservationId(id, secrets)
  return verified.kind === 'reservation' ? { ...verified, secret } : verified
}
