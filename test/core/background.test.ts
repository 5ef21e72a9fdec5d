import { expect, test } from 'vitest'
import { createBackground } from '../../src/core/background.ts'

test('no more work than the limit runs, and refused work never begins', async () => {
  const background = createBackground(1, () => {})
  const { promise, resolve } = Promise.withResolvers<void>()
  let begun = 0
  const work = () => {
    begun += 1
    return promise
  }
  expect([background.start(work), background.start(work)]).toEqual([true, false])
  expect([begun, background.running]).toEqual([1, 1])
  resolve()
  await background.drained()
  expect(background.running).toBe(0)
  expect(background.start(work)).toBe(true)
})

test('work that follows something else is never refused and takes no place, and the drain waits for it', async () => {
  const background = createBackground(1, () => {})
  const { promise, resolve } = Promise.withResolvers<void>()
  background.follow(() => promise)
  background.follow(() => promise)
  expect(background.running).toBe(0)
  expect(background.start(() => Promise.resolve())).toBe(true)
  let over = false
  const drained = background.drained().then(() => {
    over = true
  })
  await Promise.resolve()
  expect(over).toBe(false)
  resolve()
  await drained
})

test('drained also waits for work that was started by other work', async () => {
  const background = createBackground(5, () => {})
  const done: string[] = []
  background.start(async () => {
    await Promise.resolve()
    background.start(async () => {
      await Promise.resolve()
      done.push('second')
    })
    done.push('first')
  })
  await background.drained()
  expect(done).toEqual(['first', 'second'])
})

test('a failure is reported and stops no other work', async () => {
  const failures: unknown[] = []
  const background = createBackground(5, (cause) => void failures.push(cause))
  background.start(() => Promise.reject(new Error('a fault')))
  background.start(() => {
    throw new Error('another')
  })
  await background.drained()
  expect(failures.map(String).sort()).toEqual(['Error: a fault', 'Error: another'])
  expect(background.running).toBe(0)
})
