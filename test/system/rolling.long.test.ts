/** The short version of `npm run campaign -- rolling`: every node gets another image, one at a time, and nobody notices. */
import { test } from 'vitest'
import { isUnnoticed } from '../rolling/unnoticed.ts'

test(
  'five nodes are changed one at a time under load: no request fails, none is carried out twice',
  {
    timeout: 120_000,
  },
  () => isUnnoticed([0, 1, 2, 3, 4], 200),
)
