/** What is drawn as owners, nonces and secrets. */
import { randomFillSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { createRandom, systemRandom } from '../../src/system/clock.ts'

/** A process whose memory is a copy: the same bytes at the same draws. */
function restored(monoMs: () => number, wallMs: () => number) {
  return createRandom({ fill: (bytes) => void bytes.fill(0x5a), monoMs, wallMs })
}

/** Bug: both drew the same owners, so the second of two claims was taken for the first one, repeated, and both executed the request. */
test.each([
  ['a millionth of a second apart', 0.001, 0],
  ['at one moment of the restored clock, and a millisecond apart on the wall', 0, 1],
])('two processes restored from one snapshot draw different owners, %s', (_what, monoMs, wallMs) => {
  const [one, other] = [
    restored(
      () => 5_000.25,
      () => 1_790_000_000_000,
    ),
    restored(
      () => 5_000.25 + monoMs,
      () => 1_790_000_000_000 + wallMs,
    ),
  ]
  expect(one.hex(16)).not.toBe(other.hex(16))
})

test.each([1, 3, 4, 7, 8, 16, 4_096, 5_000])(
  '%i bytes are twice as many digits, and no two draws are equal',
  (byteCount) => {
    const drawn = Array.from({ length: 3 }, () => systemRandom.hex(byteCount))
    for (const hex of drawn) expect(hex).toMatch(new RegExp(`^[0-9a-f]{${2 * byteCount}}$`))
    if (byteCount > 4) expect(new Set(drawn).size).toBe(drawn.length)
  },
)

test('every byte of a draw is as random as what it is drawn from', () => {
  const random = createRandom({
    fill: (bytes) => void randomFillSync(bytes),
    monoMs: () => 1,
    wallMs: () => 2,
  })
  const seen = Array.from({ length: 16 }, () => new Set<string>())
  for (let draw = 0; draw < 4_000; draw += 1) {
    const hex = random.hex(16)
    for (const [index, values] of seen.entries()) values.add(hex.slice(2 * index, 2 * index + 2))
  }
  // Of 256 values 4,000 draws miss one with a probability of 256 · (255/256)^4000, four in a hundred thousand.
  expect(Math.min(...seen.map(({ size }) => size))).toBeGreaterThan(250)
})
