/** The house stays small: no number above its limit. */
import { expect, test } from 'vitest'
import { isAbove, measureHouse, standingTwice } from '../../scripts/house.ts'

test('no number of `npm run house` is above its limit, and no limit below its target', () => {
  const { rows } = measureHouse()
  expect(rows.filter(isAbove)).toEqual([])
  expect(rows.filter(({ limit, target = limit }) => limit < target)).toEqual([])
})

test('a place of six lines counts once, however long it is, and imports and indentation do not', () => {
  const same = ['a()', 'b()', '', 'c()', 'd()', 'e()', 'f()', 'g()']
  const imports = Array.from({ length: 8 }, (_, n) => `import { x${n} } from './x${n}.ts'`)
  const texts = [
    { file: 'one.ts', lines: [...imports, ...same, 'only here'] },
    { file: 'two.ts', lines: [...imports, 'not there', ...same.map((line) => `  ${line}`)] },
    { file: 'three.ts', lines: ['a()', 'b()', 'c()', 'd()', 'e()'] },
  ]
  expect(standingTwice(texts)).toEqual(['two.ts:10'])
})
