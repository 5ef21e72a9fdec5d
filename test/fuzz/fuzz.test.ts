/** The short version of `npm run campaign -- fuzz`: seeded, the seed printed, and the same oracle. */
import { expect, test } from 'vitest'
import { seededRandom, seedOfRun } from '../support/seeded-random.ts'
import { fuzzAnswers } from './answers.ts'
import { fuzzCalls } from './calls.ts'
import { fuzzRequests } from './requests.ts'

test('600 mutated requests: exactly those answered 2xx were executed, and each is one request', async () => {
  const random = seededRandom(seedOfRun('mutated requests'))
  const { broken, executed } = await fuzzRequests({ requests: 600, atOnce: 300, random })
  expect(broken).toEqual([])
  expect(executed).toBeGreaterThan(100)
})

test('250 mutated answers: a client gets a well-formed answer, and a retry the same or none', async () => {
  const random = seededRandom(seedOfRun('mutated answers'))
  const { broken, replayed } = await fuzzAnswers({ answers: 250, atOnce: 250, random })
  expect(broken).toEqual([])
  expect(replayed).toBeGreaterThan(50)
})

test('500 mutated calls of the reservation API: it lives, and held reservations stay held', async () => {
  const random = seededRandom(seedOfRun('mutated calls'))
  const { broken, reserved } = await fuzzCalls({ calls: 500, atOnce: 250, random })
  expect(broken).toEqual([])
  expect(reserved).toBeGreaterThan(10)
})
