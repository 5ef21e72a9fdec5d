/** What the image holds beside Node, whose times and modes do not depend on when, where and under which umask it is built. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { epochOf, placeImageFiles } from '../../scripts/image-files.ts'
import { folderOfTests } from '../support/during-tests.ts'
import { contentOf } from '../support/folder-content.ts'

const folder = folderOfTests('image-files')

test('every file has the time that was given, and a mode of two', { timeout: 240_000 }, async () => {
  await placeImageFiles(folder, 1_750_000_000)
  const content = contentOf(folder)
  expect(content.length).toBeGreaterThan(20)
  expect(content.filter((line) => !/ (755|644) 1750000000 /.test(line))).toEqual([])
  const programs = content
    .filter((line) => / 755 \d+ (?!folder)/.test(line))
    .map((line) => line.split(' ')[0])
  expect(programs).toEqual(['dist/fencepost.cjs', 'dist/main.js'])
  for (const file of ['LICENSE', 'package.json', 'sbom.cdx.json', 'dist/THIRD-PARTY-LICENSES.txt'])
    expect(existsSync(join(folder, file)), file).toBe(true)
})

test.each([
  [undefined, 0],
  ['0', 0],
  ['1750000000', 1_750_000_000],
])('SOURCE_DATE_EPOCH=%s is %s', (given, seconds) => {
  expect(epochOf({ SOURCE_DATE_EPOCH: given })).toBe(seconds)
})

test.each(['yesterday', '-1', '1.5', '1'.repeat(13)])('SOURCE_DATE_EPOCH=%s is refused', (given) => {
  expect(() => epochOf({ SOURCE_DATE_EPOCH: given })).toThrow('at most 12 digits')
})
