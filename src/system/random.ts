/** The operating system's randomness, behind the `Random` port. */

import { randomBytes } from 'node:crypto'
import type { Random } from '../core/ports.ts'

export const systemRandom: Random = {
  // Jitter only: what must not be guessed uses hex().
  fraction: () => Math.random(),
  hex: (byteCount) => randomBytes(byteCount).toString('hex'),
}
