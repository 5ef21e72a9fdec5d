import { expect, test } from 'vitest'
import { codeOf, importsOf, linesWith } from './source-text.ts'

test.each([
  ["import { a } from './a.ts'", [['./a.ts', 'value']]],
  ["import type { A } from './a.ts'", [['./a.ts', 'type']]],
  ["import {\n  a,\n  type B,\n} from './a.ts'", [['./a.ts', 'value']]],
  ["import * as a from './a.ts'\nimport b from 'b'", [['./a.ts', 'value'], ['b', 'value']]], // biome-ignore format: a row
  ["import './a.ts'", [['./a.ts', 'value']]],
  ["const a = await import('./a.ts')", [['./a.ts', 'value']]],
  ["export { a } from './a.ts'", [['./a.ts', 're-export']]],
  ["export * from './a.ts'", [['./a.ts', 're-export']]],
  ["export const from = 'b'", []],
  ["// import { a } from './a.ts'", []],
  ["/* import './a.ts' */", []],
])('%j', (source, expected) => {
  const found = importsOf(source).map(({ specifier, typeOnly, reExport }) => [
    specifier,
    reExport ? 're-export' : typeOnly ? 'type' : 'value',
  ])
  expect(found).toEqual(expected)
})

test('code is the source without comments and strings, on the same lines', () => {
  const source = "/* one\n two */ const url = 'http://process.env' // process.env\nprocess.exit()"
  expect(linesWith(/process/, codeOf(source))).toEqual(['3: process.exit()'])
})
