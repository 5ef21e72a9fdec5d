/** A time without a unit, or with a fraction, is refused with a sentence and has no effect. */
import { expect, test } from 'vitest'
import { duringTests } from '../../support/during-tests.ts'
import { startReservationApi } from '../../support/reservation-api.ts'

const api = duringTests(() => startReservationApi())

const members = ['lease', 'retention', 'wait'] as const
const wrong = [30, 1.5, '30', '1.5s', '30 s', '30sec', '-1s', ''] as const

test.each(members.flatMap((member) => wrong.map((value) => [member, value] as const)))(
  '%s of %j',
  async (member, value) => {
    const call = { session_id: 's', reserved_value: 'durations', [member]: value }
    const { status, body } = await api.call('/v1/reservations', call)
    expect([status, body.code]).toEqual([400, 'request-invalid'])
    expect(JSON.stringify(body)).toContain(
      JSON.stringify('must be a whole number and its unit (ms, s, m, h or d): "30s"').slice(1, -1),
    )
    const read = await api.call('/v1/reservations?value=durations')
    expect(read.body.state).toBe('FREE')
  },
)
