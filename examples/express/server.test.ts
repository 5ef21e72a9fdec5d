/** Twenty copies of each of five payments at once, and again afterwards: five rows, and every copy has the same answer in the end. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { eventually } from '../../test/support/eventually.ts'
import { setStage } from '../support/stage.ts'

const schema = readFileSync(new URL('../payments.sql', import.meta.url), 'utf8')

test('each payment is taken once', async () => {
  await using stage = await setStage(schema)
  const url = await stage.serve('express/server.ts')
  const pay = async (order: number) => {
    const response = await fetch(`${url}/orders/${order}/payment`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount: order }),
    })
    return { status: response.status, body: await response.text() }
  }
  // As its clients do: 409 and 503 say that it is not known yet, on a machine without time for so many at once.
  const paid = (order: number) =>
    eventually('an answer that decides', async () => {
      const answer = await pay(order)
      return ![409, 503].includes(answer.status) && answer
    })
  const orders = Array.from({ length: 100 }, (_, index) => index % 5)
  const answers = await Promise.all(orders.map(paid))
  answers.push(...(await Promise.all(orders.slice(0, 5).map(paid))))
  const first = answers.filter(({ status }) => status === 201)
  // One that was told 503 because its completion was late gets its own payment as a copy.
  expect(first.length).toBeLessThanOrEqual(5)
  expect(answers.filter(({ status }) => status === 200).length).toBe(105 - first.length)
  expect(new Set(answers.map(({ body }) => body)).size).toBe(5)
  const { rows } = await stage.pool.query('SELECT order_id, amount FROM payment ORDER BY order_id')
  expect(rows).toEqual([0, 1, 2, 3, 4].map((order) => ({ order_id: String(order), amount: order })))
})

test('connections that the database ends do not end the application', async () => {
  await using stage = await setStage(schema)
  const url = await stage.serve('express/server.ts')
  const pay = async (order: string) => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ amount: 1 })
    return (await fetch(`${url}/orders/${order}/payment`, { method: 'POST', headers, body })).status
  }
  expect(await pay('before')).toBe(201)
  await stage.pool.query(
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
  )
  await eventually('a payment afterwards', async () => (await pay('after')) < 300)
})
