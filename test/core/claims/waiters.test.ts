import { expect, test } from 'vitest'
import { createWaiters } from '../../../src/core/claims/waiters.ts'

test('no more than the limit wait for one key, and another key has a limit of its own', () => {
  const waiters = createWaiters(2, 100)
  expect(waiters.enter('a')).toBeDefined()
  expect(waiters.enter('a')).toBeDefined()
  expect(waiters.enter('a')).toBeUndefined()
  expect(waiters.enter('b')).toBeDefined()
  expect(waiters.limit).toBe(2)
})

test('no more than the limit of the process wait over all keys', () => {
  const waiters = createWaiters(10, 2)
  waiters.enter('a')
  waiters.enter('b')
  expect(waiters.enter('c')).toBeUndefined()
})

test('a slot that is given back is free again, and only once', () => {
  const waiters = createWaiters(1, 1)
  const slot = waiters.enter('a')
  slot?.[Symbol.dispose]()
  slot?.[Symbol.dispose]()
  expect(waiters.enter('a')).toBeDefined()
  expect(waiters.enter('a')).toBeUndefined()
})

test('a refusal takes no slot', () => {
  const waiters = createWaiters(1, 10)
  const slot = waiters.enter('a')
  for (let refused = 0; refused < 20; refused += 1) waiters.enter('a')
  slot?.[Symbol.dispose]()
  expect(waiters.enter('b')).toBeDefined()
  expect(waiters.enter('a')).toBeDefined()
})
