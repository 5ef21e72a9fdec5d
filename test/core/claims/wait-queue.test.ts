// What one node does with the queue entries of a record.
import { expect, test } from 'vitest'
import {
  ALIVE_MAX_MS,
  type QueueEntry,
  updateEntry,
  type WaitQueue,
} from '../../../src/core/claims/wait-queue.ts'

const NOW = 1_000_000
const [A, B] = ['a'.repeat(16), 'b'.repeat(16)]
const says = (process: string, more: Partial<QueueEntry> = {}): QueueEntry => ({
  process,
  first: 0,
  last: 0,
  draws: 0,
  openTo: 0,
  aliveMs: 2_000,
  ...more,
})

/** The queue after all of them have been updated, in one moment. */
function queueOf(...entries: readonly QueueEntry[]): WaitQueue | undefined {
  return entries.reduce<WaitQueue | undefined>(
    (queue, entry) => updateEntry(queue, entry, NOW).queue,
    undefined,
  )
}

test('an update returns the largest number and the first of the other processes', () => {
  const queue = queueOf(says(A, { first: 3, last: 7 }), says(B, { first: 5, last: 6 }))
  const { reply } = updateEntry(queue, says('c'.repeat(16), { draws: 2 }), NOW)
  expect(reply).toEqual({ highest: 7, ahead: { number: 3, process: A }, openTo: 0, nodeMs: NOW })
})

test('a process that draws a number is behind all others until that number is known', () => {
  const queue = queueOf(says(A, { first: 3, last: 7 }), says(B, { draws: 2 }))
  expect(queue?.slots.get(B)).toEqual({ first: 8, last: 9, untilNodeMs: NOW + 2_000 })
})

test('of two processes with the same number the one with the smaller name is first', () => {
  const queue = queueOf(says(B, { first: 4, last: 4 }), says(A, { first: 4, last: 4 }))
  expect(updateEntry(queue, says('c'.repeat(16)), NOW).reply.ahead).toEqual({ number: 4, process: A })
})

test('an entry replaces the one before; an empty one leaves, and the last to leave ends the queue', () => {
  const one = queueOf(says(A, { first: 1, last: 9 }), says(A, { first: 8, last: 9 }), says(B, { draws: 1 }))
  expect(one?.slots.get(A)).toMatchObject({ first: 8, last: 9 })
  expect(updateEntry(one, says(A), NOW).queue?.slots.has(A)).toBe(false)
  expect(updateEntry(updateEntry(one, says(A), NOW).queue, says(B), NOW).queue).toBeUndefined()
})

test('an entry that is not updated in time is gone, and so is one too far in the future', () => {
  const queue = queueOf(says(A, { first: 1, last: 1 }))
  const look = (atMs: number) => updateEntry(queue, says(B, { draws: 1 }), atMs).reply.ahead
  expect(look(NOW + 1_999)).toEqual({ number: 1, process: A })
  expect(look(NOW + 2_000)).toBeUndefined()
  expect(look(NOW - ALIVE_MAX_MS)).toBeUndefined()
})

test('numbers up to the open one do not wait, and new numbers are above it', () => {
  const queue = queueOf(says(A, { first: 2, last: 5 }), says(B, { first: 3, last: 3, openTo: 9 }))
  expect(updateEntry(queue, says(A, { first: 2, last: 5 }), NOW).reply).toMatchObject({
    highest: 9,
    openTo: 9,
  })
})
