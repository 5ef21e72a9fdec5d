/** The operating system's randomness, behind the `Random` port. */

import { randomFillSync } from 'node:crypto'
import type { Random } from '../core/clock.ts'

/** Drawn together: a system call costs the same for one owner as for 256. */
const pool = Buffer.alloc(4_096)
let taken = pool.length

export const systemRandom: Random = {
  // Jitter only: what must not be guessable uses hex().
  fraction: () => Math.random(),
  hex: (byteCount) => {
    if (byteCount > pool.length) return randomFillSync(Buffer.alloc(byteCount)).toString('hex')
    if (taken + byteCount > pool.length) {
      randomFillSync(pool)
      taken = 0
    }
    const hex = pool.toString('hex', taken, taken + byteCount)
    // No byte is used twice or kept.
    pool.fill(0, taken, taken + byteCount)
    taken += byteCount
    return hex
  },
}
