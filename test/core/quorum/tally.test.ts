import { describe, expect, test } from 'vitest'
import { bestOf } from '../../../src/core/quorum/tally.ts'
import { outcomeSaying } from '../../support/encoded-outcome.ts'

describe('the outcome of a ballot, where copies differ', () => {
  const intact = outcomeSaying('one')
  const damaged = Buffer.from(intact)
  damaged.writeUInt8(damaged.readUInt8(damaged.length - 1) ^ 1, damaged.length - 1)
  const other = outcomeSaying('two')
  const copy = (bytes: Buffer, acceptedToken = 10) => ({ acceptedToken, outcome: Buffer.from(bytes) })

  test('without an accepted outcome there is no result', () => {
    expect(bestOf([], 3)).toBeUndefined()
  })
  test('the largest ballot decides, and only its copies count', () => {
    expect(bestOf([copy(intact), copy(other, 20), copy(intact)], 3)).toEqual({
      best: copy(other, 20),
      holders: 1,
    })
  })
  test('an intact copy stands in for a damaged one, whose node accepted it all the same', () => {
    expect(bestOf([copy(damaged), copy(intact), copy(intact)], 3)).toEqual({ best: copy(intact), holders: 3 })
  })
  test('where every copy is damaged, the result is one of them, and its reader detects the damage', () => {
    expect(bestOf([copy(damaged), copy(damaged)], 3)).toEqual({ best: copy(damaged), holders: 2 })
  })
  test('a ballot with a majority decides, though a minority shows a larger one', () => {
    const holders = [copy(intact), copy(intact, 20), copy(intact), copy(intact)]
    expect(bestOf(holders, 3)).toEqual({ best: copy(intact), holders: 3 })
  })
  test('equal bytes at two ballots do not add up to a majority', () => {
    const holders = [copy(intact), copy(intact, 20), copy(intact)]
    expect(bestOf(holders, 3)).toEqual({ best: copy(intact, 20), holders: 1 })
  })
  test('two intact outcomes at one ballot are never counted together', () => {
    expect(bestOf([copy(other), copy(intact), copy(intact)], 3)).toEqual({ best: copy(intact), holders: 2 })
  })
})
