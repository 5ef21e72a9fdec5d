// Which changes of the list of nodes keep every promise, as a table and by enumeration.
import { expect, test } from 'vitest'
import {
  groupList,
  markIn,
  membersDiffer,
  nodesIn,
  sameMark,
  sameMembers,
  whyNotChange,
} from '../../../src/core/nodes/fitness.ts'

const of = (letters: string) => [...letters]

test.each<[from: string, to: string, may: boolean]>([
  // Growing by two.
  ['abc', 'abcde', true],
  ['abcde', 'abcdefg', true],
  // Three stay, and a majority of seven is four.
  ['abc', 'abcdefg', false],
  // A server moves.
  ['abc', 'abd', true],
  ['abcde', 'abcdf', true],
  ['abcde', 'abcfg', true],
  ['abcde', 'abfgh', false],
  ['abc', 'ade', false],
  // Growing and moving at once.
  ['abc', 'abdef', false],
  // Of a majority of five only one may stay.
  ['abcde', 'abc', false],
  ['abcdefg', 'abcde', false],
])('from %s to %s: %s', (from, to, may) => {
  expect(whyNotChange(of(from), of(to)) === undefined).toBe(may)
})

test('a change is safe where every majority that is read before a new node votes meets every old majority', () => {
  const subsets = (all: readonly string[], size: number): string[][] =>
    size === 0
      ? [[]]
      : all.flatMap((first, at) => subsets(all.slice(at + 1), size - 1).map((rest) => [first, ...rest]))
  const majority = (all: readonly string[]) => (all.length + 1) / 2
  for (const from of ['abc', 'abcde', 'abcdefg'])
    for (const size of [3, 5, 7])
      for (let stay = 0; stay <= Math.min(from.length, size); stay += 1) {
        const staying = of(from).slice(0, stay)
        const to = [...staying, ...of('tuvwxyz').slice(0, size - stay)]
        const asked = subsets(staying, majority(to))
        const safe =
          asked.length > 0 &&
          subsets(of(from), majority(of(from))).every((knows) =>
            asked.every((some) => some.some((name) => knows.includes(name))),
          )
        expect([from, to.join(''), whyNotChange(of(from), to) === undefined]).toEqual([
          from,
          to.join(''),
          safe,
        ])
      }
})

test('the order of a list has no meaning; the sentence shows both lists', () => {
  expect(sameMembers(of('abc'), of('cab'))).toBe(true)
  expect(sameMembers(of('abc'), of('abcde'))).toBe(false)
  expect(membersDiffer(of('cba'), of('abcde')).reason).toContain(
    'the nodes of its cluster are a, b, c, and this configuration has a, b, c, d, e',
  )
})

test('the list of one of several groups names all groups in one order; an only group names none', () => {
  const list = groupList(of('cab'), 'south', ['south', 'north'])
  expect(markIn(list)).toEqual({ group: 'south', groups: ['north', 'south'] })
  expect(nodesIn(list)).toEqual(of('cab'))
  expect(groupList(of('abc'), 'one', ['one'])).toEqual(of('abc'))
  expect(markIn(of('abc'))).toBeUndefined()
  // A group that the others abandoned: no configuration has a list like that.
  expect(markIn(groupList(of('abc'), 'south', ['north']))).toEqual({ group: 'south', groups: ['north'] })
})

test.each<[one: readonly string[], other: readonly string[], same: boolean]>([
  [groupList(of('abc'), 'a', ['a', 'b']), groupList(of('abcde'), 'a', ['b', 'a']), true],
  [groupList(of('abc'), 'a', ['a', 'b']), groupList(of('abc'), 'b', ['a', 'b']), false],
  [groupList(of('abc'), 'a', ['a', 'b']), groupList(of('abc'), 'a', ['a', 'b', 'c']), false],
  [groupList(of('abc'), 'a', ['a', 'b']), of('abc'), false],
  [of('abc'), of('abd'), true],
])('the marks of %j and %j are the same: %j', (one, other, same) => {
  expect(sameMark(one, other)).toBe(same)
  if (!same) expect(sameMembers(one, other)).toBe(false)
})
