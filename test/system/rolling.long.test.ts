/** The short version of `npm run campaign -- rolling`: every node gets another image, one at a time, unnoticed. */
import { test } from 'vitest'
import { isUnnoticed } from '../rolling/unnoticed.ts'

test(
  'five nodes are changed one at a time under load: no request fails, none is executed twice',
  {
    timeout: 120_000,
  },
  () => isUnnoticed([0, 1, 2, 3, 4], 200),
)
