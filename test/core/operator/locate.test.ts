/** What sort of record a key is of, whatever the names of its scope. */
import { expect, test } from 'vitest'
import { sortOfRecord } from '../../../src/core/operator/locate.ts'

const HASH = 'a'.repeat(64)

test.each([
  ['shop:prod:v1', 'work'],
  ['lock:prod:v1', 'work'],
  ['shop:content:v1', 'work'],
  ['shop:prod:lock', 'work'],
  ['shop:prod:v1:lock', 'entity'],
  ['content:prod:v1:lock', 'entity'],
  ['shop:prod:v1:content', 'content'],
  ['shop:prod:lock:content', 'content'],
])('a record of %s is %s', (scope, sort) => {
  expect(sortOfRecord(`dedup:${scope}:${HASH}`)).toBe(sort)
})
