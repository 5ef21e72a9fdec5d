import { expect, test } from 'vitest'
import { BeatMemory } from '../../../src/core/nodes/beats.ts'

const EPOCH = '1:run:n1:1000:0'

/** A look at a node that takes 2 ms. */
function look(
  memory: BeatMemory,
  sentMonoMs: number,
  name: string,
  own: number,
  others: Readonly<Record<string, string>> = {},
  epoch = EPOCH,
): boolean {
  const beats = { own, others: new Map(Object.entries(others)) }
  return memory.saw(name, epoch, beats, sentMonoMs, sentMonoMs + 2)
}

test('a node that shows a smaller count than before was set back', () => {
  const memory = new BeatMemory()
  expect([5, 5, 8, 7].map((own, at) => look(memory, at * 10, 'a', own))).toEqual([false, false, false, true])
})

test('a node that shows no count any more was set back', () => {
  const memory = new BeatMemory()
  look(memory, 0, 'a', 1)
  expect(look(memory, 10, 'a', 0)).toBe(true)
})

test('a node that shows less than another one had noted of it was set back', () => {
  const memory = new BeatMemory()
  look(memory, 0, 'b', 1, { a: 'n1:9' })
  expect(look(memory, 10, 'a', 8)).toBe(true)
})

test('a node that shows less than this process wrote was set back', () => {
  const memory = new BeatMemory()
  look(memory, 0, 'a', 3)
  memory.wrote('a', EPOCH, 4, 5)
  expect(look(memory, 10, 'a', 3)).toBe(true)
})

test('what another node noted while a look was under way proves nothing about it', () => {
  const memory = new BeatMemory()
  look(memory, 10, 'b', 1, { a: 'n1:9' })
  expect(look(memory, 11, 'a', 8)).toBe(false)
  expect(look(memory, 20, 'a', 8)).toBe(true)
})

test('counts of another enrolment, and of another node under the same nonce, prove nothing', () => {
  const memory = new BeatMemory()
  look(memory, 0, 'a', 9)
  look(memory, 0, 'b', 1, { a: 'n0:50' })
  expect(look(memory, 10, 'b', 1)).toBe(false)
  expect(look(memory, 10, 'a', 9)).toBe(false)
  expect(look(memory, 20, 'a', 1, {}, '1:run:n2:2000:0')).toBe(false)
})

test.each(['', 'n1', 'n1:', 'n1:x', ':', 'n1:-3'])('the note %j is none', (note) => {
  const memory = new BeatMemory()
  look(memory, 0, 'b', 1, { a: note })
  expect(look(memory, 10, 'a', 0)).toBe(false)
})

test('a note names the last enrolment that was seen', () => {
  const memory = new BeatMemory()
  expect(memory.noteOf('a')).toBeUndefined()
  look(memory, 0, 'a', 0)
  expect(memory.noteOf('a')).toBeUndefined()
  look(memory, 10, 'a', 4)
  expect(memory.noteOf('a')).toBe('n1:4')
  look(memory, 20, 'a', 5, {}, '1:run:n2:2000:0')
  expect(memory.noteOf('a')).toBe('n2:5')
})
