/** This process's clocks and timers, behind the `Clock` port. */

import { randomFillSync } from 'node:crypto'
import type { Clock, Random, Timer } from '../core/clock.ts'

export const systemClock: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  timer: (delayMs, fire) => new SystemTimer(delayMs, fire),
}

/** A class, because a request starts three to five of them. */
class SystemTimer implements Timer {
  readonly #handle: NodeJS.Timeout

  constructor(delayMs: number, fire: () => void) {
    this.#handle = setTimeout(fire, delayMs).unref()
  }

  cancel(): void {
    clearTimeout(this.#handle)
  }
}

/** Drawn together: a system call costs the same for one owner as for 256. */
const POOL_BYTES = 4_096

type RandomSource = {
  readonly fill: (bytes: Buffer) => void
  /** Of the process, with fractions as fine as it has them. */
  readonly monoMs: () => number
  readonly wallMs: () => number
}

/**
 * The moment of each draw goes into it. Processes that were started from one snapshot of a running one have the same memory, and in it
 * the same pool and the same generator of OpenSSL: with these alone two of them would draw the same owner, and the second claim of
 * a request would be taken for the first one, repeated.
 */
export function createRandom({ fill, monoMs, wallMs }: RandomSource): Random {
  const pool = Buffer.alloc(POOL_BYTES)
  let taken = pool.length

  /** What is drawn stays as unpredictable as it was: a sum modulo 2 with something else is. */
  const mixIn = (bytes: Buffer, at: number, moment: number, byteCount: number): void => {
    let rest = moment >>> 0
    for (let index = at; index < at + byteCount; index += 1) {
      bytes[index] = bytes[index]! ^ (rest & 0xff)
      rest >>>= 8
    }
  }

  const hexOf = (bytes: Buffer, from: number, byteCount: number): string => {
    mixIn(bytes, from, (monoMs() * 1e6) % 2 ** 32, Math.min(4, byteCount))
    mixIn(bytes, from + 4, wallMs() % 2 ** 32, Math.max(0, Math.min(4, byteCount - 4)))
    return bytes.toString('hex', from, from + byteCount)
  }

  return {
    // Jitter only: what must not be guessable uses hex().
    fraction: () => Math.random(),
    hex: (byteCount) => {
      if (byteCount > pool.length) {
        const bytes = Buffer.alloc(byteCount)
        fill(bytes)
        return hexOf(bytes, 0, byteCount)
      }
      if (taken + byteCount > pool.length) {
        fill(pool)
        taken = 0
      }
      const hex = hexOf(pool, taken, byteCount)
      // No byte is used twice or kept.
      pool.fill(0, taken, taken + byteCount)
      taken += byteCount
      return hex
    },
  }
}

export const systemRandom: Random = createRandom({
  fill: (bytes) => void randomFillSync(bytes),
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
})
