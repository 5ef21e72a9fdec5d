/** A reservation of one record, as it stands in an id: for tests that sign ids themselves. */
import type { Reservation } from '../../src/core/reservations/reservations.ts'

export function reservationOf(recordKey: string, fingerprint = 'b'.repeat(64)): Reservation {
  return {
    intents: [{ recordKey, fingerprint }],
    entities: [],
    owner: 'c'.repeat(32),
    token: 7,
    attempt: 1,
    leaseMs: 30_000,
    retentionMs: 60_000,
  }
}
