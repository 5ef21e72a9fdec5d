/** A slice of `rolling.long.test.ts`: a node gets another image with its volume, then one with an empty volume. */
import { test } from 'vitest'
import { isUnnoticed } from '../rolling/unnoticed.ts'

test(
  'two of five nodes are changed one at a time under load: no request fails, none is executed twice',
  {
    timeout: 120_000,
  },
  () => isUnnoticed([0, 3], 80),
)
