/** The quotas of one tenant, and the bounded memory of counting tenants, whatever names arrive. */
import { describe, expect, test } from 'vitest'
import { createTenantQuotas, type Slot, TENANTS_MAX } from '../../../src/core/request/tenant-quotas.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

function quotas(differs: { inFlightMax?: number; newRecordsPerSecondMax?: number } = {}) {
  const clock = new VirtualClock()
  return {
    clock,
    quotas: createTenantQuotas({ inFlightMax: 1_000, newRecordsPerSecondMax: 1_000, ...differs }, clock),
  }
}

const slotFrom = (taken: ReturnType<ReturnType<typeof createTenantQuotas>['enter']>): Slot => {
  if (taken.kind !== 'slot') throw new Error(`refused: ${JSON.stringify(taken)}`)
  return taken
}

describe('requests under way', () => {
  test('requests under way are bounded for one tenant without an effect on another', () => {
    const { quotas: of } = quotas({ inFlightMax: 2 })
    const first = slotFrom(of.enter('a'))
    slotFrom(of.enter('a'))
    expect(of.enter('a')).toMatchObject({ kind: 'reached', quota: 'in-flight', limit: 2 })
    expect(of.enter('b').kind).toBe('slot')
    first[Symbol.dispose]()
    first[Symbol.dispose]()
    expect(of.enter('a').kind).toBe('slot')
    expect(of.enter('a').kind).toBe('reached')
  })
})

describe('new records', () => {
  test('new records may come in a burst of one second, and then at that rate', async () => {
    const { clock, quotas: of } = quotas({ newRecordsPerSecondMax: 7 })
    const taken = () => Array.from({ length: 20 }, () => of.enter('a')).filter((one) => one.kind === 'slot')
    expect(taken().length).toBe(7)
    expect(of.enter('a')).toMatchObject({ kind: 'reached', quota: 'new-records', limit: 7 })
    expect(of.enter('b').kind).toBe('slot')
    await clock.advance(3 * (1_000 / 7))
    expect(taken().length).toBe(3)
    await clock.advance(60_000)
    expect(taken().length).toBe(7)
  })

  test('existing records do not count as new', () => {
    const { quotas: of } = quotas({ newRecordsPerSecondMax: 2 })
    for (let replay = 0; replay < 50; replay += 1) {
      const slot = slotFrom(of.enter('a'))
      slot.notNew()
      slot.notNew()
    }
    expect([of.enter('a').kind, of.enter('a').kind, of.enter('a').kind]).toEqual(['slot', 'slot', 'reached'])
  })

  test('a new record beyond the rate is refused with the time after which one more is accepted', async () => {
    const { clock, quotas: of } = quotas({ newRecordsPerSecondMax: 4 })
    for (let taken = 0; taken < 4; taken += 1) of.enter('a')
    const refused = of.enter('a')
    if (refused.kind !== 'reached') throw new Error('accepted')
    await clock.advance(refused.retryAfterMs)
    expect(of.enter('a').kind).toBe('slot')
  })
})

test('invented tenants, ten times the limit, are not remembered, share one count, and are forgotten after a second', async () => {
  const { clock, quotas: of } = quotas({ newRecordsPerSecondMax: 10 })
  let accepted = 0
  for (let index = 0; index < 10 * TENANTS_MAX; index += 1) {
    const taken = of.enter(`invented-${index}`)
    if (taken.kind !== 'slot') continue
    accepted += 1
    taken[Symbol.dispose]()
  }
  expect(accepted).toBe(TENANTS_MAX + 10)
  expect(of.remembered).toBe(TENANTS_MAX + 1)
  await clock.advance(1_100)
  expect(of.enter('known').kind).toBe('slot')
  expect(of.remembered).toBeLessThanOrEqual(3)
})
