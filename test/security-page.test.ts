/** docs/operations/security.md names tests that exist, and every code of a limit in docs/reference/http.md is reached by one. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')
const page = readFileSync(join(root, 'docs/operations/security.md'), 'utf8')

test('every test that the page names is there, and every row of hostile input names one', () => {
  const named = [...page.matchAll(/`(test\/[^`]+)`/g)].map(([, path = '']) => path)
  expect(named.length).toBeGreaterThan(20)
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([])
  const section = page.split(/^## /m).find((text) => text.startsWith('What is done with hostile input')) ?? ''
  const table = section.slice(0, section.indexOf('!['))
  const rows = [...table.matchAll(/^\| (?!class|---)(.+)$/gm)].map(([, row = '']) => row)
  expect(rows.length).toBeGreaterThan(15)
  expect(rows.filter((row) => !/`(test\/|npm run )/.test(row))).toEqual([])
})
