/**
 * Seeded randomness: the only one in a simulated history.
 *
 * Owns a small generator and its draws. Streams for different purposes are split by name, so a plan without one actor
 * leaves the throws of the others unchanged. Source: B. Steele and S. Vigna, xoshiro128**; seeded by splitmix32.
 */

import type { Random } from '../../src/core/clock.ts'

export class Dice implements Random {
  #a: number
  #b: number
  #c: number
  #d: number

  constructor(seed: number) {
    let state = seed | 0
    const next = () => {
      state = (state + 0x9e3779b9) | 0
      let mixed = state ^ (state >>> 16)
      mixed = Math.imul(mixed, 0x21f0aaad)
      mixed ^= mixed >>> 15
      mixed = Math.imul(mixed, 0x735a2d97)
      return mixed ^ (mixed >>> 15)
    }
    this.#a = next()
    this.#b = next()
    this.#c = next()
    this.#d = next()
  }

  /** Uniform over 32 bits, as an integer of either sign. */
  bits(): number {
    const scrambled = Math.imul(this.#b, 5)
    const result = Math.imul((scrambled << 7) | (scrambled >>> 25), 9)
    const shifted = this.#b << 9
    this.#c ^= this.#a
    this.#d ^= this.#b
    this.#b ^= this.#c
    this.#a ^= this.#d
    this.#c ^= shifted
    this.#d = (this.#d << 11) | (this.#d >>> 21)
    return result
  }

  fraction(): number {
    return (this.bits() >>> 0) / 0x1_0000_0000
  }

  hex(byteCount: number): string {
    let digits = ''
    while (digits.length < byteCount * 2) digits += (this.bits() >>> 0).toString(16).padStart(8, '0')
    return digits.slice(0, byteCount * 2)
  }

  /** An integer from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1))
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(choices: readonly T[]): T {
    const choice = choices[Math.floor(this.fraction() * choices.length)]
    if (choice === undefined) throw new RangeError('nothing to pick from')
    return choice
  }
}

/** Another stream for every name and number, from one seed. */
export function streamOf(seed: number, name: string, number = 0): Dice {
  let hash = seed ^ 0x811c9dc5
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193)
  return new Dice(Math.imul(hash ^ number, 0x01000193) ^ Math.imul(seed, 0x9e3779b1))
}
