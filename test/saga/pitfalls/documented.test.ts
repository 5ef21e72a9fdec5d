// docs/guide/saga.md lists the pitfalls 1 to 22, each with the file that has its test: both directions.
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'

const PITFALLS = 22

test('every pitfall of docs/guide/saga.md has its test under its number, and shows the usual code and ours', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/guide/saga.md'), 'utf8')
  const rows = [...page.matchAll(/^\| (\d+) \|.*\| (\w+) \|$/gm)].map(
    ([, number, file]) => `${number} ${file}`,
  )
  const tested = globSync('*.test.ts', { cwd: import.meta.dirname }).flatMap((file) =>
    readFileSync(join(import.meta.dirname, file), 'utf8')
      .split(/^describe\(/m)
      .slice(1)
      .map((block) => ({ number: Number(/^'(\d+) ·/.exec(block)?.[1]), file, block })),
  )
  const inOrder = tested.toSorted((one, other) => one.number - other.number)
  expect(inOrder.map(({ number }) => number)).toEqual(
    Array.from({ length: PITFALLS }, (_, index) => index + 1),
  )
  expect(rows).toEqual(inOrder.map(({ number, file }) => `${number} ${basename(file, '.test.ts')}`))
  for (const { number, block } of inOrder) {
    expect(block, `${number}: the usual code`).toMatch(/test\('(usual|the limit): /)
    expect(block, `${number}: ours`).toMatch(/test\('here: /)
  }
})
