/** What `npm test` leaves to `npm test -- --all`. */
import { existsSync, globSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')

test('every file of long tests has a slice beside it, which every run takes', () => {
  const long = globSync('{test,examples,packages}/**/*.long.test.ts', {
    cwd: root,
    exclude: (path) => path.includes('node_modules'),
  })
  expect(long.length).toBeGreaterThan(5)
  expect(long.filter((file) => !existsSync(join(root, file.replace('.long.', '.'))))).toEqual([])
})
