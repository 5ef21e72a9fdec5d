// The order of entries and the text of a cursor.
import { describe, expect, test } from 'vitest'
import { cursorOf, inOrder, NEWEST, pageOf, placeOf } from '../../../src/core/coordination/audit-log.ts'

const place = (atWallMs: number, id: string) => ({ atWallMs, id })

test.each([
  ['an earlier moment', place(1, 'b'), place(2, 'a'), -1],
  ['one moment, a smaller id', place(1, 'a'), place(1, 'b'), -1],
  ['the same', place(1, 'a'), place(1, 'a'), 0],
  ['after every entry', place(Date.now(), '~'), NEWEST, -1],
])('%s', (_, a, b, order) => {
  expect(Math.sign(inOrder(a, b))).toBe(order)
  expect(Math.sign(inOrder(b, a))).toBe(order === 0 ? 0 : -order)
})

describe('a cursor', () => {
  test.each([place(0, 'orphan:0123456789abcdef:7'), place(1_763_900_000_000, 'operator:ende:"ännchen" \n')])(
    'is read as it was written: %j',
    (one) => {
      expect(placeOf(cursorOf(one))).toEqual(one)
    },
  )

  test.each([
    '',
    '1',
    '1.',
    '.YQ',
    'x.YQ',
    '1.Y Q',
    '-1.YQ',
    '12345678901234567.YQ',
    `1.${'a'.repeat(2_801)}`,
  ])('is refused: %j', (text) => {
    expect(placeOf(text)).toBeUndefined()
  })
})

test.each([
  [[], 2, [], false],
  [[1, 2], 2, [1, 2], false],
  [[1, 2, 3], 2, [2, 3], true],
])('of %j a page of %i has %j, and says whether there are older ones', (read, limit, shown, more) => {
  const { entries, cursor } = pageOf(
    read.map((at) => place(at, 'x')),
    limit,
  )
  expect(entries.map(({ atWallMs }) => atWallMs)).toEqual(shown)
  expect(cursor).toBe(more ? cursorOf(place(shown[0] ?? 0, 'x')) : undefined)
})
