/** An id is refused for good only where that is known: not while too few nodes answer to say with which secret it was signed. */
import { expect, test } from 'vitest'
import {
  type OpenedId,
  openReservationId,
  reservationIdOf,
} from '../../../src/core/reservations/reservation-id.ts'
import { reservationOf } from '../../support/reservation-of.ts'

const [OURS, NEW, FOREIGN] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte)) as [Buffer, Buffer, Buffer]

const reservation = reservationOf(`dedup:t:e:v:${'a'.repeat(64)}`)
const found = (secret: Buffer): OpenedId => ({ kind: 'reservation', reservation, secret })
const signedWith = (secret: Buffer) => reservationIdOf(reservation, secret)

test.each<[string, string, Buffer[], Buffer[] | undefined, OpenedId]>([
  ['signed with the present secret', signedWith(OURS), [OURS], undefined, found(OURS)],
  ['signed with the secret before it', signedWith(OURS), [NEW, OURS], undefined, found(NEW)],
  ['signed with a secret that was agreed on since', signedWith(NEW), [OURS], [NEW, OURS], found(NEW)],
  ['signed with none, and the nodes said so', signedWith(FOREIGN), [OURS], [OURS], { kind: 'lost' }],
  ['signed with none that is known here', signedWith(FOREIGN), [OURS], undefined, { kind: 'unavailable' }],
  ['of any kind, before a secret is known', signedWith(OURS), [], undefined, { kind: 'unavailable' }],
])('an id %s', async (_, id, current, refreshed, expected) => {
  const secret = { current: async () => current, refreshed: async () => refreshed }
  expect(await openReservationId(id, secret)).toEqual(expected)
})

test.each(['', 'order-4711', 'r1_', 'r1_AAAB', 'r2_AAAB', `${signedWith(OURS)}=`, `r1_${'A'.repeat(5_000)}`])(
  'what has no form of an id is foreign, and no node is asked: %s',
  async (text) => {
    const asked = async () => {
      throw new Error('asked')
    }
    expect(await openReservationId(text, { current: asked, refreshed: asked })).toEqual({ kind: 'foreign' })
  },
)
