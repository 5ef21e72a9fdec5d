/** Randomness that a failing test can repeat: mulberry32, behind the `Random` port. Never for anything secret. */
import type { Random } from '../../src/core/clock.ts'

export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    fraction: next,
    hex: (byteCount) =>
      Array.from({ length: byteCount }, () =>
        Math.floor(next() * 256)
          .toString(16)
          .padStart(2, '0'),
      ).join(''),
  }
}

/**
 * The seed of this run, printed so that a failure can be repeated. Fixed unless FENCEPOST_TEST_SEED gives another or is
 * `new`: whether a change passes depends on the change alone. Campaigns use new seeds.
 */
export function seedOfRun(what: string): number {
  const seed = givenSeed()
  console.info(`${what}: FENCEPOST_TEST_SEED=${seed}`)
  return seed
}

export function givenSeed(): number {
  const given = process.env.FENCEPOST_TEST_SEED ?? '20261120'
  const seed = given === 'new' ? Math.floor(Math.random() * 2 ** 31) : Number(given)
  if (!Number.isSafeInteger(seed))
    throw new Error(`FENCEPOST_TEST_SEED is a whole number or new, not ${given}`)
  return seed
}
