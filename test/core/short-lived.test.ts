import { expect, test } from 'vitest'
import { ShortLivedMap } from '../../src/core/short-lived.ts'

test('it holds what was set and not deleted, in the order in which it came', () => {
  const map = new ShortLivedMap<string, { of: number }>()
  map.set('a', { of: 1 })
  map.set('b', { of: 2 })
  map.set('a', { of: 3 })
  expect([map.size, map.get('a'), map.get('b'), map.get('c')]).toEqual([2, { of: 3 }, { of: 2 }, undefined])
  expect([map.oldestKey, [...map.values()]]).toEqual(['a', [{ of: 3 }, { of: 2 }]])
  map.delete('a')
  map.delete('c')
  expect([map.size, map.get('a'), map.oldestKey, [...map.values()]]).toEqual([1, undefined, 'b', [{ of: 2 }]])
})

test('what is walked over may be deleted meanwhile', () => {
  const map = new ShortLivedMap<number, { of: number }>()
  for (let of = 0; of < 5; of += 1) map.set(of, { of })
  for (const { of } of map.values()) if (of % 2 === 0) map.delete(of)
  expect([...map.values()]).toEqual([{ of: 1 }, { of: 3 }])
})
