import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { runStorm } from '../../src/demo/storm.ts'
import { listening } from '../support/listening.ts'

test('each payment is sent as often as configured, and half of them only after the half-way hook', async () => {
  const sent: string[] = []
  const server = createServer((request, response) => {
    sent.push(String(request.headers['idempotency-key']))
    request.resume().on('end', () => response.writeHead(201).end('{}'))
  })
  await using application = await listening(server)
  let before: readonly string[] = []
  const tally = await runStorm({
    proxyUrl: application.origin,
    payments: 4,
    copies: 3,
    concurrency: 5,
    onAnswer: () => {},
    onHalfWay: async () => {
      before = [...sent]
    },
  })
  const twoTimesThree = (one: string, other: string) => [one, one, one, other, other, other]
  expect(before.toSorted()).toEqual(twoTimesThree('payment-1', 'payment-2'))
  expect(sent.slice(before.length).toSorted()).toEqual(twoTimesThree('payment-3', 'payment-4'))
  expect(tally).toMatchObject({ answered: 12, created: 12, errors: 0, differing: 0 })
})
