import { expect, test } from 'vitest'
import { bodyMemoryBytes } from '../../../src/app/listener-limits.ts'
import { createBodyMemory } from '../../../src/http/server/body-memory.ts'
import { route } from '../../support/proxy.ts'

const MIB = 2 ** 20

test.each<[before: number, what: 'take' | 'keep', bytes: number, fits: boolean]>([
  // Of 100 bytes requests may fill 75, answers all.
  [0, 'take', 75, true],
  [0, 'take', 76, false],
  [60, 'take', 15, true],
  [60, 'take', 16, false],
  [75, 'take', 0, true],
  [0, 'keep', 100, true],
  [75, 'keep', 25, true],
  [75, 'keep', 26, false],
])('of 100 bytes, %i are in use: %s of %i more is %s', (before, what, bytes, fits) => {
  const full: string[] = []
  const memory = createBodyMemory(100, (of) => full.push(of))
  memory.hold().occupy(before)
  const held = memory.hold()
  expect(held[what](bytes)).toBe(fits)
  expect(memory.usedBytes).toBe(before + (fits ? bytes : 0))
  expect(full).toEqual(fits ? [] : [what === 'take' ? 'request' : 'answer'])
})

test('what one request holds is returned once, and nothing of another', () => {
  const memory = createBodyMemory(100)
  const one = memory.hold()
  const other = memory.hold()
  one.take(30)
  one.keep(10)
  other.take(20)
  one[Symbol.dispose]()
  one[Symbol.dispose]()
  expect(memory.usedBytes).toBe(20)
})

test('whether a body fits is asked without taking anything', () => {
  const memory = createBodyMemory(100)
  const held = memory.hold()
  expect([held.fits(75), held.fits(75), held.fits(76), memory.usedBytes]).toEqual([true, true, false, 0])
})

test.each<[what: string, given: number | undefined, container: number | undefined, bytes: number]>([
  ['as configured', 5 * MIB, 384 * MIB, 5 * MIB],
  ['a sixth of the container', undefined, 384 * MIB, 64 * MIB],
  ['256 MiB without a limit of the container', undefined, undefined, 256 * MIB],
  ['at least one body of the largest of a route', undefined, 12 * MIB, 4 * MIB],
])('the memory for bodies is %s', (_, given, container, bytes) => {
  const routes = [route({ bodyLimitBytes: MIB }), route({ bodyLimitBytes: 3 * MIB })]
  expect(bodyMemoryBytes({ bodyMemoryBytes: given, routes }, container)).toBe(bytes)
})
